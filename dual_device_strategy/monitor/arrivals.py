"""How many batches are READY when a step asks for one."""

import collections
import time
import weakref


class Arrivals:
    """The batches of one iterator that have reached the model device.

    The consumer of the iterator adds the batches it takes to `taken`; `ready()` is the rest.
    """

    @classmethod
    def of(cls, iterator) -> "Arrivals | None":
        """None if nothing is counted: under another strategy, or without a monitor."""
        if getattr(iterator, "counts", None) is None:
            return None
        return cls(iterator)

    def __init__(self, iterator):
        self._iterator = weakref.ref(iterator)
        self._counts = iterator.counts
        self.taken = 0
        # The dataset counts the batches of all its iterators; this one's begin here.
        self._before = self._counts.arrived_now() - iterator.arrivals()
        self._host_before = float(self._counts.host_seconds), time.perf_counter()

    def counts_of(self, iterator) -> bool:
        return self._iterator() is iterator

    def ready(self) -> int:
        """The number of batches that are READY now."""
        return max(0, self._counts.arrived_now() - self._before - self.taken)

    def time_of_next(self) -> float | None:
        """When the next batch arrived, in seconds since the epoch; None if it has not."""
        index = self._before + self.taken
        if self._counts.arrived_now() <= index:
            return None
        times = self._counts.times
        return float(times[index % times.shape[0]])

    def host_wait_share(self) -> float:
        """Share of the time since the last call in which the data device waited for the host."""
        total, now = float(self._counts.host_seconds), time.perf_counter()
        before, then = self._host_before
        self._host_before = total, now
        return (total - before) / (now - then)


def slots_of(running_input) -> dict[str, int | None]:
    """How many slots there are, and how many of them are for copies from the host."""
    if running_input is None:
        return {"slots": None, "copying_slots": None}
    return {"slots": running_input.slots, "copying_slots": running_input.copying}


class ReadyCounts:
    """Counts of READY batches over a whole run, over all its iterators.

    `follow` each iterator before it is used; then call `count` just before some of the steps ask
    for a batch, and `took` with the number of batches they took.
    """

    def __init__(self):
        self.arrivals: Arrivals | None = None
        self._latest = collections.deque(maxlen=30)
        self._unwritten: list[int] = []

    def follow(self, iterator) -> bool:
        """Counts this iterator's batches from now on; False if that is not possible."""
        # An iterator keeps its counts if it is used again later.
        if self.arrivals is None or not self.arrivals.counts_of(iterator):
            self.arrivals = Arrivals.of(iterator)
        return self.arrivals is not None

    def count(self) -> int:
        ready = self.arrivals.ready()
        self._latest.append(ready)
        self._unwritten.append(ready)
        return ready

    def took(self, batches: int) -> None:
        if self.arrivals:
            self.arrivals.taken += batches

    @property
    def empty_share(self) -> float | None:
        """The share of recent counts in which no batch was READY; None if there are too few."""
        return self._latest.count(0) / len(self._latest) if len(self._latest) >= 5 else None

    def host_wait_share(self) -> float | None:
        return self.arrivals.host_wait_share() if self.arrivals else None

    def mean_since_last(self) -> float | None:
        """The mean of the counts since the last call; None if there were none."""
        counts, self._unwritten = self._unwritten, []
        return sum(counts) / len(counts) if counts else None
