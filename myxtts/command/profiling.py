"""--profile: where the time of this very job goes, for each stage it trains."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

from dual_device_strategy import command
from dual_device_strategy.devices import Devices
from dual_device_strategy.profile import ProfileError, profile
from myxtts import UserError
from myxtts.command.corpora import Clips, vocabulary_of
from myxtts.command.settings import Job
from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training import checkpoints, networks
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData, UsableClips
from myxtts.training.loop import Loop
from myxtts.training.precision import fastest_precision, policy_of
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings, stage_named
from myxtts.training.start import Start
from myxtts.training.workers import refuse_uneven_batches


def profile_job(job: Job, clips: Clips, devices: Devices) -> int:
    """Measures each stage that the job trains, on its devices; prints a table and writes a page for
    each."""
    if job.values.strategy != "split":
        raise UserError(
            f"--profile measures the split strategy, --strategy={job.values.strategy} was asked "
            "for: leave that out; the profile says what one device alone would take"
        )
    if job.values.shares == "auto":
        raise UserError(
            "--shares=auto chooses shares while a stage trains, and --profile measures one choice: "
            "name the shares, such as --shares=0.7,0.3"
        )
    vocabulary = vocabulary_of(job, clips.training)
    pages = []
    for stage in job.stages:
        logging.info("%s: measuring, %d times each", stage, job.values.profile_steps)
        try:
            strategy = command.make_strategy(
                devices, slots=job.slots, warm_up=job.values.warm_up, weighs_rows=True
            )
        except ValueError as error:
            raise UserError(f"{error}") from None
        refuse_uneven_batches(strategy, stage, job.train.batch_size(stage))
        with rehearsed(
            job.train,
            stage=stage,
            strategy=strategy,
            corpus=clips.training,
            vocabulary=vocabulary,
            start=job.start,
        ) as (dataset, step):
            try:
                result = profile(strategy, dataset, step, steps=job.values.profile_steps)
            except ProfileError as error:
                raise UserError(f"{stage}: {error}") from None
        print(f"\n{stage}\n{result.table()}", flush=True)
        pages.append(_written(job.run_path, stage, result))
    print("\npages: " + ", ".join(map(str, pages)))
    return 0


def _written(place: Path, stage: str, result) -> Path:
    path = place / f"profile-{stage}.html"
    try:
        place.mkdir(parents=True, exist_ok=True)
        result.write_html(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    return path


@contextlib.contextmanager
def rehearsed(
    config: TrainConfig,
    stage: str,
    strategy: tf.distribute.Strategy,
    *,
    corpus: Corpus,
    vocabulary: Vocabulary,
    start: Start | None = None,
) -> Iterator[tuple[tf.data.Dataset, Callable]]:
    """A stage as the training will run it, on the same clips and devices, but for its weights: the
    stages it needs have random ones. For measuring; nothing is kept.

    Yields `(dataset, step)`: endless batches that are not distributed yet, and what trains on one.
    """
    before = keras.config.dtype_policy()
    with tempfile.TemporaryDirectory(prefix="myxtts-rehearsal-") as place:
        run = RunDirectory(place)
        precision = fastest_precision() if config.precision == "auto" else config.precision
        try:
            with strategy.scope():
                if start is not None:
                    start.leave(run)
                for needed in stage_named(stage, config.model.form).needs:
                    made = networks.make(needed, config.model, len(vocabulary))
                    weights = {name: network.variables for name, network in made.items()}
                    checkpoints.save(run.stage(needed) / "best", {}, weights)
                    del made, weights
                keras.config.set_dtype_policy(policy_of(precision))
                at = Surroundings(config, run, len(vocabulary), precision)
                made = stage_named(stage, config.model.form).restored(at)
                loop = Loop(strategy, made, config, precision)
        finally:
            keras.config.set_dtype_policy(before)
        clips = UsableClips.of(corpus, vocabulary, config.model)
        data = StageData.training(stage, clips, config)
        with strategy.scope():
            dataset = data.batches(loop.stage, augmented=True)
        if strategy.num_replicas_in_sync == 1:
            yield dataset, tf.function(loop.single_step, input_signature=[dataset.element_spec])
        else:  # replicas have parts of batches
            yield dataset, tf.function(loop.single_step, reduce_retracing=True)
