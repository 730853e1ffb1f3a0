"""How many steps a stage takes, by epochs, steps or minutes."""

import itertools
from collections.abc import Mapping, Sequence

from myxtts import UserError
from myxtts.training.config import TrainConfig

# Of a stage's time, for tracing, evaluations, samples and checkpoints.
_BESIDE_STEPS = 0.12
# Steps are measured for this share of a stage's time before their number is fixed.
_MEASURED = 0.05
_MEASURED_STEPS = 10
# A machine may become slower: a stage ends after this multiple of its time.
_PATIENCE = 1.15


class Budget:
    """The limits of one stage.

    `steps` is known at once where epochs or steps are limited.  By minutes it is fixed from the
    rate of the first steps, and saved in every checkpoint, so that the schedule of a run that
    continues is the same.
    """

    def __init__(
        self,
        config: TrainConfig,
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
        self.seconds = None
        if config.max_minutes is not None:
            left = [name for name in stages if name not in spent or name == stage]
            shares = sum(config.stage(name).share for name in left)
            rest = max(60 * config.max_minutes - sum(spent.values()), 1.0)
            self.seconds = rest * config.stage(stage).share / shares
        self.steps = self.most if self.seconds is None else None

    def measure(self, step: int, seconds: float, measured_steps: int, measured_seconds: float):
        """Fixes the number of steps, once enough of them were measured; whether it did."""
        if self.steps is not None or measured_steps < _MEASURED_STEPS:
            return False
        if measured_seconds < _MEASURED * self.seconds:
            return False
        left = self.seconds * (1 - _BESIDE_STEPS) - seconds
        steps = step + max(0, int(left * measured_steps / measured_seconds))
        self.steps = max(step + 1, min(steps, self.most or steps))
        return True

    def is_over(self, seconds: float) -> bool:
        """The time is up although steps are left."""
        return self.seconds is not None and seconds > _PATIENCE * self.seconds
