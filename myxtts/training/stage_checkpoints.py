"""The checkpoints of a stage: their contents, and continuing from them."""

import dataclasses
from pathlib import Path

from absl import logging

from myxtts.config import to_json
from myxtts.training import checkpoints
from myxtts.training.config import TrainConfig
from myxtts.training.loop import Loop
from myxtts.training.shares import ShareTrials
from myxtts.training.stages import Stage


@dataclasses.dataclass
class Progress:
    """How far a stage has come: the part of a checkpoint that is not tensors."""

    step: int = 0
    trained_on: tuple[int, int] | None = None  # epoch and batch
    planned: int | None = None
    planned_at: tuple[int, float] | None = None  # step and seconds; None: not to be corrected
    seconds: float = 0.0  # in all
    preparing: float = 0.0  # of these, before the first step, and in tracing
    stepping: float = 0.0  # of these, in steps
    waited: float = 0.0  # of these, for batches
    skipped: int = 0
    skipped_in_row: int = 0
    best: float | None = None
    best_step: int | None = None
    best_figures: dict = dataclasses.field(default_factory=dict)
    evaluations_since_best: int = 0
    evaluations: list = dataclasses.field(default_factory=list)
    recent: dict = dataclasses.field(default_factory=dict)  # mean figures of the latest steps

    def next_batch(self, batches_per_epoch: int) -> int:
        """The number of the batch after the last one trained on."""
        if self.trained_on is None:
            return 0
        epoch, batch = self.trained_on
        return epoch * batches_per_epoch + batch + 1


class StageCheckpoints:
    """The checkpoints of one stage.

    `identity` is what a job must have in common with them to continue, see `identity`. All random
    numbers are drawn from (seed, epoch, batch), so the position and the seeds are the state of all
    generators. `shares` are the trials of shares. `writes` is whether this process saves them, or
    another one.
    """

    def __init__(
        self,
        stage: Stage,
        loop: Loop,
        config: TrainConfig,
        *,
        directory: Path,
        identity: dict,
        shares: ShareTrials,
        writes: bool = True,
    ):
        self.stage, self.loop, self.config = stage, loop, config
        self.directory, self.identity, self._writes = directory, identity, writes
        self.shares = shares

    def save(self, progress: Progress) -> None:
        path = self.directory / f"step-{progress.step:08d}"
        if self._writes and not path.exists():
            state = self._state(progress)
            checkpoints.save(path, state, self._weights_to_use(), self._training())
            checkpoints.remove_all_but(self.directory, self.config.keep_checkpoints)

    def save_best(self, progress: Progress) -> None:
        if self._writes:
            path = self.directory / "best"
            checkpoints.save(path, self._state(progress), self._weights_to_use())

    def load_best(self) -> dict:
        """Loads the best weights; returns the checkpoint's state."""
        state = checkpoints.read_state(self.directory / "best")
        checkpoints.read_tensors(self.directory / "best", state, "weights", self._networks())
        return state

    def restore_newest(self) -> tuple[Progress, float | None]:
        """Puts networks and optimizers in the state of the newest checkpoint, if there is one.

        Returns the progress, and the `max_minutes` that its planned number of steps was fixed for.
        """
        if self._writes:
            checkpoints.clear_leftovers(self.directory)
        newest = checkpoints.newest(self.directory)
        self.shares.restore(newest and newest[1].get("shares"))
        if newest is None:
            return Progress(), None
        path, state = newest
        checkpoints.read_tensors(path, state, "training", self._training())
        known = {field.name for field in dataclasses.fields(Progress)}
        progress = Progress(**{n: v for n, v in state["progress"].items() if n in known})
        for name in ("trained_on", "planned_at"):
            if getattr(progress, name):
                setattr(progress, name, tuple(getattr(progress, name)))
        logging.info(
            "%s: continues after step %d (epoch %s, batch %s) from %s",
            self.stage.name,
            progress.step,
            *(progress.trained_on or ("-", "-")),
            path,
        )
        before, now = state.get("replicas", 1), self.loop.strategy.num_replicas_in_sync
        if before != now:
            logging.info(
                "%s: %d model devices have trained it so far, %d do now: the batches and their "
                "order stay, only sums differ in their last digits",
                self.stage.name,
                before,
                now,
            )
        return progress, state["config"]["max_minutes"]

    def _networks(self) -> dict:
        return {name: network.variables for name, network in self.stage.networks.items()}

    def _weights_to_use(self) -> dict:
        averaged = {
            id(variable): average
            for learner in self.stage.learners.values()
            for variable, average in learner.pairs()
        }
        return {
            name: [averaged.get(id(v), v) for v in checkpoints.as_tensors(variables)]
            for name, variables in self._networks().items()
        }

    def _training(self) -> dict:
        helpers = {name: network.variables for name, network in self.stage.helpers.items()}
        optimizers = {
            f"{name}_optimizer": learner.optimizer.variables
            for name, learner in self.stage.learners.items()
        }
        return {**self._networks(), **helpers, **optimizers, "loop": self.loop.variables()}

    def _state(self, progress: Progress) -> dict:
        return {
            "format": 1,
            "stage": self.stage.name,
            "step": progress.step,
            "progress": dataclasses.asdict(progress),
            "random": {"seed": self.config.seed, "batches": self.config.batches.seed},
            "identity": self.identity,
            "replicas": self.loop.strategy.num_replicas_in_sync,
            "shares": self.shares.state,
            "config": to_json(self.config),
        }
