"""How long steps take: over a whole run, and lately."""

import collections
import dataclasses
import math
import statistics


@dataclasses.dataclass
class Total:
    """Count, mean, standard deviation, minimum and maximum of numbers that are not kept."""

    count: int = 0
    mean: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    _squares: float = 0.0

    def add(self, value: float) -> None:
        # Welford's algorithm, which loses no digits over long runs.
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self._squares += before * (value - self.mean)
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def std(self) -> float:
        return math.sqrt(self._squares / self.count) if self.count else 0.0

    @property
    def sum(self) -> float:
        return self.mean * self.count


class StepTimes:
    """The times of steps in ms, and how much of each was waiting.

    `add` each step; then `recent` has the figures of the latest steps and `summary` those of all.
    The first steps, which trace, and the first of each later epoch, which fills the slots, are
    counted separately.
    """

    def __init__(self, first_steps: int, window: int):
        self.steps, self.waits = Total(), Total()
        self.first, self.epoch_starts = Total(), Total()
        self.ready = Total()
        self.empty = 0  # how often no batch was READY
        self._first_steps = first_steps
        self._window = collections.deque(maxlen=window)
        self._waits = collections.deque(maxlen=window)

    def add(self, step_ms: float, wait_ms: float | None, starts_epoch: bool, weight: int) -> bool:
        """Adds a step, or a call of `weight` steps by their mean time.

        Args:
          step_ms: the time of the step.
          wait_ms: how much of it was waiting for the batch; None if unknown.
          starts_epoch: whether it is the first step of an epoch.
          weight: the number of steps.

        Returns:
          Whether it counts as a steady step.
        """
        if self.first.count < self._first_steps:
            self.first.add(step_ms)
            return False
        if starts_epoch:
            self.epoch_starts.add(step_ms)
            return False
        for _ in range(weight):
            self.steps.add(step_ms)
        self._window.append(step_ms)
        if wait_ms is not None:
            self.waits.add(wait_ms)
            self._waits.append((wait_ms, step_ms))
        return True

    def add_ready(self, ready: int) -> None:
        self.ready.add(ready)
        self.empty += ready == 0

    @property
    def recent(self) -> dict[str, float | None]:
        """Figures of the latest steady steps: mean, std, variation, wait share."""
        steps, waits = list(self._window), list(self._waits)
        mean = statistics.fmean(steps) if steps else 0.0
        std = statistics.pstdev(steps) if steps else 0.0
        waited_in = sum(step for _, step in waits)
        return {
            "count": len(steps),
            "step_ms": mean,
            "std_ms": std,
            "variation": std / mean if mean else 0.0,
            "steps_per_second": 1000 / mean if mean else 0.0,
            "wait_share": sum(wait for wait, _ in waits) / waited_in if waited_in else None,
            "wait_std_ms": statistics.pstdev(wait for wait, _ in waits) if waits else None,
        }

    @property
    def summary(self) -> dict[str, float | None]:
        """Figures of all steady steps."""
        mean = self.steps.mean
        return {
            "steps": self.steps.count,
            "step_ms": mean,
            "std_ms": self.steps.std,
            "min_ms": self.steps.least if self.steps.count else None,
            "max_ms": self.steps.most if self.steps.count else None,
            "variation": self.steps.std / mean if mean else 0.0,
            "steps_per_second": 1000 / mean if mean else 0.0,
            "wait_ms": self.waits.mean if self.waits.count else None,
            "wait_share": self.waits.mean / mean if self.waits.count and mean else None,
            "ready": self.ready.mean if self.ready.count else None,
            "ready_samples": self.ready.count,
            "first_steps": self.first.count,
            "first_steps_ms": self.first.sum,
            "epoch_starts": self.epoch_starts.count,
            "epoch_start_ms": self.epoch_starts.mean if self.epoch_starts.count else None,
        }
