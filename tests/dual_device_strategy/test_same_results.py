"""What a dataset gives does not depend on what else was distributed, or on what ends how."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device
from tests.dual_device_strategy.pairs import one_pair

pytestmark = pytest.mark.rewritten_graphs

pair = one_pair("cpu")  # all of this happens when datasets are made and traced

NUMBERS = tf.data.Dataset.range(4).map(lambda i: i + 1)  # 1 + 2 + 3 + 4 = 10


def distributed(strategy, fn=None, source=NUMBERS):
    return strategy.experimental_distribute_dataset(
        source.apply(on_data_device(fn)) if fn else source
    )


def summing(strategy, **keywords):
    @tf.function(**keywords)
    def total(batches):
        result = tf.constant(0, tf.int64)
        for batch in batches:
            result += strategy.run(lambda x: tf.cast(tf.reduce_sum(x), tf.int64), args=(batch,))
        return result

    return total


@pytest.mark.parametrize("reduce_retracing", [False, True])
def test_each_dataset_given_to_one_function_keeps_its_front_end(strategy, reduce_retracing):
    total = summing(strategy, reduce_retracing=reduce_retracing)
    datasets = {
        30: distributed(strategy, lambda x: x + 5),
        1000: distributed(strategy, lambda x: x * 100),
        10: distributed(strategy),
        0: distributed(strategy, source=tf.data.Dataset.from_tensors(tf.constant(0, tf.int64))),
        80: distributed(strategy, lambda x: tf.fill([2], x), NUMBERS.map(lambda x: 4 * x)),
        12: distributed(strategy, lambda x: tf.fill([3], tf.cast(x, tf.int32)), NUMBERS.skip(3)),
    }
    for _ in range(2):
        assert [int(total(dataset)) for dataset in datasets.values()] == list(datasets)
    assert total.experimental_get_tracing_count() == len(datasets)


@pytest.mark.parametrize("reduce_retracing", [False, True])
def test_iterators_of_all_datasets_share_a_trace_and_keep_their_front_ends(
    strategy, reduce_retracing
):
    total = summing(strategy, reduce_retracing=reduce_retracing)
    for fn, wanted in [(lambda x: x + 5, 30), (lambda x: x * 100, 1000), (None, 10)]:
        for _ in range(2):
            assert int(total(iter(distributed(strategy, fn)))) == wanted
    assert total.experimental_get_tracing_count() == 1


def test_iterators_of_other_slots_and_devices_keep_theirs(pair):
    strategies = [DataModelSplitStrategy(*pair, slots=slots) for slots in (2, 5)]
    to_host = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    total = tf.function(lambda batches: batches.reduce(tf.constant(0, tf.int64), tf.add))
    for strategy in strategies:
        for options in (None, to_host):
            dataset = NUMBERS.apply(on_data_device(lambda x: -x))
            dataset = strategy.experimental_distribute_dataset(dataset, options)
            assert int(total(dataset)) == -10


def test_an_equal_pipeline_does_not_retrace_and_one_distributed_anew_does(strategy):
    total = summing(strategy)
    dataset = distributed(strategy, lambda x: x + 5)
    for _ in range(3):
        assert int(total(dataset)) == 30
    assert total.experimental_get_tracing_count() == 1
    assert int(total(distributed(strategy, lambda x: x + 5))) == 30
    assert total.experimental_get_tracing_count() == 2


def test_types_of_two_distributed_datasets_are_told_apart_by_every_comparison(strategy):
    first, second = (distributed(strategy, fn)._type_spec for fn in (tf.identity, tf.negative))
    again = distributed(strategy, tf.identity)
    for mine, other in [(first, second), (second, first), (first, again._type_spec)]:
        assert mine != other
        assert not mine.is_subtype_of(other)
        assert not mine.is_compatible_with(other)
        assert mine.most_specific_common_supertype([other]) is None
    same = again._type_spec
    assert same == again._type_spec and hash(same) == hash(again._type_spec)
    assert same.is_subtype_of(again._type_spec) and same.is_compatible_with(again)
    assert same.most_specific_common_supertype([again._type_spec]) == same


def test_a_datasets_type_is_never_that_of_one_that_is_gone(strategy):
    seen = set()
    for i in range(5):
        spec = distributed(strategy, lambda x, i=i: x + i)._type_spec
        seen.add(hash(spec))
        del spec
        gc.collect()
    assert len(seen) == 5


def test_a_function_keeps_no_data_of_the_datasets_it_was_traced_for(strategy):
    total = summing(strategy)

    def use_one():  # in a frame of its own, because AutoGraph looks at the locals and so keeps them
        dataset = distributed(strategy, lambda x: x + 5, tf.data.Dataset.range(1, 5))
        assert int(total(dataset)) == 30
        return weakref.ref(dataset._cloned_datasets[0])

    host = use_one()
    gc.collect()
    assert host() is None


def test_a_shard_of_a_dataset_has_its_own_type(strategy):
    dataset = distributed(strategy, lambda x: x + 5)
    total = summing(strategy)
    assert [int(total(dataset)), int(total(dataset.auto_shard(2, 1)))] == [30, 16]


def stateful():
    generator = tf.random.Generator.from_seed(1)
    count = tf.Variable(0, dtype=tf.int64)
    return {
        "RandomUniform": lambda x: tf.cast(x, tf.float32) + tf.random.uniform([], seed=5),
        "RngReadAndSkip": lambda x: tf.cast(x, tf.float32) + generator.uniform([]),
        "AssignAddVariableOp": lambda x: x + count.assign_add(1),
    }


STATEFUL = list(stateful())
BEHIND = {
    "nothing": lambda d: d,
    "take": lambda d: d.take(3),
    "repeat": lambda d: d.repeat(2),
    "take and repeat": lambda d: d.take(2).repeat(3),
    "repeat and take": lambda d: d.repeat(2).take(7),
    "options": lambda d: d.with_options(tf.data.Options()),
    "map": lambda d: d.map(lambda *drawn: [2 * x for x in drawn]),
}


@pytest.mark.parametrize("behind", BEHIND)
def test_stateful_ops_draw_the_numbers_they_draw_on_the_host(behind):
    def draw(strategy):
        tf.random.set_seed(3)
        with tf.device("CPU:1"):  # a front end's variables are on its device
            ops = stateful().values()
            dataset = NUMBERS.apply(on_data_device(lambda x: tuple(op(x) for op in ops)))
        dataset = strategy.experimental_distribute_dataset(BEHIND[behind](dataset))
        return [[[x.numpy() for x in drawn] for drawn in dataset] for _ in range(2)]

    split, peer = DataModelSplitStrategy("CPU:1", "CPU:2"), tf.distribute.OneDeviceStrategy("CPU:2")
    drawn = draw(split)
    assert drawn == draw(peer)
    assert len(drawn[0][0]) == len(STATEFUL)


@pytest.mark.parametrize("kind", STATEFUL)
def test_skip_behind_a_stateful_front_end_is_refused_with_the_name_of_the_op(strategy, kind):
    for between in (lambda d: d, lambda d: d.repeat(2), lambda d: d.map(abs)):
        dataset = between(NUMBERS.apply(on_data_device(stateful()[kind])))
        with pytest.raises(ValueError, match=rf"skip.*on_data_device.*{kind}.*\.skip\(.*before"):
            strategy.experimental_distribute_dataset(dataset.skip(2).take(1))


def test_skip_in_front_of_a_stateful_front_end_draws_what_it_draws_elsewhere(strategy):
    def draw(strategy):
        tf.random.set_seed(3)
        dataset = NUMBERS.skip(2).apply(on_data_device(stateful()["RandomUniform"]))
        return [x.numpy() for x in strategy.experimental_distribute_dataset(dataset)]

    assert draw(strategy) == draw(tf.distribute.OneDeviceStrategy("CPU:2"))


def test_skip_behind_a_front_end_that_only_reads_is_no_different():
    with tf.device("CPU:0"):
        scale = tf.Variable(2.0)
        keys = tf.range(9, dtype=tf.int64)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, tf.range(9.0)), -1.0
        )

    def front_end(x):
        noise = tf.random.stateless_uniform([], [1, x])
        return noise + scale * table.lookup(x) + tf.cond(x > 1, lambda: 1.0, lambda: 0.0)

    dataset = NUMBERS.apply(on_data_device(front_end)).skip(2)
    split = DataModelSplitStrategy("CPU:1", "CPU:2")
    np.testing.assert_array_equal(
        *[
            [x.numpy() for x in s.experimental_distribute_dataset(dataset)]
            for s in (split, tf.distribute.OneDeviceStrategy("CPU:2"))
        ]
    )


def test_a_dataset_that_comes_out_of_a_function_with_its_front_end_is_refused(strategy):
    @tf.function
    def make():
        return tf.data.Dataset.range(4).apply(on_data_device(lambda x: x + 1)).prefetch(2)

    for dataset in (make(), make().take(2), make().map(lambda x: x).repeat(3)):
        with pytest.raises(ValueError, match=r"tf\.function.*on_data_device"):
            strategy.experimental_distribute_dataset(dataset)
    assert [int(x) for x in make()] == [1, 2, 3, 4]


def test_a_dataset_that_comes_out_of_a_function_without_one_is_welcome(strategy):
    @tf.function
    def make():
        return tf.data.Dataset.range(4).map(lambda x: x + 1).prefetch(2)

    dataset = make().apply(on_data_device(lambda x: 10 * x)).take(3)
    got = [int(x) for x in strategy.experimental_distribute_dataset(dataset)]
    assert got == [10, 20, 30]


def test_a_dataset_with_a_front_end_given_to_a_function_that_distributes_it_is_refused(strategy):
    @tf.function
    def total(dataset):
        return summing(strategy)(strategy.experimental_distribute_dataset(dataset))

    with pytest.raises(Exception, match="on_data_device"):
        total(NUMBERS.apply(on_data_device(lambda x: x + 1)))
