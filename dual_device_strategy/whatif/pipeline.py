"""How long a step would take with other slots, batch sizes, bandwidth or model devices.

A discrete-event simulation of the pipeline in `staging.py`.  A part of the pipeline takes the next
batch when three things are true: the part before has one, there is room behind, and its own last
batch is done.  So every event is the latest of a few earlier ones, and batches are computed one
after the other, without a queue of events:

>>> parts = PartTimes(host=5, front_end=30, transfer=1, step=20)
>>> predict(parts).step_ms
30.0
>>> round(predict(parts.with_batch(0.5, fixed={"step": 4})).step_ms, 1)
15.0

Times are in milliseconds, measured by `dual_device_strategy.profile` or made up.  Where the time
of a part varies, give a sequence of its times, from which the simulation draws.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from dual_device_strategy.copies import AT_ONCE, copying_slots

PARTS = ("host", "copy", "front_end", "transfer", "step")
Times = float | Sequence[float]


@dataclasses.dataclass(frozen=True)
class PartTimes:
    """The milliseconds that each part of the pipeline takes for a batch.

    Each is one figure, or a sequence to draw from.

    Attributes:
      host: the host pipeline.
      copy: from the host to the data device.
      front_end: the function given to `on_data_device`.
      transfer: from the data device to the model device.
      step: the training step, including its dispatch and the reading of its result.
      gap: the time that the loop needs between two steps even when a batch is READY.
      copies_ahead: whether batches are copied from the host ahead of the front end if there are
        slots for that; small ones are not, see `host_copies.py`.
    """

    host: Times = 0.0
    copy: Times = 0.0
    front_end: Times = 0.0
    transfer: Times = 0.0
    step: Times = 0.0
    gap: float = 0.0
    copies_ahead: bool = True

    def __post_init__(self):
        for name in PARTS:
            times = np.asarray(getattr(self, name), float)
            if times.ndim > 1 or not times.size or not (np.isfinite(times) & (times >= 0)).all():
                raise ValueError(
                    f"{name} must be a time in ms, or a sequence of some, got "
                    f"{name}={getattr(self, name)!r}"
                )

    def mean(self, name: str) -> float:
        return float(np.mean(getattr(self, name)))

    def of_data_device(self, slots: int = 4) -> float:
        """The time that the data device needs for a batch.

        It copies and computes in turns, or at the same time if some of `slots` are for copies.
        """
        copy, front_end = self.mean("copy"), self.mean("front_end")
        return max(copy, front_end) if self.copying(slots) else copy + front_end

    def copying(self, slots: int) -> int:
        """How many of `slots` are for batches on their way from the host."""
        return copying_slots(slots) if self.copies_ahead and self.mean("copy") else 0

    @property
    def limit(self) -> float:
        """The time of the slowest part: no number of slots makes a step shorter."""
        return max(self.mean(name) for name in PARTS)

    def with_batch(self, factor: float, fixed: Mapping[str, float] | None = None) -> "PartTimes":
        """The times for batches `factor` times as large.

        `fixed` gives, by part, the milliseconds that do not depend on the batch size (fit a line
        through the times of two batch sizes to find them); without it, all of the time scales.
        """
        fixed = fixed or {}

        def scale(name):
            times = np.asarray(getattr(self, name), float)
            kept = np.minimum(times, fixed.get(name, 0.0))
            return kept + factor * (times - kept)

        return dataclasses.replace(self, **{name: scale(name) for name in PARTS})

    def with_bandwidth(self, factor: float) -> "PartTimes":
        """The times with links `factor` times as fast."""
        faster = {name: np.asarray(getattr(self, name)) / factor for name in ("copy", "transfer")}
        return dataclasses.replace(self, **faster)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The result of a simulation, from when the pipeline was full.

    Attributes:
      step_ms: mean time of a step.
      variation: standard deviation of step times, over their mean.
      wait_share: share of the time that the step waited for its batch.
      ready: mean number of READY batches when the step asked.
      spans: for each batch, part -> (begin, end) in ms since the start; "ready" is the time it
        waited for the step.
    """

    step_ms: float
    variation: float
    wait_share: float
    ready: float
    spans: list[dict[str, tuple[float, float]]] = dataclasses.field(repr=False)


def predict(
    parts: PartTimes,
    *,
    slots: int = 4,
    model_devices: int = 1,
    reads_every: int = 1,
    steps: int = 400,
    host_buffer: int = 8,
    dispatch_ms: float = 0.5,
    seed: int = 0,
) -> Prediction:
    """Simulates `steps` steps.

    Args:
      parts: the times of the parts.
      slots: as in `DataModelSplitStrategy`.  From six on, two are for batches on their way from
        the host; not with several model devices, nor if `copy` takes no time.
      model_devices: with more than one, each takes a batch of its own on every step.
      reads_every: the loop reads the result of every step (1), of every tenth (10), or of none of
        them (0, as inside a tf.function).  Where it does not, it goes on to the next step at once,
        and `gap` is hidden.
      steps: the number of steps; use more where times vary much.
      host_buffer: the number of batches that the host pipeline prefetches.
      dispatch_ms: the time from when a step gets its batch until its work is on the device.  A
        transfer that is asked for after that waits for the step to end, because TensorFlow's
        device-to-device copy waits for the work queued on the receiver.  A loop that does not read
        has nothing else to do: there every transfer is asked for after that.
      seed: the seed of the draws.
    """
    if slots < 2:
        raise ValueError(f"slots must be at least 2 (one preparing, one training), got {slots}")
    if reads_every < 0:
        raise ValueError(f"reads_every must be 0 (never) or more, got {reads_every}")
    if model_devices < 1 or steps < 20:
        raise ValueError(
            f"at least one model device and 20 steps are needed, got "
            f"model_devices={model_devices}, steps={steps}"
        )
    m = model_devices
    copying = parts.copying(slots) if m == 1 else 0
    ready_slots = slots - 2 - copying
    at_once = m * max(1, min(AT_ONCE, ready_slots))  # copies under way
    dispatch = dispatch_ms if reads_every == 1 else 0.0
    batches = steps * m
    random = np.random.default_rng(seed)
    host, copy, front_end, transfer = (
        _draws(getattr(parts, name), batches, random) for name in PARTS[:4]
    )
    read = [bool(reads_every) and s % reads_every == 0 for s in range(steps)]  # before step s
    step = [
        ms + parts.gap * after_reading
        for ms, after_reading in zip(_draws(parts.step, steps, random), read, strict=True)
    ]

    made, pulled, on_data, asked, prepared, taken, arrived = (
        [0.0] * batches for _ in range(7)
    )
    got, queued, begun, ended = ([0.0] * steps for _ in range(4))
    spans = []

    def before(times, i, gap=1):
        return times[i - gap] if i >= gap else 0.0

    for s in range(steps):
        asks = before(ended if read[s] else queued, s)
        for i in range(s * m, s * m + m):
            # The host makes a batch when the buffer has room: one was asked for by the data part.
            host_begin = max(before(made, i), before(pulled, i, host_buffer))
            made[i] = host_begin + host[i]
            # The data part asks when the batch before has been taken; the work is asynchronous.
            asked[i] = pulled[i] = max(before(taken, i), before(asked, i), made[i])
            data_begin = host_copy_begin = max(asked[i], before(prepared, i))
            copied = data_begin + copy[i]
            if copying:
                # A copy begins when the data part takes the batch before the last, and waits for
                # the front ends that are queued by then.
                pulled[i] = max(made[i], before(asked, i, copying), before(pulled, i))
                queued_last = 1 if before(asked, i) <= pulled[i] else copying
                host_copy_begin = max(
                    pulled[i], before(on_data, i), before(prepared, i, queued_last)
                )
                copied = on_data[i] = host_copy_begin + copy[i]
                asked[i] = max(before(taken, i), before(asked, i), copied)
                data_begin = max(asked[i], before(prepared, i))
            prepared[i] = max(data_begin, copied) + front_end[i]
            # The model part asks when a READY slot is free; without one, when the step asks.
            room = before(got, s, ready_slots) if ready_slots else asks
            taken[i] = max(room, before(arrived, i, at_once), asked[i])
            copy_begin = max(taken[i], prepared[i], before(arrived, i, m))
            waited_for = s - 1
            while waited_for >= 0 and queued[waited_for] > taken[i]:
                waited_for -= 1
            if waited_for >= 0:
                copy_begin = max(copy_begin, ended[waited_for])
            arrived[i] = copy_begin + transfer[i]
            spans.append(
                {
                    "host": (host_begin, made[i]),
                    "copy": (host_copy_begin, copied),
                    "front_end": (max(data_begin, copied), prepared[i]),
                    "transfer": (copy_begin, arrived[i]),
                }
            )
        got[s] = max(asks, *arrived[s * m : s * m + m])
        queued[s] = got[s] + dispatch
        begun[s] = max(got[s], before(ended, s))
        ended[s] = begun[s] + step[s]
        for span in spans[-m:]:
            span["ready"] = (span["transfer"][1], begun[s])
            span["step"] = (begun[s], ended[s])

    full = min(steps // 4, 50)  # steps until the pipeline is full
    free = np.array([0.0, *ended[:-1]])  # when the model device was done with the step before
    lasting = np.diff(ended)[full - 1 :]
    waiting = (np.array(begun) - free)[full:]
    ready = [
        np.sum(np.array(arrived[s * m : (s + 1 + ready_slots) * m]) <= free[s]) / m
        for s in range(full, steps)
    ]
    mean = float(np.mean(lasting))
    return Prediction(
        step_ms=mean,
        variation=float(np.std(lasting) / mean) if mean else 0.0,
        wait_share=float(np.mean(waiting) / mean) if mean else 0.0,
        ready=float(np.mean(ready)),
        spans=spans,
    )


def _draws(times: Times, count: int, random) -> list[float]:
    times = np.atleast_1d(np.asarray(times, float))
    return (random.choice(times, count) if times.size > 1 else np.repeat(times, count)).tolist()
