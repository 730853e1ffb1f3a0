"""Trainings from a small published model, for the tests of its stages."""

import contextlib
import dataclasses

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config as tf_config

from myxtts.config import BatchConfig
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData, UsableClips
from myxtts.training.loop import Loop
from myxtts.training.precision import policy_of
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings, stage_named, stages_of
from myxtts.training.trainer import Trainer
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.sizes import SoundObjective

ALL = ("tokenizer", "gpt", "vocoder")
# A discriminator takes a fifth of the time of tracing the vocoder.
SOUND = SoundObjective(segment_hops=16, critic_width=2, critic_periods=(3,))


@contextlib.contextmanager
def deterministic_ops():
    """Without them sums of several threads may differ in the last bit."""
    tf.config.experimental.enable_op_determinism()
    options = tf.config.optimizer.get_experimental_options()
    try:
        yield
    finally:
        tf_config.disable_op_determinism()
        before = {n: options.get(n, True) for n in ("arithmetic_optimization", "remapping")}
        tf.config.optimizer.set_experimental_options(before)


@contextlib.contextmanager
def computing_in(precision):
    """Networks that are made in this block compute in it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy_of(precision))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def trainer(
    path, start, clips, strategy=None, rank=0, precision="float32", dropout=0.1, **settings
):
    """Six steps by default, of whatever stage `run` is given; `rank` is that of adapters."""
    published = start.model.xtts_v2
    objective = dataclasses.replace(published.objective, dropout=dropout)
    published = dataclasses.replace(published, adapter_rank=rank, sound=SOUND, objective=objective)
    usual = {name: stage.learning for name, stage in stages_of(start.model.form).items()}
    settings = {
        "max_steps": 6,
        "stages": {
            name: dataclasses.replace(one, learning_rate=3e-3, share=1.0)
            for name, one in usual.items()
        },
        **settings,
    }
    config = TrainConfig(
        model=dataclasses.replace(start.model, xtts_v2=published),
        batches=BatchConfig(batch_size=4, buckets=1),
        steps_per_call=3,
        log_steps=3,
        evaluate_steps=3,
        evaluation_clips=4,
        sample_steps=1000,
        checkpoint_steps=3,
        precision=precision,
        **settings,
    )
    training, held_out = clips
    return Trainer(
        config,
        run_dir=path,
        corpus=training,
        validation=held_out,
        vocabulary=start.vocabulary,
        start=start,
        strategy=strategy or tf.distribute.OneDeviceStrategy("CPU:0"),
        monitor=False,
        progress=False,
    )


def restored(path, start, config, stage, scope=contextlib.nullcontext):
    """The stage as a new run in `path` begins with it."""
    run = RunDirectory(path)
    start.leave(run)
    with scope():
        at = Surroundings(config, run, len(start.vocabulary))
        return stage_named(stage, config.model.form).restored(at)


def stage_data(stage, corpus, start, config) -> StageData:
    """The batches of a stage of these clips."""
    return StageData.training(stage, UsableClips.of(corpus, start.vocabulary, config.model), config)


def held_out(stage, start, clips, config) -> dict:
    """The stage's figures on the clips that are held out, as they are now."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    data = StageData.held_out(stage.name, clips[1], start.vocabulary, config)
    batches = strategy.experimental_distribute_dataset(data.batches(stage, augmented=False))
    loop = Loop(strategy, stage, config, "float32")
    return loop.evaluate(iter(batches), data.plan.batches_per_epoch)


def variables_of(loop) -> list[tuple[str, np.ndarray]]:
    """Everything that a stage's steps change, with its name in this process."""
    stage = loop.stage
    made = [*stage.networks.values(), *stage.helpers.values()]
    made += [learner.optimizer for learner in stage.learners.values()]
    return [(v.path, v.numpy()) for each in made for v in each.variables]


def tensors(path) -> dict:
    """Of a published directory, the DVAE's among them."""
    made = PublishedDirectory.open(path)
    return {**made.model, **{f"dvae.{name}": value for name, value in made.dvae.items()}}
