"""One stage from its first step, or from its newest checkpoint, to its result."""

import dataclasses
import json
import time

from absl import logging

from myxtts.config import to_json, write_whole
from myxtts.training import checkpoints
from myxtts.training.budget import Budget
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.interruption import Interruption
from myxtts.training.loop import Loop
from myxtts.training.networks import parameters
from myxtts.training.reports import Bar, Board, Exhibits
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage import Stage
from myxtts.training.step_log import StepLog

# What must stay as it was: the other settings may change while a stage is trained.
_FIXED = ("model", "batches", "augment", "grad_accum", "seed", "tokenizer_frames", "speaker_frames")


class TrainingFailed(Exception):
    """The training itself went wrong (commands exit with code 2): numbers that are not finite."""


@dataclasses.dataclass
class Progress:
    """How far a stage has come: what a checkpoint says beside its tensors."""

    step: int = 0
    trained_on: tuple[int, int] | None = None  # epoch and batch
    planned: int | None = None
    seconds: float = 0.0
    waited: float = 0.0
    skipped: int = 0
    skipped_in_row: int = 0
    best: float | None = None
    best_step: int | None = None
    best_figures: dict = dataclasses.field(default_factory=dict)
    evaluations_since_best: int = 0
    evaluations: list = dataclasses.field(default_factory=list)
    recent: dict = dataclasses.field(default_factory=dict)  # mean figures of the latest steps


class StageRun:
    """See `train`. Everything is in place when it is made: networks, data, what was saved."""

    def __init__(
        self,
        stage: Stage,
        loop: Loop,
        data: StageData,
        held_out: StageData | None,
        budget: Budget,
        config: TrainConfig,
        run: RunDirectory,
        *,
        identity: dict,
        exhibits: Exhibits,
        board: Board,
        monitor=None,
        progress_bar: bool = True,
    ):
        """`identity`: what a checkpoint must agree with beside the settings, by name."""
        self.stage, self.loop, self.data, self.held_out = stage, loop, data, held_out
        self.budget, self.config, self.run = budget, config, run
        self.strategy, self.monitor = loop.strategy, monitor
        self.directory = run.stage(stage.name)
        self.identity, self.exhibits, self.board = identity, exhibits, board
        self.progress = Progress()
        self._log: StepLog | None = None
        self._shown = progress_bar
        self._resume()

    def train(self, interruption: Interruption) -> dict | None:
        """The result, or None where a signal ended it and everything was saved."""
        progress = self.progress
        self._log = StepLog(self.run.steps_file, self.stage.name, progress.step)
        self._bar = Bar(self.stage.name, progress.step, self.budget.steps or 0, self._shown)
        self._seconds_before, self._started = progress.seconds, time.perf_counter()
        self._read_until, self._read_at = progress.step, self._started
        try:
            reason = self._steps(interruption)
            return None if reason is None else self._finish(reason)
        finally:
            self._bar.close()
            self._log.close()
            self.board.close()

    # The loop.

    def _steps(self, interruption: Interruption) -> str | None:
        """Why the stage is done; None after a signal."""
        config, progress = self.config, self.progress
        iterator = iter(self._distributed(self.data, self._position(), True))
        measured = _Measured()
        while self.budget.steps is None or progress.step < self.budget.steps:
            steps, phase = self._next_call(measured)
            self._call(iterator, steps, phase)
            if self.budget.steps is None:
                self._read()
                measured.add(steps)
                if self.budget.measure(progress.step, self._seconds(), *measured.figures()):
                    self._plan()
            last = progress.step == self.budget.steps
            if last or progress.step % config.log_steps == 0:
                self._read()
            if not last and self._due(config.evaluate_steps, 8) and self._evaluated_enough():
                return f"no better in {config.patience} evaluations"
            if not last and self._due(config.sample_steps, 3):
                self._show()
            if interruption.signal or progress.step % config.checkpoint_steps == 0:
                self._save()
            if interruption.signal:
                return None
            if self.budget.is_over(self._seconds()):
                return "the time is up"
        return "all steps were made"

    def _call(self, iterator, steps: int, phase: int) -> None:
        if self.monitor is None:
            self.loop.run(iterator, steps, phase)
        else:
            with self.monitor.call(iterator, steps=steps):
                self.loop.run(iterator, steps, phase)
        self.progress.step += steps
        self._bar.advance(steps)

    def _next_call(self, measured: "_Measured") -> tuple[int, int]:
        """How many steps until something else is to be done, and their phase."""
        config, step = self.config, self.progress.step
        steps = config.steps_per_call
        if self.budget.steps is None:
            steps = 1 if measured.steps < 1 else min(steps, 5)
        else:
            steps = min(steps, self.budget.steps - step)
        for every in (config.log_steps, config.checkpoint_steps, *self._intervals()):
            steps = min(steps, every - step % every)
        begins = [start for start in self.stage.phases if start > step]
        phase = len(self.stage.phases) - len(begins) - 1
        return (min(steps, begins[0] - step) if begins else steps), phase

    def _intervals(self) -> tuple[int, int]:
        return (
            self._interval(self.config.evaluate_steps, 8),
            self._interval(self.config.sample_steps, 3),
        )

    def _interval(self, wanted: int, times: int) -> int:
        """Short runs are looked at so many times all the same."""
        planned = self.budget.steps
        return wanted if planned is None else max(1, min(wanted, -(-planned // times)))

    def _due(self, wanted: int, times: int) -> bool:
        known = self.budget.steps is not None
        return known and self.progress.step % self._interval(wanted, times) == 0

    def _position(self) -> int:
        """The number of the batch after the last one trained on."""
        if self.progress.trained_on is None:
            return 0
        epoch, batch = self.progress.trained_on
        return epoch * self.data.plan.batches_per_epoch + batch + 1

    def _distributed(self, data: StageData, position: int, augmented: bool):
        with self.strategy.scope():
            dataset = data.batches(self.stage, position=position, augmented=augmented)
        return self.strategy.experimental_distribute_dataset(dataset)

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started

    def _plan(self) -> None:
        self._tell_plan()
        self._bar.plan(self.budget.steps)
        # At once: a run that is killed and continued must have the same schedule.
        self._save()
        logging.info(
            "%s: %d steps fit into %.1f minutes",
            self.stage.name,
            self.budget.steps,
            self.budget.seconds / 60,
        )

    def _tell_plan(self) -> None:
        self.progress.planned = self.budget.steps
        self.loop.planned.assign(self.budget.steps)

    # What the steps came to.

    def _read(self) -> None:
        """Reads the figures of the steps since the last time; waits for the device."""
        progress, first = self.progress, self._read_until
        if first == progress.step:
            return
        records = self.loop.records(first, progress.step)
        now = time.perf_counter()
        per_step, self._read_at = (now - self._read_at) / len(records), now
        self._read_until = progress.step
        last = records[-1]
        progress.trained_on = (int(last["epoch"]), int(last["batch"]))
        if self._position() != progress.step * self.config.grad_accum:
            raise RuntimeError(
                f"step {progress.step} trained on batch {progress.trained_on}, which is number "
                f"{self._position()}, not {progress.step * self.config.grad_accum}"
            )
        self._log.write(first, [_tidy(record) for record in records])
        self._look_for_skipped(first, records)
        waited = sum(record["wait_seconds"] for record in records)
        progress.waited += waited
        counted = [record for record in records if record["counts"]] or records
        mean = {
            name: sum(record[name] for record in counted) / len(counted)
            for name in self.loop.columns
            if name not in ("counts", "epoch", "batch", "wait_seconds")
        }
        share = waited / max(per_step * len(records), 1e-9)
        figures = {f"train/{name}": value for name, value in mean.items()}
        figures |= {"time/step_ms": 1e3 * per_step, "time/wait_share": share}
        figures["train/skipped"] = progress.skipped
        self.board.figures(progress.step, figures)
        self._bar.tell(mean[self.stage.parts[0]], share)
        progress.recent = mean

    def _look_for_skipped(self, first: int, records: list[dict]) -> None:
        progress = self.progress
        for step, record in enumerate(records, first):
            if record["counts"]:
                progress.skipped_in_row = 0
                continue
            progress.skipped += 1
            progress.skipped_in_row += 1
            where = int(record["epoch"]), int(record["batch"])
            if progress.skipped_in_row == 1:
                logging.warning(
                    "%s: step %d was left out, its gradients are not finite (epoch %d, batch %d)",
                    self.stage.name,
                    step,
                    *where,
                )
            if progress.skipped_in_row >= self.config.max_skipped:
                clips = self.data.clips_of(*where)
                paths = ", ".join(self.data.corpus.paths[clip] for clip in clips[:3])
                raise TrainingFailed(
                    f"{self.stage.name}: {progress.skipped_in_row} steps in a row had gradients "
                    f"that are not finite, the last one step {step} (epoch {where[0]}, batch "
                    f"{where[1]}) with the clips {', '.join(map(str, clips))} ({paths}"
                    f"{', ...' if len(clips) > 3 else ''}); lower the learning rate, or look at "
                    f"these clips. The checkpoints in {self.directory} are as they were"
                )

    def _evaluated_enough(self) -> bool:
        """Evaluates; whether it has not become better for long enough to stop."""
        if self.held_out is None:
            return False
        self._read()
        figures = self._evaluate()
        progress, patience = self.progress, self.config.patience
        value = figures[self.stage.held_out[0]]
        progress.evaluations.append({"step": progress.step, **figures})
        self.board.figures(progress.step, {f"held_out/{n}": v for n, v in figures.items()})
        logging.info(
            "%s: step %d, held out: %s",
            self.stage.name,
            progress.step,
            ", ".join(f"{name} {v:.4f}" for name, v in figures.items()),
        )
        if progress.best is None or value < progress.best:
            progress.best, progress.best_step, progress.best_figures = value, progress.step, figures
            progress.evaluations_since_best = 0
            self._save_best()
        else:
            progress.evaluations_since_best += 1
        self._read_at = time.perf_counter()  # what steps take is without this
        return patience is not None and progress.evaluations_since_best >= patience

    def _evaluate(self) -> dict[str, float]:
        if not hasattr(self, "_held_out_batches"):
            self._held_out_batches = self._distributed(self.held_out, 0, False)
        self.loop.swap_averages()
        figures = self.loop.evaluate(
            iter(self._held_out_batches), self.held_out.plan.batches_per_epoch
        )
        self.loop.swap_averages()
        return figures

    def _show(self) -> None:
        self._read()
        self.exhibits.step = self.progress.step
        self.loop.swap_averages()
        self.stage.show(self.exhibits)
        self.loop.swap_averages()
        self._read_at = time.perf_counter()

    def _finish(self, reason: str) -> dict:
        if (
            not self.progress.evaluations
            or self.progress.evaluations[-1]["step"] != self.progress.step
        ):
            self._evaluated_enough()
        self._show()
        self._save()
        if self.held_out is None:
            self._save_best()
            self.progress.best_step = self.progress.step
        state = checkpoints.read_state(self.directory / "best")
        checkpoints.read_tensors(self.directory / "best", state, "weights", self._networks())
        progress = self.progress
        result = {
            "stage": self.stage.name,
            "steps": progress.step,
            "reason": reason,
            "seconds": round(progress.seconds, 1),
            "wait_share": progress.waited / max(progress.seconds, 1e-9),
            "skipped": progress.skipped,
            "best_step": progress.best_step,
            "held_out": progress.best_figures,
            "evaluations": progress.evaluations,
            "training": progress.recent,
            "parameters": {n: parameters(net) for n, net in self.stage.networks.items()},
            "weights": state["digest"],
            "identity": self.identity,
            **self.stage.judge(self._judged_batches()),
        }
        write_whole(self.directory / "finished.json", json.dumps(result, indent=1) + "\n")
        return result

    def _judged_batches(self):
        """Whole held-out clips; a few tell which of two is better."""
        if self.held_out is None:
            return [self.exhibits.clips]
        return self.held_out.batches(Stage(), augmented=False).take(
            min(2, self.held_out.plan.batches_per_epoch)
        )

    # Checkpoints.

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

    def _state(self) -> dict:
        self.progress.seconds = self._seconds()
        return {
            "format": 1,
            "stage": self.stage.name,
            "step": self.progress.step,
            "progress": dataclasses.asdict(self.progress),
            # All chance is drawn from (seed, epoch, batch): this is the state of all generators.
            "random": {"seed": self.config.seed, "batches": self.data.plan.config.seed},
            "identity": self.identity,
            "config": to_json(self.config),
        }

    def _save(self) -> None:
        self._read()
        path = self.directory / f"step-{self.progress.step:08d}"
        if not path.exists():
            checkpoints.save(path, self._state(), self._weights_to_use(), self._training())
            checkpoints.remove_all_but(self.directory, self.config.keep_checkpoints)
        self._read_at = time.perf_counter()

    def _save_best(self) -> None:
        checkpoints.save(self.directory / "best", self._state(), self._weights_to_use())

    def _resume(self) -> None:
        checkpoints.clear_leftovers(self.directory)
        newest = checkpoints.newest(self.directory)
        if newest is None:
            if self.budget.steps is not None:
                self._tell_plan()
            return
        path, state = newest
        self._refuse_others(path, state)
        checkpoints.read_tensors(path, state, "training", self._training())
        known = {field.name for field in dataclasses.fields(Progress)}
        values = {name: value for name, value in state["progress"].items() if name in known}
        self.progress = Progress(**values)
        if self.progress.trained_on is not None:
            self.progress.trained_on = tuple(self.progress.trained_on)
        if self.budget.seconds is not None and self.progress.planned is not None:
            same = state["config"]["max_minutes"] == self.config.max_minutes
            self.budget.steps = self.progress.planned if same else None
        if self.budget.steps is not None:
            self._tell_plan()
        logging.info(
            "%s: continues after step %d (epoch %s, batch %s) from %s",
            self.stage.name,
            self.progress.step,
            *(self.progress.trained_on or ("-", "-")),
            path,
        )

    def _refuse_others(self, path, state) -> None:
        mine, theirs = to_json(self.config), state["config"]
        for name in _FIXED:
            difference = _difference(name, theirs.get(name), mine[name])
            if difference:
                raise checkpoints.DamagedCheckpoint(
                    f"the checkpoint {path} does not fit: it was made with {difference}; give the "
                    "same settings, or another run directory"
                )
        for name, value in self.identity.items():
            if state["identity"].get(name) != value:
                raise checkpoints.DamagedCheckpoint(
                    f"the checkpoint {path} does not fit: it was trained with another {name} "
                    f"({state['identity'].get(name)}, now {value}); give the same one, or another "
                    "run directory"
                )


class _Measured:
    """Steps that were timed, without the first call, which traces."""

    def __init__(self):
        self.steps, self._first, self._begin = 0, 0, None

    def add(self, steps: int) -> None:
        self.steps += steps
        if self._begin is None:
            self._begin, self._first = time.perf_counter(), self.steps

    def figures(self) -> tuple[int, float]:
        return self.steps - self._first, time.perf_counter() - self._begin


def _difference(name: str, theirs, mine) -> str | None:
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in mine.keys() | theirs.keys():
            found = _difference(f"{name}.{key}", theirs.get(key), mine.get(key))
            if found:
                return found
        return None
    return None if theirs == mine else f"{name}={theirs!r}, not {mine!r}"


def _tidy(record: dict) -> dict:
    whole = ("counts", "epoch", "batch")
    return {name: int(v) if name in whole else v for name, v in record.items()}
