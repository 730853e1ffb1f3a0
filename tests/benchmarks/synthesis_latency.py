"""How soon a voice speaks: the first chunk of a stream, and how much faster than real time it is.

    python tests/benchmarks/synthesis_latency.py [--checkpoint=RUN] [--size=tiny]

Without --checkpoint the networks of the size have random weights: that changes neither the time of
a code nor that of a chunk, only when speech ends. The model is loaded and warmed up; each figure is
the median of rounds of three texts of different lengths, with the slowest one beside it.
"""

import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_string("checkpoint", None, "Directory of a training run.")
flags.DEFINE_string("size", "tiny", "Size of networks with random weights.")
flags.DEFINE_integer("rounds", 11, "How often each text is said.")
TEXTS = (
    "Good morning.",
    "It is a fine day, and there is nothing that we have to do.",
    "When the sun had set behind the hills, they sat by the fire for a long time, told one another "
    "old stories, and forgot how late it was.",
)


def untrained(size: str):
    from myxtts.corpus.sentences import different_sentences
    from myxtts.model.config import SIZES
    from myxtts.text.vocabulary import Vocabulary
    from myxtts.training import networks
    from myxtts.training.config import TrainConfig
    from myxtts.training.networks import Networks
    from myxtts.training.stages import stage_names

    config = TrainConfig(model=SIZES[size])
    texts = [text for text, _ in zip(different_sentences("en", 0), range(1000), strict=False)]
    vocabulary = Vocabulary.train(texts, ["en"] * len(texts), config.model.text)
    found = Networks(config, vocabulary)
    for stage in stage_names():
        for name, network in networks.make(stage, config.model, len(vocabulary)).items():
            setattr(found, name, network)
    return found


def main(_):
    logging.set_verbosity(logging.ERROR)
    from myxtts.voice import Speaking, Voice

    voice = (
        Voice.load(FLAGS.checkpoint, "network")
        if FLAGS.checkpoint
        else Voice(untrained(FLAGS.size))
    )
    start = time.perf_counter()
    voice.warm_up()
    print(f"warming up takes {time.perf_counter() - start:.1f} s")
    chance = np.random.default_rng(0)
    reference = (0.1 * chance.standard_normal(5 * voice.sample_rate)).astype(np.float32)
    took = {"cloning 5 s": [], "first chunk": [], "faster than real time": []}
    for number in range(FLAGS.rounds):
        for text in TEXTS:
            start = time.perf_counter()
            cloned = voice.clone([reference])
            took["cloning 5 s"].append(1000 * (time.perf_counter() - start))
            start, first, samples = time.perf_counter(), None, 0
            for chunk in voice.stream(text, voice.languages[0], cloned, Speaking(seed=number)):
                samples += len(chunk)
                first = first or 1000 * (time.perf_counter() - start)
            whole = time.perf_counter() - start
            took["first chunk"].append(first)
            took["faster than real time"].append(samples / voice.sample_rate / whole)
    for name, worst, unit in (
        ("cloning 5 s", max, "ms"),
        ("first chunk", max, "ms"),
        ("faster than real time", min, "times"),
    ):
        median = statistics.median(took[name])
        print(f"{name:24}{median:8.1f} {unit} (worst {worst(took[name]):.1f})")


if __name__ == "__main__":
    app.run(main)
