"""A stage as the training will run it, on the same clips and devices, but for its weights: what
the later stages take from the earlier ones is made at random. For measuring; nothing is kept."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training import checkpoints, networks
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.loop import Loop
from myxtts.training.precision import chosen_precision, policy_of
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage import Surroundings
from myxtts.training.trainer import STAGE_CLASSES


@contextlib.contextmanager
def rehearsed(
    config: TrainConfig,
    stage: str,
    strategy: tf.distribute.Strategy,
    corpus: Corpus,
    vocabulary: Vocabulary,
) -> Iterator[tuple[tf.data.Dataset, Callable]]:
    """`(dataset, step)`: endless batches that are not distributed yet, and what trains on one."""
    before = keras.config.dtype_policy()
    with tempfile.TemporaryDirectory(prefix="myxtts-rehearsal-") as place:
        run = RunDirectory(place)
        precision = chosen_precision(config.precision)
        try:
            with strategy.scope():
                if stage != "tokenizer":
                    made = networks.make("tokenizer", config.model, len(vocabulary))
                    weights = {name: network.variables for name, network in made.items()}
                    checkpoints.save(run.stage("tokenizer") / "best", {}, weights)
                    del made, weights
                keras.config.set_dtype_policy(policy_of(precision))
                at = Surroundings(config, run, len(vocabulary), precision)
                loop = Loop(strategy, STAGE_CLASSES[stage](at), config, precision)
        finally:
            keras.config.set_dtype_policy(before)
        data = StageData.training(stage, corpus, vocabulary, config)
        with strategy.scope():
            dataset = data.batches(loop.stage, augmented=True)
        yield dataset, tf.function(loop.single_step, input_signature=[dataset.element_spec])
