"""Distributed datasets and their iterators, beside those of TensorFlow's own strategies."""

import pytest
import tensorflow as tf
from tensorflow.python.distribute import input_ops

from tests.dual_device_strategy.pairs import both_pairs

pytestmark = pytest.mark.rewritten_graphs


@pytest.fixture
def everyone(strategy, peers):
    """What MirroredStrategy says of a dataset: test_type_specs.py."""
    return [strategy, peers[0]]


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
    strategy, one_device = everyone
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


def distributed_range(strategy, size=10, batch=4):
    return strategy.experimental_distribute_dataset(tf.data.Dataset.range(size).batch(batch))


def total_of(strategy, batch):
    return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(batch,)), axis=None)


def test_a_loop_in_a_function_may_be_without_state(strategy):
    with strategy.scope():
        total = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def loop(distributed):
        for batch in distributed:
            strategy.run(lambda b: total.assign_add(tf.reduce_sum(b)), args=(batch,))

    loop(distributed_range(strategy))
    assert total.numpy() == 45


@both_pairs
def test_every_way_to_iterate_gives_the_same_batches(everyone):
    def eager_loop(strategy, distributed):
        return [total_of(strategy, batch) for batch in distributed]

    def eager_next(strategy, distributed):
        iterator = iter(distributed)
        return [total_of(strategy, next(iterator)) for _ in range(3)]

    def optionals(strategy, distributed):
        iterator = iter(distributed)
        totals = []
        optional = iterator.get_next_as_optional()
        while optional.has_value():
            totals.append(total_of(strategy, optional.get_value()))
            optional = iterator.get_next_as_optional()
        return totals

    def loop_in_function(strategy, distributed):
        @tf.function
        def run(distributed):
            totals = tf.TensorArray(tf.int64, 0, dynamic_size=True)
            for batch in distributed:
                totals = totals.write(totals.size(), total_of(strategy, batch))
            return totals.stack()

        return run(distributed)

    def iterator_as_argument(strategy, distributed):
        @tf.function
        def run(iterator):
            totals = tf.TensorArray(tf.int64, 3)
            for position in tf.range(3):
                totals = totals.write(position, total_of(strategy, next(iterator)))
            return totals.stack()

        return run(iter(distributed))

    def iterator_in_function(strategy, distributed):
        @tf.function
        def run():
            iterator = iter(distributed)
            return [total_of(strategy, next(iterator)) for _ in range(3)]

        return run()

    def optional_in_function(strategy, distributed):
        @tf.function
        def step(iterator):
            optional = iterator.get_next_as_optional()
            if optional.has_value():
                return total_of(strategy, optional.get_value())
            return tf.constant(-1, tf.int64)

        iterator = iter(distributed)
        totals = [step(iterator) for _ in range(4)]
        assert totals.pop().numpy() == -1
        return totals

    def reduced(strategy, distributed):
        return distributed.reduce(
            tf.TensorArray(tf.int64, 0, dynamic_size=True),
            lambda totals, batch: totals.write(totals.size(), total_of(strategy, batch)),
        ).stack()

    for strategy in everyone:
        for way in (
            eager_loop,
            eager_next,
            optionals,
            loop_in_function,
            iterator_as_argument,
            iterator_in_function,
            optional_in_function,
            reduced,
        ):
            totals = way(strategy, distributed_range(strategy))
            assert [int(t) for t in totals] == [6, 22, 17], (way.__name__, strategy)


def test_the_end_is_an_exhausted_iterator_an_empty_optional_or_an_error_in_a_function(everyone):
    for strategy in everyone:
        iterator = iter(distributed_range(strategy))
        assert len(list(iterator)) == 3
        with pytest.raises(StopIteration):
            next(iterator)
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()
        optional = iterator.get_next_as_optional()
        assert not optional.has_value()
        with pytest.raises(tf.errors.InvalidArgumentError):
            optional.get_value()

        @tf.function
        def too_far(iterator):
            for _ in tf.range(4):
                next(iterator)

        with pytest.raises(tf.errors.OutOfRangeError):
            too_far(iter(distributed_range(strategy)))


def test_what_a_function_cannot_do_with_a_dataset_is_refused_as_by_the_peers(everyone):
    for strategy in everyone:
        distributed = distributed_range(strategy)

        @tf.function
        def numbered(iterable):
            for _, batch in enumerate(iterable):
                tf.reduce_sum(batch)

        for iterable in (distributed, iter(distributed)):
            with pytest.raises(NotImplementedError, match="enumerate"):
                numbered(iterable)

        @tf.function
        def until_break(distributed):
            for batch in distributed:
                if tf.reduce_sum(batch) > 3:
                    break

        with pytest.raises(NotImplementedError, match="break"):
            until_break(distributed)

        with tf.Graph().as_default(), pytest.raises(RuntimeError):
            iter(distributed_range(strategy))


def test_next_is_refused_inside_a_replica_and_inside_another_strategy(everyone):
    for strategy in everyone:
        iterator = iter(distributed_range(strategy))
        with strategy.scope(), pytest.raises(ValueError, match="next"):
            strategy.run(lambda: next(iterator))
        other = tf.distribute.OneDeviceStrategy("/CPU:0")
        with other.scope(), pytest.raises(RuntimeError):
            next(iterator)
        assert len(list(iterator)) == 3


def test_caches_and_shuffles_live_from_one_iteration_to_the_next(everyone):
    for strategy in everyone:
        calls = []
        dataset = tf.data.Dataset.range(6).map(
            lambda i: tf.py_function(lambda v: calls.append(int(v)) or v, [i], tf.int64)
        )
        distributed = strategy.experimental_distribute_dataset(dataset.cache())
        assert [[int(v) for v in distributed] for _ in range(2)] == [list(range(6))] * 2
        assert sorted(calls) == list(range(6))
        for reshuffle in (True, False):
            shuffled = tf.data.Dataset.range(100).shuffle(
                100, seed=7, reshuffle_each_iteration=reshuffle
            )
            distributed = strategy.experimental_distribute_dataset(shuffled)
            first, second = ([int(v) for v in distributed] for _ in range(2))
            assert sorted(first) == sorted(second) == list(range(100))
            assert (first != second) is reshuffle


@pytest.mark.parametrize("policy", ["OFF", "AUTO", "DATA"])
def test_one_pipeline_gets_all_elements_whatever_the_sharding_policy(everyone, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[policy]
    dataset = tf.data.Dataset.range(5).with_options(options)
    for strategy in everyone:
        assert [int(v) for v in strategy.experimental_distribute_dataset(dataset)] == list(range(5))


def test_cardinality_is_the_peers(everyone):
    for dataset in (
        tf.data.Dataset.range(10).batch(4),
        tf.data.Dataset.range(10).repeat(),
        tf.data.Dataset.range(10).filter(lambda i: i > 3),
        tf.data.Dataset.range(0),
    ):
        distributed = [s.experimental_distribute_dataset(dataset) for s in everyone]
        assert same([int(d.cardinality) for d in distributed]) == int(dataset.cardinality())


def test_an_empty_dataset_has_no_batches_however_it_is_asked(everyone):
    for strategy in everyone:
        distributed = distributed_range(strategy, size=0)
        assert list(distributed) == []
        assert not iter(distributed).get_next_as_optional().has_value()

        @tf.function
        def count(distributed):
            batches = 0
            for _ in distributed:
                batches += 1
            return batches

        assert int(count(distributed)) == 0
