"""Distributed datasets and their iterators, beside those of TensorFlow's own strategies."""

import pytest
import tensorflow as tf
from tensorflow.python.distribute import input_ops


def features(batch=4, size=8, **keywords):
    data = {"x": tf.ones([size, 3]), "y": tf.range(size)}
    return tf.data.Dataset.from_tensor_slices(data).batch(batch, **keywords)


def same(values):
    first, *others = values
    for other in others:
        assert other == first
    return first


def shapes_in_a_loop(strategy, dataset):
    seen = []

    @tf.function
    def loop(distributed):
        for batch in distributed:
            seen.append(batch["x"].shape.as_list())

    loop(strategy.experimental_distribute_dataset(dataset))
    return seen


def test_a_loop_in_a_function_sees_the_static_shapes_it_sees_under_the_peers(everyone):
    finite = [shapes_in_a_loop(s, features(drop_remainder=True)) for s in everyone]
    assert same(finite)[0] == [None, 3]
    strategy, one_device, _ = everyone
    endless = features(drop_remainder=True).repeat()
    spec = [
        iter(s.experimental_distribute_dataset(endless)).get_next_as_optional().element_spec
        for s in (strategy, one_device)
    ]
    assert same(spec)["x"].shape == [4, 3]


@pytest.mark.parametrize("drop_remainder", [True, False])
def test_whether_partial_batches_are_expected_is_reported_as_by_the_peers(everyone, drop_remainder):
    reported = []
    for strategy in everyone:
        strategy.extended.experimental_enable_get_next_as_optional = True
        dataset = strategy.experimental_distribute_dataset(features(drop_remainder=drop_remainder))
        iterator = iter(dataset)
        reported.append(iterator._enable_get_next_as_optional)
        assert iterator._type_spec._enable_get_next_as_optional == reported[-1]
    assert same(reported) is not drop_remainder


def test_a_distributed_dataset_can_be_sharded_again(strategy):
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(1))
    shards = [input_ops.auto_shard_dataset(dataset, 3, shard) for shard in range(3)]
    elements = [[int(batch[0]) for batch in shard] for shard in shards]
    assert elements == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [int(batch[0]) for batch in dataset] == list(range(10))


def test_nothing_is_warned_of_when_a_dataset_is_distributed(strategy, caplog):
    with caplog.at_level("WARNING"):
        assert len(list(strategy.experimental_distribute_dataset(features()))) == 2
    assert not caplog.records
