"""Where things live under the strategy, and what it accepts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, data_scope, on_data_device
from dual_device_strategy.devices import Device, Devices


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


@pytest.mark.parametrize("slots", [1, 2.5, True])
def test_a_bad_number_of_slots_is_named(slots):
    with pytest.raises(ValueError, match=f"slots must be .* at least 2 .*slots={slots}"):
        DataModelSplitStrategy(slots=slots)


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
    negative = tf.distribute.InputOptions(experimental_per_replica_buffer_size=-1)
    with pytest.raises(ValueError, match=r"InputOptions\.experimental_"):
        strategy.experimental_distribute_dataset(dataset, negative)
    with pytest.raises(ValueError, match=r"InputOptions\.experimental_"):
        strategy.distribute_datasets_from_function(lambda _: dataset, negative)


def test_placing_a_dataset_on_its_device_is_what_it_is_under_tensorflows_strategy(strategy):
    dataset = tf.data.Dataset.range(3)
    options = tf.distribute.InputOptions(experimental_place_dataset_on_device=True)
    for each in (strategy, tf.distribute.OneDeviceStrategy("CPU:2")):
        assert [int(x) for x in each.experimental_distribute_dataset(dataset, options)] == [0, 1, 2]
        with pytest.raises(ValueError, match="PER_REPLICA"):
            each.distribute_datasets_from_function(lambda _: dataset, options)


def test_devices_and_slots_can_be_asked_for(strategy, pair):
    assert [short(strategy.data_device), short(strategy.model_device)] == list(pair)
    assert strategy.slots == 4
    assert iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(3))).slots == 4
    auto = DataModelSplitStrategy(*pair, slots="auto")
    assert auto.slots == "auto"
    assert iter(auto.experimental_distribute_dataset(tf.data.Dataset.range(3))).slots == 4
    assert auto.slots == "auto"


def test_it_takes_what_configure_devices_returns():
    devices = Devices(
        data=Device("data", "GPU:0", physical=0, name="emulated", memory="grows"),
        model=Device("model", "GPU:1", physical=1, name="emulated", memory="grows"),
        reason="asked for",
    )
    strategy = DataModelSplitStrategy(devices, slots=4)
    assert [short(strategy.data_device), short(strategy.model_device)] == ["GPU:0", "GPU:1"]
    with pytest.raises(ValueError, match=r"model_device='GPU:1'.*names both"):
        DataModelSplitStrategy(devices, "GPU:1")


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
