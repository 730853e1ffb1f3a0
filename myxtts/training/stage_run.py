"""One stage from its first step, or from its newest checkpoint, to its result."""

import json
import time
from collections.abc import Iterable

from absl import logging

from myxtts import UserError
from myxtts.config import to_json, write_whole
from myxtts.training.budget import Budget
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.exhibits import Exhibits
from myxtts.training.interruption import Interruption
from myxtts.training.loop import Loop
from myxtts.training.networks import parameters
from myxtts.training.periodic import Periodic
from myxtts.training.reports import Bar, Board
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage_checkpoints import Progress, StageCheckpoints
from myxtts.training.step_log import StepLog
from myxtts.training.step_records import StepRecords

# A stage that is too short for its settings is evaluated and shown this often all the same.
_EVALUATIONS, _SHOWS = 8, 3


class StageRun:
    """Trains one stage; make it with `restored`, then call `train` once.

        calls = StageRun.restored(loop, data, held_out, budget, config, run, ...)
        result = calls.train(interruption)

    The loop on the device makes a few steps a call. Between two calls the host does what is due
    (`Periodic`): it fetches figures, evaluates, shows, saves.
    """

    def __init__(
        self,
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
        self.loop, self.stage, self.data, self.held_out = loop, loop.stage, data, held_out
        self.budget, self.config, self.run = budget, config, run
        self.strategy, self.monitor = loop.strategy, monitor
        self.exhibits, self.board, self._bar_shown = exhibits, board, progress_bar
        self.checkpoints = StageCheckpoints(
            self.stage, loop, config, directory=run.stage(self.stage.name), identity=identity
        )
        self.progress = Progress()
        self._fetching = Periodic(config.log_steps, self._fetch)
        self._evaluating = Periodic(
            config.evaluate_steps, self._evaluate, at_least=_EVALUATIONS
        )
        self._showing = Periodic(config.sample_steps, self._show, at_least=_SHOWS)
        self._saving = Periodic(config.checkpoint_steps, self._save)

    @classmethod
    def restored(cls, *args, **options) -> "StageRun":
        """Takes the constructor's arguments; restores the newest checkpoint, if there is one."""
        run = cls(*args, **options)
        run.progress, planned_for = run.checkpoints.restore_newest()
        if run.budget.steps is None and planned_for == run.config.max_minutes:
            run.budget.steps = run.progress.planned
        if run.budget.steps is not None:
            run._plan()
        return run

    def train(self, interruption: Interruption) -> dict | None:
        """The result, or None where a signal ended it and everything was saved."""
        progress = self.progress
        self._seconds_before, self._started = progress.seconds, time.perf_counter()
        log = StepLog.continued(self.run.steps_file, self.stage.name, progress.step)
        self._bar = Bar(self.stage.name, progress.step, self.budget.steps, self._bar_shown)
        self._records = StepRecords(
            self.loop, self.data, self.config, progress, log=log, board=self.board, bar=self._bar
        )
        try:
            reason = self._steps(interruption)
            return None if reason is None else self._finish(reason)
        finally:
            self._bar.close()
            log.close()
            self.board.close()

    def _steps(self, interruption: Interruption) -> str | None:
        """Why the stage is done; None after a signal."""
        config, progress, budget = self.config, self.progress, self.budget
        position = progress.next_batch(self.data.plan.batches_per_epoch)
        iterator = iter(self._distributed(self.data, position, augmented=True))
        measured = _Measured()
        while budget.steps is None or progress.step < budget.steps:
            steps, phase = self._next_call(measured)
            self._call(iterator, steps, phase)
            if budget.steps is None:
                self._fetch()
                measured.add(steps)
                if budget.measure(progress.step, self._seconds(), *measured.figures()):
                    self._plan()
                    self._bar.plan(budget.steps)
                    # At once: a run that is killed and continued must have the same schedule.
                    self._save()
            for periodic in self._due(progress.step):
                periodic.action()
                if progress.evaluations_since_best >= (config.patience or float("inf")):
                    return f"no better in {config.patience} evaluations"
            if interruption.signal:
                self._save()
                return None
            if budget.is_over(self._seconds()):
                return "the time is up"
        return "all steps were made"

    def _due(self, step: int) -> list[Periodic]:
        """What is done after this step, in its order; `_finish` evaluates and shows at the end."""
        in_order = [self._fetching, self._evaluating, self._showing, self._saving]
        if step == self.budget.steps:
            in_order = [self._fetching, self._saving]
        return [periodic for periodic in in_order if periodic.is_due(step)]

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
        if self.budget.steps is None:
            steps = min(config.steps_per_call, 5 if measured.steps else 1)
        else:
            steps = min(config.steps_per_call, self.budget.steps - step)
        for periodic in (self._fetching, self._evaluating, self._showing, self._saving):
            steps = min(steps, periodic.steps_left(step))
        coming = [start for start in self.stage.phases if start > step]
        steps = min([steps, *(start - step for start in coming)])
        return steps, len(self.stage.phases) - len(coming) - 1

    def _distributed(self, data: StageData, position: int, augmented: bool):
        with self.strategy.scope():
            dataset = data.batches(self.stage, position=position, augmented=augmented)
        return self.strategy.experimental_distribute_dataset(dataset)

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started

    def _plan(self) -> None:
        self.progress.planned = self.budget.steps
        self.loop.planned.assign(self.budget.steps)
        for periodic in (self._evaluating, self._showing):
            periodic.plan(self.budget.steps)
        limit = self.budget.seconds
        logging.info(
            "%s: %d steps planned%s",
            self.stage.name,
            self.budget.steps,
            f", in {limit / 60:.1f} minutes" if limit else "",
        )

    def _fetch(self) -> None:
        self._records.fetch()

    def _save(self) -> None:
        self._fetch()
        self.progress.seconds = self._seconds()
        self.checkpoints.save(self.progress)
        self._records.restart_clock()

    def _evaluate(self) -> None:
        """Figures of the averaged weights on the held-out clips; the best weights are kept."""
        self._fetch()
        progress = self.progress
        if self.held_out is None or (
            progress.evaluations and progress.evaluations[-1]["step"] == progress.step
        ):
            return
        if not hasattr(self, "_held_out_batches"):
            self._held_out_batches = self._distributed(self.held_out, 0, augmented=False)
        batches = iter(self._held_out_batches)
        with self.loop.averaged_weights():
            figures = self.loop.evaluate(batches, self.held_out.plan.batches_per_epoch)
        progress.evaluations.append({"step": progress.step, **figures})
        self.board.figures(progress.step, {f"held_out/{n}": v for n, v in figures.items()})
        logging.info(
            "%s: step %d, held out: %s",
            self.stage.name,
            progress.step,
            ", ".join(f"{name} {value:.4f}" for name, value in figures.items()),
        )
        value = figures[self.stage.held_out[0]]
        progress.evaluations_since_best += 1
        if progress.best is None or value < progress.best:
            progress.best, progress.best_step, progress.best_figures = value, progress.step, figures
            progress.evaluations_since_best = 0
            self.checkpoints.save_best(progress)
        self._records.restart_clock()

    def _show(self) -> None:
        self._fetch()
        self.exhibits.step = self.progress.step
        try:
            with self.loop.averaged_weights():
                self.stage.show(self.exhibits)
        except OSError as error:
            raise UserError(
                f"samples cannot be written to {self.run.samples}: {error.strerror}; make room, "
                "and start the same command again"
            ) from None
        self._records.restart_clock()

    def _finish(self, reason: str) -> dict:
        progress = self.progress
        self._evaluate()
        self._show()
        self._save()
        if self.held_out is None:
            progress.best_step = progress.step
            self.checkpoints.save_best(progress)
        result = {
            "stage": self.stage.name,
            "steps": progress.step,
            "reason": reason,
            "seconds": round(progress.seconds, 1),
            "wait_share": progress.waited / max(progress.stepping, 1e-9),
            "skipped": progress.skipped,
            "best_step": progress.best_step,
            "held_out": progress.best_figures,
            "evaluations": progress.evaluations,
            "training": progress.recent,
            "devices": self.monitor and self.monitor.report(),
            "parameters": {n: parameters(net) for n, net in self.stage.networks.items()},
            "weights": self.checkpoints.load_best()["digest"],
            "identity": self.checkpoints.identity,
            "config": to_json(self.config),
            **self.stage.judge(self._judged()),
        }
        write_whole(
            self.run.stage(self.stage.name) / "finished.json", json.dumps(result, indent=1) + "\n"
        )
        return result

    def _judged(self) -> Iterable[dict]:
        """Whole held-out clips; two batches are enough to tell which of two vocoders is better."""
        if self.held_out is None:
            return [self.exhibits.clips]
        return self.held_out.batches(None, augmented=False).take(
            min(2, self.held_out.plan.batches_per_epoch)
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
