"""One stage from its first step, or from its newest checkpoint, to its result."""

import functools
import time
from collections.abc import Callable

from absl import logging

from myxtts import UserError
from myxtts.training.budget import Budget, Measured
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.evaluating import evaluate
from myxtts.training.exhibits import Exhibits
from myxtts.training.finishing import finish
from myxtts.training.interruption import Interruption
from myxtts.training.loop import Loop
from myxtts.training.periodic import Periodic
from myxtts.training.reports import Bar, Board
from myxtts.training.run_directory import RunDirectory
from myxtts.training.shares import ShareTrials
from myxtts.training.stage_checkpoints import Progress, StageCheckpoints
from myxtts.training.step_log import StepLog
from myxtts.training.step_records import StepRecords
from myxtts.training.workers import Workers

# A stage that is too short for its settings is still evaluated and shown this often. The first
# samples take seconds to trace, so a short stage makes them only at its end.
_EVALUATIONS, _SHOWS = 3, 1
# The last part of a plan is not corrected any more, because its learning rates are nearly zero.
_UNCORRECTED = 0.1


class StageRun:
    """Trains one stage; make it with `restored`, then call `train` once.

        stage_run = StageRun.restored(loop, data=data, held_out=held_out, budget=budget, ...)
        result = stage_run.train(interruption)

    The loop on the device makes a few steps a call. Between two calls the host does what is due
    (`Periodic`): it fetches figures, evaluates, shows, saves.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        data: StageData,
        held_out: StageData | None,
        budget: Budget,
        config: TrainConfig,
        run: RunDirectory,
        identity: dict,
        exhibits: Exhibits,
        board: Board,
        monitor=None,
        workers: Workers,
        progress_bar: bool = True,
        seconds_before: float = 0.0,
    ):
        """`seconds_before` is the time that the stage has taken already, to make the arguments."""
        self.workers = workers
        self.loop, self.stage, self.data, self.held_out = loop, loop.stage, data, held_out
        self.budget, self.config, self.run = budget, config, run
        self.strategy, self.monitor = loop.strategy, monitor
        self.exhibits, self.board, self.bar_shown = exhibits, board, progress_bar
        self._seconds_before = seconds_before
        plan = data.plan
        self.shares = ShareTrials(
            self.strategy,
            self.stage.name,
            rows=plan.config.batch_size,
            shapes=len(plan.bucket_frames),
        )
        self.checkpoints = StageCheckpoints(
            self.stage,
            loop,
            config,
            directory=run.stage(self.stage.name),
            identity=identity,
            shares=self.shares,
            writes=workers.chief,
        )
        self.progress = Progress()
        self.held_out_batches = None  # distributed, from the first evaluation on
        self._fetching = Periodic(config.log_steps, self.fetch)
        self._evaluating = Periodic(config.evaluate_steps, self.evaluate, at_least=_EVALUATIONS)
        self._showing = Periodic(config.sample_steps, self.show, at_least=_SHOWS)
        self._saving = Periodic(config.checkpoint_steps, self.save)

    @classmethod
    def restored(cls, loop: Loop, **options) -> "StageRun":
        """Takes the constructor's arguments; restores the newest checkpoint, if there is one."""
        run = cls(loop, **options)
        run.progress, planned_for = run.checkpoints.restore_newest()
        run.workers.refuse_other_directory(run.run, run.progress.step)
        if run.budget.steps is None and planned_for == run.config.max_minutes:
            run.budget.steps = run.progress.planned
        if run.budget.steps is not None:
            run._plan()
        return run

    def train(self, interruption: Interruption) -> dict | None:
        """The result, or None if a signal ended it after everything was saved."""
        progress = self.progress
        progress.preparing += self._seconds_before
        self._seconds_before, self._started = (
            progress.seconds + self._seconds_before,
            self.workers.clock(),
        )
        if self.workers.chief:
            log = StepLog.continued(self.run.steps_file, self.stage.name, progress.step)
        else:
            log = StepLog(None, self.stage.name)
        self._bar = Bar(self.stage.name, progress.step, self.budget.steps, self.bar_shown)
        self.says("tracing the first step")
        self.records = StepRecords(
            self.loop,
            data=self.data,
            config=self.config,
            progress=progress,
            log=log,
            board=self.board,
            bar=self._bar,
        )
        try:
            reason = self._steps(interruption)
            if reason is None:
                return None
            self._bar.close()
            return finish(self, reason)
        finally:
            self._bar.close()
            log.close()
            self.board.close()

    def _steps(self, interruption: Interruption) -> str | None:
        """Makes the steps; returns why the stage is done, or None after a signal."""
        config, progress, budget = self.config, self.progress, self.budget
        per_epoch = self.data.plan.batches_per_epoch
        # TensorFlow keeps the functions of a dataset as long as the process lives. With `self` in
        # this one, the networks and the graphs of every stage would stay in memory.
        position = functools.partial(progress.next_batch, per_epoch)
        batches = self.distributed(self.data, position, augmented=True)
        left = None if budget.steps is None else budget.steps - progress.step
        self.shares.begin(progress.step, self.stage.phase_of(progress.step), left)
        iterator = iter(batches)
        measured = Measured(self.workers.clock)
        while budget.steps is None or progress.step < budget.steps:
            steps, phase = self._next_call(measured)
            self._call(iterator, steps, phase)
            # A signal that comes from here on is one worker's own until they meet again.
            agreed = self.workers.meet(interruption.signal)
            ends = agreed or progress.step == budget.steps
            if not ends and self.shares.are_due(progress.step, self.stage.phase_of(progress.step)):
                iterator = None  # or its batches would stay beside the new ones
                iterator = self._iterated_anew(batches)
                measured = Measured(self.workers.clock)
            if budget.steps is None:
                self.fetch()
                measured.add(steps)
                if budget.measure(progress.step, self.seconds(), *measured.figures()):
                    progress.planned_at = progress.step, self.seconds()
                    self._plan()
                    self._bar.plan(budget.steps)
                    # At once: a run that is killed and continued must have the same schedule.
                    self.save()
            self._correct_plan()
            for periodic in self._due(progress.step):
                periodic.action()
                if progress.evaluations_since_best >= (config.patience or float("inf")):
                    return f"no better in {config.patience} evaluations"
            if agreed:
                interruption.signal = agreed
                self.save()
                self.workers.wait()  # until the first worker has written; the end of one ends all
                return None
            if budget.is_over(self.seconds()):
                return "the time is up"
        return "all steps were made"

    def _iterated_anew(self, batches):
        """An iterator over the batches from here on; with other shares, if any were chosen."""
        self.fetch()
        before, began = self.shares.state, time.perf_counter()
        iterator = iter(batches)
        self.progress.preparing += time.perf_counter() - began
        if self.shares.state != before:
            # At once: a run that is killed and continued must have the same shares.
            self.save()
        self.records.restart_clock()
        return iterator

    def _correct_plan(self) -> None:
        """Corrects the plan half way, half way from there to the end, and so on. A schedule that is
        cut off trains worse, and other programs on the machine may come and go."""
        progress, budget = self.progress, self.budget
        if progress.planned_at is None or (
            progress.planned - progress.step > progress.step - progress.planned_at[0]
        ):
            return
        since, progress.planned_at = progress.planned_at, (progress.step, self.seconds())
        if progress.planned - progress.step < _UNCORRECTED * progress.planned:
            progress.planned_at = None
        if budget.correct(progress.step, self.seconds(), since):
            self._plan()
            self._bar.plan(budget.steps)
            self.save()

    def _due(self, step: int) -> list[Periodic]:
        """The actions due after this step, in order; `finish` evaluates and shows at the end."""
        in_order = [self._fetching, self._evaluating, self._showing, self._saving]
        self._bar.run_left(self.budget.run_seconds_left(self.seconds()))
        if step == self.budget.steps:
            in_order = [self._fetching, self._saving]
        return [periodic for periodic in in_order if periodic.is_due(step)]

    def _call(self, iterator, steps: int, phase: int) -> None:
        traced, began = self.loop.is_traced(phase), time.perf_counter()
        if not traced:
            self.fetch()
        if self.monitor is None:
            self.loop.run(iterator, steps, phase)
        else:
            with self.monitor.call(iterator, steps=steps):
                self.loop.run(iterator, steps, phase)
        self.progress.step += steps
        self._bar.advance(steps)
        if not traced:
            self.records.fetch(timed=False)
            self.progress.preparing += time.perf_counter() - began
            self.records.restart_clock()

    def _next_call(self, measured: "Measured") -> tuple[int, int]:
        """The number of steps until the next action, and their phase."""
        config, step = self.config, self.progress.step
        if self.budget.steps is None:
            steps = min(config.steps_per_call, 5)
        else:
            steps = min(config.steps_per_call, self.budget.steps - step)
        for periodic in (self._fetching, self._evaluating, self._showing, self._saving):
            steps = min(steps, periodic.steps_left(step))
        steps = int(min(steps, self.shares.steps_left(step)))
        phase = self.stage.phase_of(step)
        steps = min([steps, *(start - step for start in self.stage.phases[phase + 1 :])])
        return (steps if self.loop.is_traced(phase) else 1), phase

    def distributed(self, data: StageData, position: int | Callable[[], int], **options):
        with self.strategy.scope():
            dataset = data.batches(self.stage, position=position, **options)
        return self.strategy.experimental_distribute_dataset(dataset)

    def says(self, what: str) -> None:
        self._bar.run_left(self.budget.run_seconds_left(self.seconds()))
        self._bar.says(what)

    def seconds(self) -> float:
        """The time that the stage has taken so far, in all sessions."""
        return self._seconds_before + self.workers.clock() - self._started

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

    def fetch(self) -> None:
        """Brings the log and the progress up to the last step."""
        self.records.fetch()

    def save(self) -> None:
        self.fetch()
        self.progress.seconds = self.seconds()
        self.checkpoints.save(self.progress)
        self.records.restart_clock()

    def evaluate(self) -> None:
        """Evaluates the averaged weights on the held-out clips, and keeps the best weights."""
        evaluate(self)

    def show(self) -> None:
        self.fetch()
        self.says("samples")
        self.exhibits.step = self.progress.step
        try:
            with self.loop.averaged_weights():
                self.stage.show(self.exhibits)
        except OSError as error:
            raise UserError(
                f"samples cannot be written to {self.run.samples}: {error.strerror}; make room, "
                "and start the same command again"
            ) from None
        self.records.restart_clock()
