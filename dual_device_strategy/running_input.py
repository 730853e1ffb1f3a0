"""What of a strategy's input is running now."""

import contextlib
import weakref
from collections.abc import Sequence

from dual_device_strategy.preparing_times import CopyTimes


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
        # One for each data device, if copies to its COPYING slots are to be timed.
        self.copy_times: Sequence[CopyTimes] = ()
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
    def timed(self, copy_times: Sequence[CopyTimes]):
        """Datasets that are distributed here count the batches that arrive, and time copies from
        the host."""
        before = self.counts_arrivals, self.copy_times
        self.counts_arrivals, self.copy_times = True, copy_times
        try:
            yield
        finally:
            self.counts_arrivals, self.copy_times = before
