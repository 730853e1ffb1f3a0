"""The strategy on logical CPUs and on emulated GPUs, beside TensorFlow's own on the same device."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy

PAIRS = {"cpus": ("CPU:1", "CPU:2"), "gpus": ("GPU:0", "GPU:1")}


@pytest.fixture(params=PAIRS)
def pair(request):
    """The data device and the model device."""
    return PAIRS[request.param]


@pytest.fixture
def strategy(pair):
    return DataModelSplitStrategy(*pair)


@pytest.fixture
def peers(pair):
    """TensorFlow's strategies that have one replica, on the model device."""
    _, model_device = pair
    return [
        tf.distribute.OneDeviceStrategy(f"/{model_device}"),
        tf.distribute.MirroredStrategy([model_device]),
    ]


@pytest.fixture
def everyone(strategy, peers):
    """Ours and TensorFlow's, for what must be the same under each."""
    return [strategy, *peers]


@pytest.fixture(autouse=True)
def fixed_seed():
    tf.keras.utils.set_random_seed(1)
