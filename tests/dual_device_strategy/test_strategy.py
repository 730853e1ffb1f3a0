"""Where things live under the strategy, and what it accepts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, data_scope, on_data_device


def short(device):
    return device.rsplit("device:", 1)[-1]


def place(variable):
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return short(variable.device)


def test_variables_of_every_kind_live_on_the_model_device(strategy, pair):
    made = []
    with strategy.scope():
        for trainable in (True, False):
            for synchronization in tf.VariableSynchronization:
                for aggregation in tf.VariableAggregation:
                    made.append(
                        tf.Variable(
                            1.0,
                            trainable=trainable
                            and synchronization != tf.VariableSynchronization.ON_READ,
                            synchronization=synchronization,
                            aggregation=aggregation,
                        )
                    )
        for dtype in (tf.float16, tf.bfloat16, tf.int64, tf.bool):
            made.append(tf.Variable(tf.zeros([2], dtype)))
        model = keras.Sequential([keras.layers.LSTM(3), keras.layers.Dense(2)])
        model.build([None, 4, 2])
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
        optimizer.build(model.trainable_variables)
        metric = keras.metrics.Mean()
        generator = tf.random.Generator.from_seed(1)
        made += [*model.variables, *optimizer.variables, *metric.variables, generator.state]
        held = []

        @tf.function
        def make_inside():
            if not held:
                held.append(tf.Variable(3.0))
            return held[0].read_value()

        strategy.run(make_inside)
        made += held
        made.append(tf.compat.v1.get_variable("named", shape=[2], use_resource=True))
    assert {place(variable) for variable in made} == {pair[1]}


def test_a_variable_colocated_with_another_lives_where_that_one_does(strategy, pair):
    with strategy.scope():
        with data_scope():
            scale = tf.Variable(1.0)
        with strategy.extended.colocate_vars_with(scale):
            beside = tf.Variable(2.0)
    assert place(beside) == pair[0]


def test_variables_of_the_data_scope_live_on_the_data_device(strategy, pair):
    with strategy.scope():
        with data_scope():
            layer = keras.layers.Dense(3)
            layer.build([None, 2])
            scale = tf.Variable(1.0)
        after = tf.Variable(1.0)
    assert {place(v) for v in [*layer.variables, scale]} == {pair[0]}
    assert place(after) == pair[1]


@pytest.mark.parametrize("peer", ["mirrored", "one device", "none"])
def test_data_scope_and_on_data_device_change_nothing_elsewhere(peer):
    scope = {
        "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:2"]).scope(),
        "one device": lambda: tf.distribute.OneDeviceStrategy("CPU:2").scope(),
        "none": lambda: tf.device("CPU:2"),
    }[peer]
    with scope():
        with data_scope():
            inside = tf.Variable(1.0)
        outside = tf.Variable(1.0)
    assert place(inside) == place(outside) == "CPU:2"
    dataset = tf.data.Dataset.range(3).apply(on_data_device(lambda x: x * 2))
    assert list(dataset.as_numpy_iterator()) == [0, 2, 4]


def test_the_step_runs_on_the_model_device(strategy, pair):
    @tf.function
    def step(x):
        return x + 1.0

    assert short(strategy.run(step, args=(1.0,)).device) == pair[1]
    assert short(strategy.run(lambda: tf.ones([2]) + 1.0).device) == pair[1]


def test_there_is_one_replica_and_the_data_device_is_not_one(strategy, pair):
    assert strategy.num_replicas_in_sync == 1
    assert [short(d) for d in strategy.extended.worker_devices] == [pair[1]]
    assert [short(d) for d in strategy.extended.parameter_devices] == [pair[1]]
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)


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


def test_without_names_two_gpus_are_taken_and_the_choice_is_logged(caplog):
    with caplog.at_level("INFO", "absl"):
        extended = DataModelSplitStrategy().extended
    assert short(extended.data_device) == "GPU:0"
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["DataModelSplitStrategy: data device GPU:0, model device GPU:1 (chosen)"]


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
        (
            "tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0],"
            "[tf.config.LogicalDeviceConfiguration()] * 2)",
            "CPU:0 CPU:1",
        ),
        ("", "CPU:0 CPU:0"),
    ],
)
def test_without_two_gpus_the_next_best_pair_is_chosen(run_python, setup, chosen):
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
        ({"slots": 1}, ["slots", "at least 2", "slots=1"]),
        ({"slots": 2.5}, ["slots=2.5"]),
        ({"slots": True}, ["slots=True"]),
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


def test_input_options_are_obeyed_or_refused(strategy, pair):
    dataset = tf.data.Dataset.range(3)
    to_host = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    batches = list(strategy.experimental_distribute_dataset(dataset, to_host))
    assert {short(x.device) for x in batches} == {"CPU:0"} and len(batches) == 3
    for size in (0, 4):
        options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=size)
        batches = list(strategy.experimental_distribute_dataset(dataset, options))
        assert [int(x) for x in batches] == [0, 1, 2]
        assert {short(x.device) for x in batches} == {pair[1]}
    for options, error in [
        (tf.distribute.InputOptions(experimental_per_replica_buffer_size=-1), ValueError),
        (tf.distribute.InputOptions(experimental_place_dataset_on_device=True), ValueError),
    ]:
        with pytest.raises(error, match=r"InputOptions\.experimental_"):
            strategy.experimental_distribute_dataset(dataset, options)
        with pytest.raises(error, match=r"InputOptions\.experimental_"):
            strategy.distribute_datasets_from_function(lambda _: dataset, options)


def test_importing_the_package_does_not_start_the_runtime(run_python):
    done = run_python(
        "import dual_device_strategy, tensorflow as tf\n"
        "tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0],"
        "[tf.config.LogicalDeviceConfiguration()] * 2)\n"
        "print(len(tf.config.list_logical_devices()))"
    )
    assert done.stdout.strip() == "2", done.stderr


def test_the_examples_in_the_docstrings_run():
    import doctest

    from dual_device_strategy import front_end
    from dual_device_strategy import strategy as module

    names = {
        "tf": tf,
        "np": np,
        "DataModelSplitStrategy": DataModelSplitStrategy,
        "data_scope": data_scope,
        "on_data_device": on_data_device,
    }
    for tested in (module, front_end):
        result = doctest.testmod(tested, extraglobs=names)
        assert result.failed == 0
    assert doctest.testmod(module, extraglobs=names).attempted > 5
