"""`slots="auto"`: the smallest number of slots that hides the jitter that was measured.

Nothing is measured in the loop itself.  Three times of each batch are noted: when the data device
asked the host for it, when the function that prepares it was done (`preparing_times.py`), and when
it arrived on the model device (`batch_counts.py`).  From these follow the time that the data device
needed for the batch and the time of the step before it:

* The data device asks for batch i + 1 as soon as batch i is prepared and was taken from it.  If it
  asked at once, the model device had been waiting.  If it asked later, that is when batch i had
  room on the model device.
* A CPU is done with a batch when its function is.  A GPU's work is only queued then.  But the copy
  of batch i + 1 from the host waits for it, and so does the function that prepares batch i + 1: if
  that one took longer than a copy, its end shows when batch i was prepared.  If not, batch i had
  been prepared when it got room.
* The last room is made by the step when it takes a batch.  If the batch after it arrived before
  the step asked again, this is how long the step took; if not, the step took no longer than this.

If only an upper bound of a time is known, the time is estimated as in survival analysis (Kaplan and
Meier).  The simulation of `whatif` then predicts the result of each number of slots.

That holds for loops that read their loss on every step.  A loop that runs ahead of its devices
takes each batch when it arrives, so nearly no batch is held up by full slots, and more slots would
stay empty.  The first number is right for such a loop, and for one whose front end is the slower
part.

In these epochs no slots are for copies ahead of the front end (`host_copies.py`): such copies do
not wait for the batch before, and would not show when it was prepared.  Where the data device is
what limits, an epoch with such slots shows whether they pay (`copy_trial.py`); if so they stay, and
nothing more is measured.
"""

import statistics
from collections.abc import Sequence

import numpy as np
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts, period
from dual_device_strategy.copies import AT_ONCE
from dual_device_strategy.copy_trial import SLOTS, CopyTrial
from dual_device_strategy.devices import free_memory
from dual_device_strategy.preparing_times import PreparingTimes
from dual_device_strategy.whatif.pipeline import PartTimes, predict

FIRST, MOST = 4, 8
# More slots may help if full slots held up at least this share of the batches.
HELD_UP = 0.05
# A step may be this much longer than with MOST slots, for the memory that fewer slots leave free.
TOLERANCE = 0.015
# Share of the free memory that slots may take: allocators need room to move.
USABLE = 0.9
LEAST_SAMPLES = 20
BEGINNING = 6  # batches that are prepared before the first step, or while it is traced
# What waited for less than that, in ms, did not wait; a machine that is busy needs up to LATE to
# go on.
NOTICED, LATE = 0.5, 1.0
# Steps simulated for each number of slots.  They are epochs as long as the real one, because the
# batches that are READY when it begins count for more in a short one; from one simulated epoch
# to the next the ratio of two numbers of slots varies by a percent.
SIMULATED = 1600


class SlotTuning:
    """Chooses the slots of one dataset, anew for each epoch."""

    def __init__(
        self,
        counts: BatchCounts,
        *,
        data_devices: Sequence[str],
        model_devices: Sequence[str],
        batch_bytes: int | None,
        trial: CopyTrial | None = None,
    ):
        """`batch_bytes` is the largest part of a batch that any model device gets.

        `trial` is of copies from the host ahead of the front end; None if there can be none.
        """
        self._counts, self._devices = counts, tuple(model_devices)
        host = compat.host_of(data_devices[0])
        self.preparing = [PreparingTimes(host) for _ in data_devices]
        self._on_cpus = all("device:CPU" in device for device in data_devices)
        self.batch_bytes = batch_bytes
        self.slots = FIRST
        self._trial = trial or CopyTrial(data_devices, None, allowed=False)
        self._before = None
        self._host_seconds_before = 0.0

    def set_slots_of(self, staging) -> None:
        """Chooses the slots of the epoch that begins now."""
        slots = self.choose()
        copying = AT_ONCE if self._trial.copying else 0
        staging.change_slots(slots - 2 - copying, copying)

    def choose(self) -> int:
        """The slots of the epoch that begins now, from the times of the one before."""
        chosen = FIRST
        if self._trial.copying:
            self._trial.judge(self._batch_ms())
        elif self._before is not None:
            batches = int(self._counts.arrived) - self._before
            times = self._times()
            chosen = choose(*times, batches) or self.slots
            seldom_full = times[2] < HELD_UP
            if self.slots == chosen == FIRST and seldom_full:
                self._trial.consider(self._busy_ms(times[0], batches), self._batch_ms())
        # Of SLOTS with copies ahead, the model device has as many as of FIRST.
        fitting = self._fitting()
        if self._trial.copying:
            chosen = fitting = SLOTS
        if fitting < chosen:
            logging.info("slots: %d would be better, the memory allows %d", chosen, fitting)
        chosen = min(chosen, fitting)
        if chosen != self.slots:
            logging.info("slots: %d from this epoch on, %d before", chosen, self.slots)
        self.slots = chosen
        self._before = int(self._counts.arrived)
        self._asked_before = [times.now() for times in self.preparing]
        self._host_seconds_before = float(self._counts.host_seconds)
        return chosen

    def _batch_ms(self) -> float | None:
        """The time from batch to batch of the epoch that is over; None if it was too short."""
        arrived = self._arrived()[BEGINNING:]
        return period(arrived, 2 * len(self.preparing)) if len(arrived) >= LEAST_SAMPLES else None

    def _busy_ms(self, prepared: np.ndarray, batches: int) -> float | None:
        """How long the data devices copied and computed for a batch, the host's part left out."""
        if not len(prepared):
            return None
        waited = float(self._counts.host_seconds) - self._host_seconds_before
        return float(prepared.mean()) - 1e3 * waited / batches / len(self.preparing)

    def _arrived(self) -> np.ndarray:
        """When the latest batches of the epoch arrived, in seconds."""
        size = self._counts.times.shape[0]
        count = int(self._counts.arrived) - self._before
        batches = np.arange(max(0, count - size + MOST + 1), count)
        return self._counts.times.numpy()[(self._before + batches) % size]

    def _times(self):
        """What `stage_times` finds; devices that prepared nothing are left out."""
        arrived = self._arrived()
        count = int(self._counts.arrived) - self._before
        batches = np.arange(count - len(arrived), count)
        used = [
            (times, before)
            for times, before in zip(self.preparing, self._asked_before, strict=True)
            if times.now() > before
        ]
        asked, made = np.zeros(len(batches)), np.zeros(len(batches))
        for place, (times, before) in enumerate(used):
            its = batches % len(used) == place  # they take batches in turns
            asked[its], made[its] = times.since(before, batches[its] // len(used))
        noted = (1e3 * times for times in (asked, made, arrived))
        return stage_times(
            *noted, self.slots - 2, data_devices=len(used), made_is_prepared=self._on_cpus
        )

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
    asked: np.ndarray,
    made: np.ndarray,
    arrived: np.ndarray,
    ready_slots: int,
    *,
    data_devices: int = 1,
    made_is_prepared: bool = False,
):
    """How long the data devices and the steps took, from the times of each batch in ms.

    Several data devices take batches in turns, so each asks again when its own was taken; what is
    returned is the time that all of them need for one batch.  `made_is_prepared` says that a batch
    is prepared when the function that makes it is done, as on CPUs.

    Returns:
      Two arrays, of batches and of steps: times drawn evenly from the estimated distributions,
      empty where there are too few.  And the share of batches that were held up by full slots:
      the one before had arrived, and still they had no room.
    """
    turns, nothing = data_devices, np.array([])
    room = asked[turns:]  # when batch i was taken to the model device
    if len(room) < 2:
        return nothing, nothing, 0.0
    made_next, made, arrived = made[turns:], made[: len(room)], arrived[: len(room)]
    waited = room > made + NOTICED  # for room; if not, the model device had room for it before
    held_up = float((room[1:] > np.maximum(made[1:], arrived[:-1]) + LATE).mean())
    if made_is_prepared:
        ends, known = made, np.ones(len(made), bool)
    else:
        copies = (made_next - room)[waited]
        copy = np.quantile(copies, 0.1) if len(copies) >= LEAST_SAMPLES else 0.0
        ends = np.maximum(room, made_next - copy)
        known = ~waited | (ends > room + LATE)
    # It was at work from when it asked, or from the end of the batch before if that was later.
    begins = np.maximum(asked[turns : len(room)], ends[:-turns])
    prepared = _estimated((ends[turns:] - begins) / turns, known[turns:])

    if not ready_slots or len(room) < ready_slots + 2:  # without one, the step waits for transfers
        return prepared, nothing, held_up
    # Batch j was taken by the step when room was made for batch j + ready_slots.
    took, seen = room[ready_slots:], waited[ready_slots:]
    if ready_slots > 1:
        seen = seen & (took > arrived[ready_slots - 1 : -1] + NOTICED)  # slots were full
    next_arrived = arrived[1 : len(took)]
    starved = took[1:] < next_arrived + LATE
    until = np.where(starved, next_arrived, took[1:])
    stepped = _estimated((until - took[:-1])[seen[:-1]], (seen[1:] & ~starved)[seen[:-1]])
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
    parts = 20
    values += list(values[-1] * (1 - (np.arange(parts) + 0.5) / parts))
    weights += [left / parts] * parts
    shares = np.cumsum(weights[::-1])
    points = (np.arange(count) + 0.5) / count
    return np.array(values[::-1])[np.minimum(np.searchsorted(shares, points), len(values) - 1)]
