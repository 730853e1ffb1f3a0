"""A training step of every stage in every number type, at the default sizes.

    python tests/benchmarks/number_types.py

prints milliseconds a step, medians of 12 steps at one shape. What
`--precision=auto` takes on a CPU goes by it.
"""

import dataclasses
import os
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from absl import app, flags

from myxtts.command.profiling import rehearsed
from myxtts.config import BatchConfig, PrepareConfig
from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.stages import stage_names

flags.DEFINE_list("types", ["float32", "bfloat16"], "Number types.")
flags.DEFINE_list("stages", list(stage_names()), "Stages.")
flags.DEFINE_integer("steps", 12, "Steps that are timed.")


def main(_) -> None:
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with tempfile.TemporaryDirectory() as place:
        speech = embedded.EmbeddedConfig(minutes=5.0, voices=2)
        source = Source(embedded.make(place, speech, progress=False))
        directory, _ = prepare(source, PrepareConfig())
        corpus = Corpus.load(directory)
        config = TrainConfig(max_steps=1, batches=BatchConfig(static_shapes=True))
        languages = [corpus.language_of(clip) for clip in range(len(corpus))]
        vocabulary = Vocabulary.train(corpus.texts, languages, config.model.text)
        for stage in flags.FLAGS.stages:
            times = {kind: _times(stage, kind, config, corpus, vocabulary, strategy)
                     for kind in flags.FLAGS.types}
            print(stage, ", ".join(f"{kind} {value:.0f} ms" for kind, value in times.items()),
                  flush=True)


def _times(stage, kind, config, corpus, vocabulary, strategy) -> float:
    config = dataclasses.replace(config, precision=kind)
    with rehearsed(
        config, stage=stage, strategy=strategy, corpus=corpus, vocabulary=vocabulary
    ) as (dataset, step):
        batches = iter(strategy.experimental_distribute_dataset(dataset.take(1).cache().repeat()))
        batch = next(batches)
        times = []
        for _ in range(flags.FLAGS.steps + 2):
            start = time.perf_counter()
            tf.nest.map_structure(lambda t: t.numpy(), strategy.run(step, (batch,)))
            times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[2:])


if __name__ == "__main__":
    app.run(main)
