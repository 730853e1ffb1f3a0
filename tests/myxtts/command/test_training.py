"""The strategy that a training is given, and what a failed training says."""

from types import SimpleNamespace

import pytest
import tensorflow as tf
from absl.testing import flagsaver

from dual_device_strategy import DataModelSplitStrategy, command
from dual_device_strategy.devices import Device, Devices
from myxtts import UserError
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
    strategy = make_strategy(job(name), Devices(cpu(1), cpu(2), "asked for"))
    assert type(strategy) is kind and strategy.num_replicas_in_sync == 1
    with strategy.scope():
        assert tf.Variable(0.0).device.endswith("CPU:2")


def test_tensorflows_strategies_train_on_all_the_model_devices_or_on_the_first():
    several = Devices((cpu(1),), (cpu(2), cpu(3)), "asked for")
    assert make_strategy(job("mirrored"), several).num_replicas_in_sync == 2
    assert make_strategy(job("one_device"), several).extended.worker_devices[0][-5:] == "CPU:2"


def test_shares_bring_no_warning_of_means_as_the_trainer_takes_none(caplog):
    several = Devices((cpu(1),), (cpu(2), cpu(1)), "asked for")
    with flagsaver.as_parsed(shares="0.75,0.25"):
        assert make_strategy(job("split"), several).shares == (0.75, 0.25)
        assert "mean over a replica's rows" not in caplog.text
        command.make_strategy(several)
        assert "mean over a replica's rows" in caplog.text


def test_a_data_service_that_does_not_answer_is_told_before_anything_is_made():
    with pytest.raises(UserError, match=r"no data service answers at 127\.0\.0\.1:1 .*start it"):
        make_strategy(job("split", "127.0.0.1:1"), Devices(cpu(1), cpu(2), "asked for"))


def job(strategy, data_service=None):
    values = SimpleNamespace(strategy=strategy, warm_up=False)
    train = SimpleNamespace(data_service=data_service)
    return SimpleNamespace(values=values, slots=3, train=train)


def cpu(number):
    return Device("model", f"CPU:{number}", number, "a logical CPU", "host memory")
