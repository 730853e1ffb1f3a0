"""`slots="auto"`: the smallest number of slots that hides the jitter that was measured.

Nothing is measured in the loop itself.  `batch_counts.py` notes two times of each batch: when the
data device asked the host for it, and when it arrived on the model device.  From these follow the
time that the data device needed for the batch and the time of the step before it:

* The data device asks for batch i + 1 as soon as batch i was taken from it, which is when batch i
  had room on the model device.  If batch i arrived long after that, its arrival shows when it was
  prepared; if at once, it is only known to have been prepared by then.
* The last room is made by the step when it takes a batch.  If the batch after it arrived before
  the step asked again, this is how long the step took; if not, the step took no longer than this.

If only an upper bound of a time is known, the time is estimated as in survival analysis (Kaplan and
Meier).  The simulation of `whatif` then predicts the result of each number of slots.

That holds for loops that read their loss on every step.  A loop that runs ahead of its devices
takes each batch when it arrives, so nearly no batch is held up by full slots, and more slots would
stay empty.  The first number is right for such a loop, and for one whose front end is the slower
part.
"""

import statistics
from collections.abc import Sequence

import numpy as np
from absl import logging

from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.devices import free_memory
from dual_device_strategy.whatif.pipeline import PartTimes, predict

FIRST, MOST = 4, 8
# More slots may help if full slots held up at least this share of the batches.
HELD_UP = 0.05
# A step may be this much longer than with MOST slots, for the memory that fewer slots leave free.
TOLERANCE = 0.015
# Share of the free memory that slots may take: allocators need room to move.
USABLE = 0.9
LEAST_SAMPLES = 20
# Steps simulated for each number of slots.  They are epochs as long as the real one, because the
# batches that are READY when it begins count for more in a short one; from one simulated epoch
# to the next the ratio of two numbers of slots varies by a percent.
SIMULATED = 1600


class SlotTuning:
    """Chooses the slots of one dataset, anew for each epoch."""

    def __init__(
        self,
        counts: BatchCounts,
        model_devices: Sequence[str],
        batch_bytes: int | None,
        data_devices: int = 1,
    ):
        """`batch_bytes` is the largest part of a batch that any device gets."""
        self._counts, self._devices = counts, tuple(model_devices)
        self._data_devices = data_devices
        self.batch_bytes = batch_bytes
        self.slots = FIRST
        self._before = None

    def choose(self) -> int:
        """The slots of the epoch that begins now, from the times of the one before."""
        chosen = FIRST
        if self._before is not None:
            batches = int(self._counts.arrived) - self._before[1]
            chosen = choose(*self._times(), batches) or self.slots
        fitting = self._fitting()
        if fitting < chosen:
            logging.info("slots: %d would be better, the memory allows %d", chosen, fitting)
        chosen = min(chosen, fitting)
        if chosen != self.slots:
            logging.info("slots: %d from this epoch on, %d before", chosen, self.slots)
        self.slots = chosen
        self._before = int(self._counts.started), int(self._counts.arrived)
        return chosen

    def _times(self):
        started_before, arrived_before = self._before
        size = self._counts.times.shape[0]
        count = int(self._counts.arrived) - arrived_before
        batches = np.arange(max(0, count - size + MOST + 1), count)
        asked = self._counts.asked.numpy()[(started_before + batches) % size]
        arrived = self._counts.times.numpy()[(arrived_before + batches) % size]
        return stage_times(1e3 * asked, 1e3 * arrived, self.slots - 2, self._data_devices)

    def _fitting(self):
        """The most slots that fit into the model devices' memory, if that is known."""
        known = [free_memory(device) for device in self._devices]
        if None in known:
            return MOST
        free = min(known)
        if self.batch_bytes is None:
            return FIRST
        more = int(USABLE * free // max(1, self.batch_bytes))
        if self._before is None:  # nothing is there yet; the data device has the PREPARING batch
            return max(2, min(FIRST, 1 + more))
        return max(2, self.slots + more)


def stage_times(
    asked: np.ndarray, arrived: np.ndarray, ready_slots: int, data_devices: int = 1
):
    """How long the data devices and the steps took, from the times of each batch in ms.

    Several data devices take batches in turns, so each asks again when its own was taken; what is
    returned is the time that all of them need for one batch.

    Returns:
      Two arrays, of batches and of steps: times drawn evenly from the estimated distributions,
      empty where there are too few.  And the share of batches that were held up by full slots:
      the one before had arrived, and still they had no room.
    """
    turns = data_devices
    room = asked[turns:]  # when batch i was taken to the model device
    late = room[1:] > arrived[: max(0, len(room) - 1)] + 1.0
    held_up = float(late.mean()) if len(late) else 0.0
    transfer = np.quantile(arrived[:-turns] - room, 0.1) if len(room) else 0.0
    soon = max(0.0, transfer) + 1.0
    known = arrived[:-turns] - room > soon
    ends = np.where(known, arrived[:-turns] - max(0.0, transfer), room)
    # It was at work from when it asked, or from the end of the batch before if that was later.
    begins = np.maximum(asked[turns:-turns], ends[:-turns])
    prepared = _estimated((ends[turns:] - begins) / turns, known[turns:])

    if not ready_slots:  # the step itself waits for each transfer
        return prepared, np.array([]), held_up
    # Batch j was taken by the step when room was made for batch j + ready_slots.
    took = room[ready_slots:]
    batches = len(took) - 1
    if batches < 1:
        return prepared, np.array([]), held_up
    full = took > arrived[ready_slots - 1 : ready_slots - 1 + len(took)] + 0.5
    next_arrived = arrived[1 : 1 + batches]
    waited = took[1:] < next_arrived + soon
    until = np.where(waited, next_arrived, took[1:])
    usable = full[:-1] | (ready_slots == 1)
    stepped = _estimated((until - took[:-1])[usable], ~waited[usable])
    return prepared, stepped, held_up


def choose(
    prepared: np.ndarray, stepped: np.ndarray, held_up: float, batches: int
) -> int | None:
    """The smallest number of slots about as good as MOST in an epoch of `batches` batches.

    None if too little is known.
    """
    if held_up < HELD_UP and batches >= LEAST_SAMPLES:
        return FIRST
    if not len(prepared) or not len(stepped):
        return None
    stages = PartTimes(front_end=prepared, step=stepped)
    steps = min(max(batches, 100), SIMULATED)
    predicted = {
        slots: statistics.fmean(
            predict(stages, slots=slots, steps=steps, seed=seed).step_ms
            for seed in range(SIMULATED // steps)
        )
        for slots in range(FIRST, MOST + 1)
    }
    enough = (1 + TOLERANCE) * min(predicted.values())
    return min(slots for slots, step_ms in predicted.items() if step_ms <= enough)


def _estimated(times, known, count=200):
    """`count` times of equal weight, where the unknown ones are at most what is given."""
    fine = np.isfinite(times) & (times >= 0)
    times, known = times[fine], known[fine]
    if len(times) < LEAST_SAMPLES or not known.any():
        return np.array([])
    # From the longest down, each known time takes its share of those that could be as short.
    order = np.lexsort((known, -times))
    values, weights, left = [], [], 1.0
    for place, index in enumerate(order):
        if known[index]:
            weight = left / (len(order) - place)
            values.append(times[index])
            weights.append(weight)
            left -= weight
    # What is left is shorter than every known time; it is unknown how much shorter.
    values.append(values[-1] if values else 0.0)
    weights.append(left)
    shares = np.cumsum(weights[::-1])
    points = (np.arange(count) + 0.5) / count
    return np.array(values[::-1])[np.minimum(np.searchsorted(shares, points), len(values) - 1)]
