"""Where distributed batches come from and wait, beside TensorFlow's own strategies."""

import pytest
import tensorflow as tf

from tests.dual_device_strategy.pairs import both_pairs


def features(batch=4, size=8, **keywords):
    data = {"x": tf.ones([size, 3]), "y": tf.range(size)}
    return tf.data.Dataset.from_tensor_slices(data).batch(batch, **keywords)


def test_a_dataset_function_gets_its_context_and_may_distribute_inside_a_function(everyone):
    def from_context(context):
        assert context.num_input_pipelines == context.num_replicas_in_sync == 1
        assert context.input_pipeline_id == 0
        size = context.get_per_replica_batch_size(4)
        return tf.data.Dataset.range(10).shard(1, 0).batch(size)

    for strategy in everyone:
        distributed = strategy.distribute_datasets_from_function(from_context)
        assert [len(batch) for batch in distributed] == [4, 4, 2]

        @tf.function
        def distribute_and_loop(strategy=strategy):
            total = tf.constant(0, tf.int64)
            for batch in strategy.distribute_datasets_from_function(from_context):
                total += tf.reduce_sum(batch)
            return total

        assert int(distribute_and_loop()) == 45


def placed(batch):
    return tf.nest.map_structure(lambda t: t.device.rsplit("device:")[-1], batch)


@both_pairs
def test_batches_wait_where_the_input_options_say(strategy, pair):
    for fetch, expected in ((True, pair[1]), (False, "CPU:0")):
        options = tf.distribute.InputOptions(experimental_fetch_to_device=fetch)
        for distributed in (
            strategy.experimental_distribute_dataset(features(), options),
            strategy.distribute_datasets_from_function(lambda _: features(), options),
        ):
            (first, *_) = distributed
            assert placed(first)["x"] == expected


@pytest.mark.parametrize("buffered", [0, 1, 3])
def test_a_buffer_size_in_the_input_options_changes_no_batch(everyone, buffered):
    options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=buffered)
    for strategy in everyone:
        if buffered == 0 and strategy is not everyone[0]:
            continue  # TensorFlow's own multi-device iterator wants a buffer
        dataset = tf.data.Dataset.range(6).batch(2)
        distributed = strategy.experimental_distribute_dataset(dataset, options)
        assert [b.numpy().tolist() for b in distributed] == [[0, 1], [2, 3], [4, 5]]


def test_input_options_that_contradict_each_other_are_refused(everyone):
    options = tf.distribute.InputOptions(experimental_place_dataset_on_device=True)
    for strategy in everyone:
        with pytest.raises(ValueError, match="experimental_place_dataset_on_device"):
            strategy.distribute_datasets_from_function(lambda _: features(), options)


def test_a_pipeline_per_replica_is_refused_as_it_is_on_one_device(strategy, peers):
    options = tf.distribute.InputOptions(
        experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
    )
    one_device, mirrored = peers
    for each in (strategy, one_device):
        with pytest.raises(NotImplementedError, match="PER_REPLICA"):
            each.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(3), options)
    for each in (strategy, one_device, mirrored):
        with pytest.raises(NotImplementedError, match="PER_REPLICA"):
            each.experimental_distribute_dataset(features(), options)


def test_the_input_may_depend_on_a_variable_of_the_strategy(everyone):
    for strategy in everyone:
        with strategy.scope():
            offset = tf.Variable(10, dtype=tf.int64)
        dataset = tf.data.Dataset.range(3).map(lambda i: i + offset)
        distributed = strategy.experimental_distribute_dataset(dataset)
        assert [int(v) for v in distributed] == [10, 11, 12]


def test_numpy_and_python_values_pass_into_run_beside_batches(everyone):
    for strategy in everyone:

        def step(batch, factor, settings):
            return tf.reduce_sum(tf.cast(batch, tf.float32)) * factor * settings["scale"][0]

        @tf.function
        def run(batch, strategy=strategy, step=step):
            return strategy.run(step, args=(batch, 2.0), kwargs={"settings": {"scale": [0.5]}})

        batches = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))
        totals = [float(strategy.reduce("SUM", run(b), None)) for b in batches]
        assert totals == [6, 22, 17]
