"""`Trainer`: one stage after the other, from a corpus to a voice."""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from absl import logging

from dual_device_strategy import Monitor
from myxtts.config import save_config, to_json
from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.budget import Budget
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData, UsableClips
from myxtts.training.exhibits import Exhibits
from myxtts.training.final_report import write_report
from myxtts.training.identity import RunIdentity, without_effect
from myxtts.training.interruption import Interruption
from myxtts.training.loop import Loop
from myxtts.training.needed_stages import NeededStages
from myxtts.training.precision import policy_of, precision_for
from myxtts.training.reports import Board, Parts
from myxtts.training.run_directory import RunDirectory, locked, not_writable
from myxtts.training.stage_run import StageRun
from myxtts.training.stages import Surroundings, in_order, stage_named
from myxtts.training.start import Start
from myxtts.training.step_records import TrainingFailed
from myxtts.training.workers import Workers, refuse_uneven_batches

__all__ = ["Report", "Trainer", "TrainingFailed"]


@dataclasses.dataclass
class Report:
    """The results of a run.

    Attributes:
      finished: whether every requested stage is done.
      interrupted: the name of the signal ("SIGINT", "SIGTERM") that ended the run, if any;
        everything was saved, and the same command continues.
      stages: the contents of finished.json by stage: steps, seconds, the held-out figures, ...
      text: the final report as Markdown, also in report.md; "" when interrupted.
    """

    finished: bool
    interrupted: str | None
    stages: dict[str, dict]
    text: str


class Trainer:
    """Trains the stages of a run, and continues where it was stopped.

        trainer = Trainer(config, "runs/mine", corpus=clips, validation=None, vocabulary=letters)
        report = trainer.run()

    It works the same under every strategy, and without one. Several replicas, on one machine or on
    several, each train on their part of the same batches, with the losses of one replica. So a run
    may go on with another number of devices. On several machines the first worker writes the run
    directory, and all must see it.

    The constructor writes nothing. `run` first compares the job with the directory's contents,
    including finished stages, and refuses another job's run before it writes (see `identity`).

    Args:
      config: all settings. Those that decide weights or batches must be what they were when the
        run began; others may change.
      run_dir: the run directory, see `run_directory`; `run` makes it if it is not there.
      corpus: prepared clips to train on, with all its clips (what does not fit is left out here).
      validation: held-out clips with the same speaker and language ids, or None.
      vocabulary: made from the corpus; if the run exists already, it must be the run's own.
      start: the weights to start from, see `start_of`; None for random ones. Its model and
        vocabulary must be those of the run.
      strategy: None for the one in scope, if any.
      monitor: watch steps and devices, see `dual_device_strategy.Monitor` (not without a
        strategy).
      evaluation_texts: (text, language) pairs that are spoken every `sample_steps`; by default
        the texts of two held-out clips.
      leave_notes: called with the run directory once it is known to be this job's and something
        is to be trained; it may leave files of its own there.
      progress: show a progress bar.

    Both raise `UserError` (one sentence; exit code 1), `run` also `TrainingFailed` (exit code 2).
    """

    def __init__(
        self,
        config: TrainConfig,
        run_dir: str | os.PathLike,
        *,
        corpus: Corpus,
        validation: Corpus | None,
        vocabulary: Vocabulary,
        start: Start | None = None,
        strategy: tf.distribute.Strategy | None = None,
        monitor: bool = True,
        evaluation_texts: Sequence[tuple[str, str]] = (),
        leave_notes: Callable[[RunDirectory], None] | None = None,
        progress: bool = True,
    ):
        self.config, self.directory = config, RunDirectory(run_dir)
        self.corpus, self.vocabulary = corpus, vocabulary
        self.validation = validation if validation is not None and len(validation) else None
        self._start, self._form = start, config.model.form
        self._needed = NeededStages(self.directory, start, self._form)
        self.strategy = strategy or tf.distribute.get_strategy()
        self._workers = Workers(self.strategy)
        self._has_strategy = self.strategy.extended is not tf.distribute.get_strategy().extended
        self._has_strategy |= tf.distribute.has_strategy()
        # Deterministic ops refuse the clocks in graphs that the monitor counts batches with.
        self._monitors = monitor and self._has_strategy and not config.deterministic
        self._monitors &= self._workers.chief
        self._texts, self._progress = tuple(evaluation_texts), progress and self._workers.chief
        self._leave_notes = leave_notes
        self._identity = RunIdentity.of(corpus, self.validation, vocabulary)

    def run(self, stages: Sequence[str] | None = None) -> Report:
        """Trains `stages` (all by default), one after the other; those done are skipped.

        SIGINT and SIGTERM save and return, on all workers if one gets them.
        """
        stages = in_order(stages, self._form)
        for stage in stages:
            refuse_uneven_batches(self.strategy, stage, self.config.batch_size(stage))
        if self.config.deterministic:
            tf.config.experimental.enable_op_determinism()
            # What these rewrite depends on devices and names, and so on the strategy: the last
            # bit of a sum was another one under each.
            tf.config.optimizer.set_experimental_options(
                {"arithmetic_optimization": False, "remapping": False}
            )
        results = {}
        chief = self._workers.chief
        lock = locked(self.directory) if chief else contextlib.nullcontext()
        with Interruption() as interruption, lock:
            self._workers.refuse_other_jobs(self.config, self._identity, self.corpus.paths)
            self._refuse_another_job(stages)
            left = [stage for stage in stages if self.directory.result(stage) is None]
            self._needed.refuse_missing(left)
            if left and chief:
                self._prepare_directory()
            self._workers.wait()
            for stage in stages:
                result = self.directory.result(stage)
                self._needed.refuse_others(stage)
                if result is None:
                    result = self._train(stage, stages, interruption)
                else:
                    self._say_done_already(stage, result)
                if result is None:
                    return Report(False, interruption.signal, results, "")
                results[stage] = result
            text = write_report(self.directory) if chief else ""
            self._workers.wait()
        return Report(True, None, results, text)

    @functools.cached_property
    def _exhibits(self) -> Exhibits:
        corpus = self.validation or self.corpus
        return Exhibits.chosen(
            self.strategy, self.config, corpus, self.vocabulary, texts=self._texts
        )

    @functools.cached_property
    def _clips(self) -> UsableClips:
        return UsableClips.of(self.corpus, self.vocabulary, self.config.model)

    def _train(self, stage: str, stages: Sequence[str], interruption: Interruption) -> dict | None:
        self._workers.meet()
        began = self._workers.clock()
        with Parts(f"{stage}, before its steps", 3, self._progress) as parts:
            stage_run, monitor = self._made(stage, stages, parts, began)
        try:
            return stage_run.train(interruption)
        finally:
            if monitor is not None:
                monitor.close()

    def _made(
        self, stage: str, stages: Sequence[str], parts: Parts, began: float
    ) -> tuple[StageRun, Monitor | None]:
        config, directory = self.config, self.directory
        parts.begin("clips and texts")
        for needed in stage_named(stage, self._form).needs:
            for sentence in (directory.result(needed) or {}).get("complaints", ()):
                logging.warning("%s: of the %s it is trained with: %s", stage, needed, sentence)
        data = StageData.training(stage, self._clips, config)
        held_out = None
        if self.validation is not None:
            replicas = self.strategy.num_replicas_in_sync
            held_out = StageData.held_out(
                stage, self.validation, self.vocabulary, config, replicas=replicas
            )
        spent = {s: r["seconds"] for s in stages if (r := directory.result(s)) is not None}
        budget = Budget(
            config,
            stage=stage,
            stages=stages,
            spent=spent,
            batches_per_epoch=data.plan.batches_per_epoch,
        )
        precision = self._precision(stage)
        logging.info(
            "%s: %d clips, %s; one trace serves all shapes", stage, len(data.corpus), data.shapes()
        )
        monitor = None
        if self._monitors:
            # Made first: it has the batches on their way counted.
            monitor = Monitor(
                self.strategy,
                json_file=directory.monitor_file(stage),
                log_dir=directory.events / stage,
            )
        try:
            parts.begin("networks")
            keras.utils.set_random_seed(_seed_of(stage, config.seed))
            before = keras.config.dtype_policy()
            keras.config.set_dtype_policy(policy_of(precision))
            try:
                with self.strategy.scope():
                    at = Surroundings(config, directory, len(self.vocabulary), precision)
                    made = stage_named(stage, self._form).restored(at)
                    loop = Loop(self.strategy, made, config, precision)
            finally:
                keras.config.set_dtype_policy(before)
            parts.begin("clips to show")
            chief = self._workers.chief
            board = Board(directory.events if chief else None, stage)
            board.settings({**to_json(config), "precision": precision})
            exhibits = dataclasses.replace(
                self._exhibits,
                board=board,
                directory=directory.samples / stage if chief else None,
            )
            self._workers.meet()
            stage_run = StageRun.restored(
                loop,
                data=data,
                held_out=held_out,
                budget=budget,
                config=config,
                run=directory,
                identity=self._stage_identity(stage, precision),
                exhibits=exhibits,
                board=board,
                monitor=monitor,
                workers=self._workers,
                progress_bar=self._progress,
                seconds_before=self._workers.clock() - began,
            )
        except BaseException:
            if monitor is not None:
                monitor.close()
            raise
        return stage_run, monitor

    def _stage_identity(self, stage: str, precision: str) -> dict:
        """What a checkpoint of the stage must agree with, besides its settings."""
        shared = dataclasses.asdict(self._identity)
        return {**shared, "precision": precision, **self._needed.digests(stage)}

    def _refuse_another_job(self, stages: Sequence[str]) -> None:
        self._identity.refuse_another_job(self.directory, self.config)
        for stage in stages:
            precision = self._precision(stage)
            self._identity.refuse_other_stage(self.directory, stage, self.config, precision)

    def _precision(self, stage: str) -> str:
        return precision_for(self.config.precision, self.directory, stage)

    def _say_done_already(self, stage: str, result: dict) -> None:
        place = self.directory.stage(stage)
        logging.info("%s: done already, %s", stage, place)
        late = without_effect(result, self.config, stage)
        if late:
            logging.warning(
                "%s was trained with %s; that has no effect now, delete %s to train it anew",
                stage,
                " and with ".join(late),
                place,
            )

    def _prepare_directory(self) -> None:
        directory = self.directory
        try:
            for path in (directory.path / "checkpoints", directory.samples, directory.events):
                path.mkdir(parents=True, exist_ok=True)
            if self._start is not None:
                self._start.leave(directory, self.corpus.languages)
            if not directory.vocabulary_file.exists():
                self.vocabulary.save(directory.vocabulary_file)
            self._identity.save(directory, precision_for(self.config.precision, directory))
            save_config(self.config, directory.config_file)
            if self._leave_notes is not None:
                self._leave_notes(directory)
        except OSError as error:
            raise not_writable(self.directory, error) from None


def _seed_of(stage: str, seed: int) -> int:
    """Initial weights depend on the run's seed and the stage's name, on no other stage."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{stage}".encode()).digest()[:4], "little")
