"""TensorFlow's own strategies beside ours, each on the model device."""

import pytest
import tensorflow as tf
from absl import flags

from tests.dual_device_strategy.pairs import one_pair

# What runs on a device is compared on emulated GPUs in tests/dual_device_strategy/emulation.
pair = one_pair("cpu")


@pytest.fixture
def peers(pair):
    """TensorFlow's strategies that have one replica."""
    _, model_device = pair
    return [
        tf.distribute.OneDeviceStrategy(f"/{model_device}"),
        tf.distribute.MirroredStrategy([model_device]),
    ]


@pytest.fixture
def everyone(strategy, peers):
    """Ours first, then TensorFlow's: for what must be the same under each."""
    return [strategy, *peers]


@pytest.fixture(autouse=True)
def parsed_flags():
    """TensorFlow's test bases read flags, and would take them from pytest's command line."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["pytest"])


@pytest.fixture(autouse=True)
def fixed_seed():
    tf.keras.utils.set_random_seed(1)


def eagerly(fn):
    return fn


def in_function(fn):
    return tf.function(fn)


@pytest.fixture(params=[eagerly, in_function])
def mode(request):
    """A decorator that leaves a function eager, or makes it a tf.function."""
    return request.param
