"""The strategy that a training is given, and what a failed training says."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy
from myxtts.command.strategies import make_strategy
from myxtts.command.training import failure
from myxtts.training.run_directory import RunDirectory


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("OOM when allocating tensor with shape[9] on /job:localhost/device:GPU:0 by a", True),
        ("MemoryError: Unable to allocate 3 GiB for an array", False),
        ("/run/checkpoint; No space left on device", False),
    ],
)
def test_only_a_devices_memory_is_told_to_take_smaller_batches(message, remedy, tmp_path):
    error = tf.errors.ResourceExhaustedError(None, None, message)
    said = failure(error, RunDirectory(tmp_path))
    assert ("Halve --batch_size" in said) == remedy
    assert ("with the error above" in said) == (not remedy)
    assert "are whole" in said


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("one_device", tf.distribute.OneDeviceStrategy),
        ("mirrored", tf.distribute.MirroredStrategy),
        ("split", DataModelSplitStrategy),
    ],
)
def test_every_strategy_trains_one_replica_on_the_model_device(name, kind):
    values = SimpleNamespace(strategy=name, warm_up=False)
    devices = SimpleNamespace(data_device="CPU:1", model_device="CPU:2")
    strategy = make_strategy(SimpleNamespace(values=values, slots=3), devices)
    assert type(strategy) is kind and strategy.num_replicas_in_sync == 1
    with strategy.scope():
        assert tf.Variable(0.0).device.endswith("CPU:2")
