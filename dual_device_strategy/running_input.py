"""What of a strategy's input is running now."""

import contextlib
import weakref


class RunningInput:
    """The newest iterator of a strategy, its slots, and whether its batches are counted.

    `strategy.extended.running_input`.  Datasets tell it of each iterator they make.  The monitor
    finds the iterator here, because Keras keeps the one of `fit` to itself; messages and profiles
    find the number of slots.
    """

    def __init__(self, slots: int):
        self.slots = slots  # of the newest iterator; before the first one, what it will have
        self.copying = 0  # how many of them are for batches on their way from the host
        # Whether datasets that are distributed from now on count the batches that arrive.
        self.counts_arrivals = False
        self._counted = lambda: None

    def began(self, iterator, copying: int = 0) -> None:
        """A dataset has made this iterator; it is not kept alive."""
        self.slots, self.copying = iterator.slots, copying
        if iterator.counts is not None:
            self._counted = weakref.ref(iterator)

    @property
    def counted_iterator(self):
        """The newest iterator whose batches are counted, if it is still there."""
        return self._counted()

    @contextlib.contextmanager
    def counting_arrivals(self):
        """Datasets that are distributed here count the batches that arrive."""
        before, self.counts_arrivals = self.counts_arrivals, True
        try:
            yield
        finally:
            self.counts_arrivals = before
