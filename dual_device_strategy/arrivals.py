"""How many batches of an iterator are READY, by the counts of the stages."""

import time
import weakref


class Arrivals:
    """The counts of one iterator; `taken` is kept by whoever takes its batches."""

    @classmethod
    def of(cls, iterator) -> "Arrivals | None":
        """None where nothing is counted: another strategy, or counting was not asked for."""
        if getattr(iterator, "progress", None) is None:
            return None
        return cls(iterator)

    def __init__(self, iterator):
        self._iterator = weakref.ref(iterator)
        self._progress = iterator.progress
        self.taken = 0
        # Counted are the batches of all iterators of a dataset; this one's begin here.
        self._before = self._progress.arrived_now() - iterator.arrivals()
        self._host_before = float(self._progress.host_seconds), time.perf_counter()

    def counts_of(self, iterator) -> bool:
        return self._iterator() is iterator

    def ready(self) -> int:
        """Batches READY now."""
        return max(0, self._progress.arrived_now() - self._before - self.taken)

    def time_of_next(self) -> float | None:
        """When the batch after those taken arrived, in seconds since the epoch, if it has."""
        index = self._before + self.taken
        if self._progress.arrived_now() <= index:
            return None
        times = self._progress.times
        return float(times[index % times.shape[0]])

    def host_wait_share(self) -> float:
        """Share of the time since the last call that the data device waited for the host."""
        total, now = float(self._progress.host_seconds), time.perf_counter()
        before, then = self._host_before
        self._host_before = total, now
        return (total - before) / (now - then)
