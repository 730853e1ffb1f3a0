"""How many steps a stage takes, by epochs, steps or minutes."""

import itertools
from collections.abc import Callable, Mapping, Sequence

from myxtts import UserError
from myxtts.training.config import TrainConfig

# Of a stage's time, for evaluations, samples and checkpoints; a guess that `correct` improves.
_BESIDE_STEPS = 0.06
# What comes after the last step takes some seconds; of a very short stage a share.
_AT_THE_END, _MOST_AT_THE_END = 5.0, 0.1
# Steps are measured for this share of a stage's time before their number is fixed.
_MEASURED = 0.05
_MEASURED_STEPS = 10
# A plan that would miss its time by more than this share is corrected.
_MISSED = 0.02


class Budget:
    """The limits of one stage.

    `steps` is known at once if epochs or steps are limited.  With a limit in minutes it is fixed
    from the rate of the first steps, and saved in every checkpoint, so that the schedule of a run
    that continues is the same. It is corrected later if it would miss the time.

    A stage has its share of the minutes, and the time that earlier stages left over.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        stage: str,
        stages: Sequence[str],
        spent: Mapping[str, float],
        batches_per_epoch: int,
    ):
        """`spent`: seconds of the stages that are done."""
        if config.epochs is config.max_steps is config.max_minutes is None:
            raise UserError(
                "how long to train was not said: give --epochs, --max_steps or --max_minutes"
            )
        limits = []
        if config.epochs is not None:
            limits.append(config.epochs * batches_per_epoch // config.grad_accum)
        if config.max_steps is not None:
            # Rounded where stages end, so that together they come to max_steps.
            ends = [0, *itertools.accumulate(config.stage(name).share for name in stages)]
            steps = [round(config.max_steps * end / ends[-1]) for end in ends]
            at = stages.index(stage)
            limits.append(steps[at + 1] - steps[at])
        self.most = max(1, min(limits)) if limits else None
        self.seconds, self.later = None, 0.0
        if config.max_minutes is not None:
            left = [name for name in stages if name not in spent or name == stage]
            shares = sum(config.stage(name).share for name in left)
            rest = max(60 * config.max_minutes - sum(spent.values()), 1.0)
            share = config.stage(stage).share
            all_shares = sum(config.stage(name).share for name in stages)
            self.seconds = max(rest * share / shares, 60 * config.max_minutes * share / all_shares)
            later = stages[stages.index(stage) + 1 :]
            later = sum(config.stage(name).share for name in later if name in left)
            self.later = self.seconds / share * later
        self.steps = self.most if self.seconds is None else None

    def measure(self, step: int, seconds: float, measured_steps: int, measured_seconds: float):
        """Fixes the number of steps once enough of them were measured; returns whether it did."""
        if self.steps is not None or measured_steps < _MEASURED_STEPS:
            return False
        if measured_seconds < _MEASURED * self.seconds:
            return False
        left = (self._until_the_end() - seconds) * (1 - _BESIDE_STEPS)
        self.steps = self._within(step, left * measured_steps / measured_seconds)
        return True

    def correct(self, step: int, seconds: float, since: tuple[int, float]) -> bool:
        """Fixes the number of steps anew, from all that passed since step and second `since`, if
        it would miss the time by some per cent; whether it did."""
        passed = step - since[0]
        if self.seconds is None or not passed:
            return False
        steps = self._within(
            step, (self._until_the_end() - seconds) * passed / max(seconds - since[1], 1e-9)
        )
        if abs(steps - self.steps) <= _MISSED * self.steps:
            return False
        self.steps = steps
        return True

    def _within(self, step: int, more: float) -> int:
        steps = step + max(1, int(more))
        return max(step + 1, min(steps, self.most or steps))

    def _until_the_end(self) -> float:
        return self.seconds - min(_AT_THE_END, _MOST_AT_THE_END * self.seconds)

    def is_over(self, seconds: float) -> bool:
        """Whether the time is up although steps are left."""
        return self.seconds is not None and seconds > self._until_the_end()

    def run_seconds_left(self, seconds: float) -> float | None:
        """Of this stage, `seconds` after its beginning, and of those after it; None without a
        limit in minutes."""
        return None if self.seconds is None else max(0.0, self.seconds - seconds) + self.later


class Measured:
    """Steps that were timed, without the first call, which traces."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self.steps, self._first, self._begin = 0, 0, None

    def add(self, steps: int) -> None:
        self.steps += steps
        if self._begin is None:
            self._begin, self._first = self._clock(), self.steps

    def figures(self) -> tuple[int, float]:
        return self.steps - self._first, self._clock() - self._begin
