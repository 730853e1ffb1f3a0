"""Memory estimates against what a step on emulated GPUs really held."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy
from myxtts.command.memory import Longest, estimate
from myxtts.command.rehearsal import rehearsed
from myxtts.config import BatchConfig
from myxtts.model.config import SIZES
from myxtts.text.vocabulary import Vocabulary
from myxtts.training import networks
from myxtts.training.config import STAGES, TrainConfig


def test_parameters_are_those_of_the_networks_and_cost_no_memory():
    config = TrainConfig()
    for stage in STAGES:
        made = networks.make(stage, config.model, 300)
        told = estimate(config, stage, Longest(400, 100), 300).parameters
        for name, network in made.items():
            assert told[name] == networks.parameters(network)


def test_estimates_follow_what_is_asked_for():
    tiny, small = (TrainConfig(model=SIZES[name]) for name in ("tiny", "small"))
    for stage in STAGES:
        base = estimate(tiny, stage, Longest(400, 100), 300)
        assert base.on("model", 32) > base.on("model", 16) > base.fixed["model"]
        assert estimate(small, stage, Longest(400, 100), 300).on("model") > base.on("model")
        half = estimate(tiny, stage, Longest(400, 100), 300, "bfloat16")
        assert half.per_clip["model"] < base.per_clip["model"]
        room = base.on("model", 7)
        assert base.largest_batch("model", room) == 7
        assert base.largest_batch("model", 0) == 0
        more = estimate(tiny, stage, Longest(400, 100), 300, slots=8)
        assert more.on("model") > base.on("model")


@pytest.mark.slow
def test_a_step_holds_about_what_was_estimated(spoken_corpus):
    if len(tf.config.list_logical_devices("GPU")) < 2:
        pytest.skip("no emulated GPUs in this process")
    languages = [spoken_corpus.language_of(i) for i in range(len(spoken_corpus))]
    vocabulary = Vocabulary.train(spoken_corpus.texts, languages, SIZES["tiny"].text)
    batches = BatchConfig(batch_size=8, static_shapes=True)
    config = TrainConfig(batches=batches, host_prefetch=1)
    frames = int(-(-spoken_corpus.samples.max() // 256))
    tokens = max(len(vocabulary.encode(t, "en")) for t in spoken_corpus.texts)
    told = estimate(config, "gpt", Longest(frames, tokens), len(vocabulary))
    before = [tf.config.experimental.get_memory_info(f"GPU:{i}")["current"] for i in (0, 1)]
    for i in (0, 1):
        tf.config.experimental.reset_memory_stats(f"GPU:{i}")
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with rehearsed(config, "gpt", strategy, spoken_corpus, vocabulary) as (dataset, step):
        distributed = strategy.experimental_distribute_dataset(dataset)
        for batch in distributed:
            strategy.run(step, (batch,)).numpy()
            break
    held = [tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in (0, 1)]
    assert 0.7 < told.on("model") / (held[1] - before[1]) < 1.4
    assert 0.5 < told.on("data") / (held[0] - before[0]) < 2.0
