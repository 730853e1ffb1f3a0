"""From disk to features under the strategy: the same numbers, on the data device."""

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device
from myxtts.config import AudioConfig, AugmentConfig, BatchConfig, FeatureConfig, TextConfig
from myxtts.corpus.batches import read_batches
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.texts import encode_texts
from myxtts.features import make_features
from myxtts.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def batches(spoken_corpus):
    """batches(epoch, batch) reads on from there and makes features through on_data_device."""
    languages = [spoken_corpus.language_of(i) for i in range(len(spoken_corpus))]
    vocabulary = Vocabulary.train(spoken_corpus.texts, languages, TextConfig(vocabulary_size=400))
    corpus, texts = encode_texts(spoken_corpus, vocabulary, 402)
    config = BatchConfig(8, buckets=2, seed=3)
    plan = BatchPlan(
        corpus.samples,
        speaker_ids=corpus.speaker_ids,
        language_ids=corpus.language_ids,
        config=config,
        audio=AudioConfig(),
    )
    augment = AugmentConfig(noise_probability=0.5, gain_probability=0.5, mask_probability=0.5)
    features = make_features(FeatureConfig(augment=augment))

    def read(epoch=0, batch=0):
        dataset = read_batches(corpus, texts, plan, begin=(epoch, batch), epochs=2)
        return dataset.apply(on_data_device(features))

    return read


@pytest.fixture(scope="module")
def plain(batches):
    """The first seven, without a strategy."""
    with tf.device("CPU:0"):
        return [{k: v.numpy() for k, v in batch.items()} for batch in batches().take(7)]


@pytest.mark.parametrize(
    "pair, start", [(("CPU:0", "CPU:1"), 0), (("GPU:0", "GPU:1"), 2)], ids=["CPUs", "GPUs"]
)
def test_batches_reach_the_model_device_unchanged(batches, plain, pair, start):
    if pair[0].startswith("GPU") and len(tf.config.list_logical_devices("GPU")) < 2:
        pytest.skip("no emulated GPUs in this process")
    strategy = DataModelSplitStrategy(*pair)
    distributed = strategy.experimental_distribute_dataset(batches(batch=start))
    for wanted, found in zip(plain[start:], distributed, strict=False):
        assert pair[1] in found["mel"].device
        assert wanted.keys() == found.keys()
        for name, value in wanted.items():
            if value.dtype == np.float32:
                # A gain whose last bit differs rounds every sample anew, which the quietest
                # mels beside loud ones show.
                np.testing.assert_allclose(value, found[name], atol=1e-4)
            elif name == "waveform" and pair[0].startswith("GPU"):
                # The gain is a power; rounded differently it can cost the last of 16 bits.
                difference = value.astype(int) - found[name].numpy()
                assert np.abs(difference).max() <= 1 and (difference != 0).mean() < 1e-4
            else:
                np.testing.assert_array_equal(value, found[name])


def test_one_replica_of_mirrored_strategy_reads_the_same(batches, plain):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.experimental_distribute_dataset(batches())
    for wanted, found in zip(plain[:2], distributed, strict=False):
        np.testing.assert_array_equal(wanted["mel"], found["mel"])
