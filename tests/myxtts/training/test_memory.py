"""Memory estimates against what a step on emulated GPUs really held."""

import json

import pytest

from myxtts.model.config import SIZES
from myxtts.training import networks
from myxtts.training.config import TrainConfig
from myxtts.training.memory import MODEL, estimate
from myxtts.training.stages import LongestClip, stage_names


def test_parameters_are_those_of_the_networks_and_cost_no_memory():
    config = TrainConfig()
    for stage in stage_names():
        made = networks.make(stage, config.model, 300)
        told = estimate(config, stage, LongestClip(400, 100), 300).parameters
        for name, network in made.items():
            assert told[name] == networks.parameters(network)


def test_estimates_follow_what_is_asked_for():
    tiny, small = (TrainConfig(model=SIZES[name]) for name in ("tiny", "small"))
    for stage in stage_names():
        base = estimate(tiny, stage, LongestClip(400, 100), 300)
        assert base.on(MODEL, 32) > base.on(MODEL, 16) > base.fixed["model"]
        assert estimate(small, stage, LongestClip(400, 100), 300).on(MODEL) > base.on(MODEL)
        half = estimate(tiny, stage, LongestClip(400, 100), 300, precision="bfloat16")
        assert half.per_clip["model"] < base.per_clip["model"]
        room = base.on(MODEL, 7)
        assert base.largest_batch(MODEL, room) == 7
        assert base.largest_batch(MODEL, 0) == 0
        more = estimate(tiny, stage, LongestClip(400, 100), 300, slots=8)
        assert more.on(MODEL) > base.on(MODEL)


# Prints what was estimated and what was held on each device, of a process that did nothing else.
_ONE_STEP = """
import json, sys
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation
from myxtts.training.memory import DATA, MODEL, estimate
from myxtts.training.stages import LongestClip
from myxtts.command.profiling import rehearsed
from myxtts.config import BatchConfig
from myxtts.corpus.manifest import Corpus
from myxtts.model.config import SIZES
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.stages import stage_names

emulation.start(gpus=2, memory_mb=1024)
corpus = Corpus.load(sys.argv[1])
languages = [corpus.language_of(i) for i in range(len(corpus))]
vocabulary = Vocabulary.train(corpus.texts, languages, SIZES["tiny"].text)
config = TrainConfig(batches=BatchConfig(batch_size=8, static_shapes=True), host_prefetch=1)
frames = int(-(-corpus.samples.max() // 256))
tokens = max(len(vocabulary.encode(t, "en")) for t in corpus.texts)
told = estimate(config, "gpt", LongestClip(frames, tokens), len(vocabulary))
strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
with rehearsed(config, "gpt", strategy, corpus=corpus, vocabulary=vocabulary) as (dataset, step):
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, (batch,)).numpy()
        break
held = [tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in (0, 1)]
print(json.dumps({"told": [told.on(DATA), told.on(MODEL)], "held": held}))
"""


@pytest.mark.slow
def test_a_step_holds_about_what_was_estimated(prepared_directory, run_python):
    done = run_python(["-c", _ONE_STEP, prepared_directory])
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    data, model = (told / held for told, held in zip(figures["told"], figures["held"], strict=True))
    assert 0.7 < model < 1.4, figures
    assert 0.5 < data < 2.0, figures
