"""The two devices that a strategy takes, and its errors for names that do not exist."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device


def short(device):
    return device.rsplit("device:", 1)[-1]


@pytest.mark.parametrize(
    "data, model",
    [
        ("GPU:0", "GPU:1"),
        ("/gpu:0", "/gpu:1"),
        ("/device:GPU:0", "/device:GPU:1"),
        tuple(f"/job:localhost/replica:0/task:0/device:GPU:{i}" for i in (0, 1)),
    ],
)
def test_devices_can_be_named_in_every_form_tensorflow_knows(data, model):
    extended = DataModelSplitStrategy(data, model).extended
    assert short(extended.data_device) == "GPU:0"
    assert [short(d) for d in extended.worker_devices] == ["GPU:1"]


def test_without_names_the_model_is_on_gpu_0_the_data_on_gpu_1_and_the_rule_is_logged(caplog):
    with caplog.at_level("INFO", "absl"):
        extended = DataModelSplitStrategy().extended
    assert short(extended.data_device) == "GPU:1"
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "DataModelSplitStrategy: data device GPU:1, model device GPU:0 "
        "(chosen: the cards are alike: the lower index trains)"
    ]


CHOICE = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation
{setup}
e = DataModelSplitStrategy().extended
print(e.data_device[-5:], e.worker_devices[0][-5:])
"""


@pytest.mark.parametrize(
    "setup, chosen",
    [
        ("emulation.start(gpus=1)", "CPU:0 GPU:0"),
        ("emulation.start(gpus=2, memory_mb=[512, 1024])", "GPU:0 GPU:1"),
        (
            "emulation.start(gpus=3, memory_mb=[64, 128, 64]);"
            "gpus = tf.config.list_physical_devices('GPU');"
            "tf.config.set_visible_devices(gpus[1:], 'GPU')",
            "GPU:1 GPU:0",
        ),
        (
            "tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0],"
            "[tf.config.LogicalDeviceConfiguration()] * 2)",
            "CPU:0 CPU:1",
        ),
        ("", "CPU:0 CPU:0"),
    ],
)
def test_the_larger_card_trains_and_without_two_gpus_the_next_best_pair_is_chosen(
    run_python, setup, chosen
):
    done = run_python(CHOICE.format(setup=setup))
    assert done.stdout.strip() == chosen, done.stderr
    turns = "will take turns" in done.stderr
    assert turns == (chosen == "CPU:0 CPU:0")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"data_device": "GPU:0"}, ["model_device is missing", "GPU:1"]),
        ({"model_device": "GPU:0"}, ["data_device is missing", "GPU:1"]),
        (
            {"data_device": "GPU:7", "model_device": "GPU:1"},
            ["data_device='GPU:7'", "GPU:0, GPU:1"],
        ),
        ({"data_device": "GPU:0", "model_device": "TPU:0"}, ["model_device='TPU:0'", "GPU:1"]),
        ({"data_device": "nonsense", "model_device": "GPU:1"}, ["data_device='nonsense'"]),
        ({"data_device": "", "model_device": "GPU:1"}, ["data_device=''"]),
        ({"data_device": ["GPU:0"], "model_device": "GPU:1"}, ["data_device", "name of a device"]),
    ],
)
def test_a_bad_argument_is_named_with_what_there_is(arguments, words):
    with pytest.raises(ValueError) as error:
        DataModelSplitStrategy(**arguments)
    for word in words:
        assert word in str(error.value)


def test_one_device_for_both_is_taken_with_one_warning(caplog):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:1")
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1 and "GPU:1" in warnings[0] and "take turns" in warnings[0]
    dataset = tf.data.Dataset.range(4).apply(on_data_device(lambda x: x + 1))
    batches = list(strategy.experimental_distribute_dataset(dataset))
    assert [int(x) for x in batches] == [1, 2, 3, 4]
    assert {short(x.device) for x in batches} == {"GPU:1"}
