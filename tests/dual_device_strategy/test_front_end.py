"""on_data_device: what it may do, and what may follow it."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, data_scope, emulation, on_data_device
from tests.dual_device_strategy.pairs import both_pairs, one_pair

pair = one_pair("gpu")  # which part runs where is found in the graph of the dataset


def values(strategy, dataset):
    return [x.numpy().tolist() for x in strategy.experimental_distribute_dataset(dataset)]


def test_a_tuple_element_becomes_arguments_and_anything_may_come_back(strategy):
    dataset = tf.data.Dataset.range(3).map(lambda i: (i, {"twice": 2 * i}))
    dataset = dataset.apply(on_data_device(lambda i, d: {"sum": i + d["twice"], "i": (i,)}))
    got = [
        (int(b["sum"]), int(b["i"][0])) for b in strategy.experimental_distribute_dataset(dataset)
    ]
    assert got == [(0, 0), (3, 1), (6, 2)]


@pytest.mark.timing
def test_the_front_end_keeps_the_data_device_busy_and_not_the_model_device():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    dataset = tf.data.Dataset.range(4).apply(on_data_device(lambda x: emulation.timed(x, ms=10)))
    with emulation.measure() as use:
        batches = values(strategy, dataset)
    assert batches == [0, 1, 2, 3]
    assert use[0].busy * use.seconds > 0.035
    assert use[1].busy * use.seconds < 0.02


@both_pairs
def test_it_may_capture_variables_of_the_data_scope_and_see_them_change(strategy):
    with strategy.scope(), data_scope():
        scale = tf.Variable(2.0)
        net = keras.layers.Dense(2, kernel_initializer="ones")
        net.build([None, 3])
    dataset = tf.data.Dataset.from_tensors(tf.ones([1, 3])).repeat(2)
    distributed = strategy.experimental_distribute_dataset(
        dataset.apply(on_data_device(lambda x: scale * net(x)))
    )
    assert [b.numpy().tolist() for b in distributed] == [[[6.0, 6.0]]] * 2
    scale.assign(3.0)
    assert [b.numpy().tolist() for b in distributed] == [[[9.0, 9.0]]] * 2


def test_it_may_look_words_up_in_a_table(strategy):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([7, 8], tf.int64)), -1
    )
    dataset = tf.data.Dataset.from_tensor_slices(["b", "x", "a"]).batch(3)
    assert values(strategy, dataset.apply(on_data_device(table.lookup))) == [[8, -1, 7]]


@both_pairs
def test_random_ops_in_it_give_the_numbers_they_give_on_the_host(pair):
    def front_end(i):
        stateless = tf.random.stateless_normal([3], [1, i])
        return stateless, tf.random.uniform([2], seed=5), tf.nn.dropout(tf.ones([8]), 0.5, seed=3)

    def draw(strategy):
        tf.random.set_seed(11)
        dataset = tf.data.Dataset.range(4).apply(on_data_device(front_end))
        distributed = strategy.experimental_distribute_dataset(dataset)
        return [[t.numpy().tolist() for t in b] for b in distributed]

    assert draw(DataModelSplitStrategy(*pair)) == draw(tf.distribute.OneDeviceStrategy("CPU:2"))


FOLLOWERS = {
    "map": lambda d: d.map(lambda x: x + 100),
    "parallel map": lambda d: d.map(lambda x: x + 100, num_parallel_calls=tf.data.AUTOTUNE),
    "take": lambda d: d.take(3),
    "skip": lambda d: d.skip(2),
    "repeat": lambda d: d.repeat(2),
    "prefetch": lambda d: d.prefetch(2),
    "prefetch autotune": lambda d: d.prefetch(tf.data.AUTOTUNE),
    "options": lambda d: d.with_options(tf.data.Options()),
    "cardinality": lambda d: d.apply(tf.data.experimental.assert_cardinality(5)),
    "another": lambda d: d.apply(on_data_device(lambda x: x * 10)),
    "all": lambda d: (
        d.map(lambda x: x + 1)
        .repeat()
        .prefetch(1)
        .apply(on_data_device(lambda x: x * 2))
        .skip(1)
        .take(7)
        .map(lambda x: -x)
    ),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_may_follow_works_as_on_the_host(strategy, name):
    dataset = tf.data.Dataset.range(5).apply(on_data_device(lambda x: x * x))
    dataset = FOLLOWERS[name](dataset)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert [int(x) for x in distributed] == [int(x) for x in dataset]
    assert int(distributed.cardinality) == int(dataset.cardinality())


@pytest.mark.timing
def test_a_map_that_follows_runs_on_the_data_device_too():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    dataset = tf.data.Dataset.range(3).apply(on_data_device(lambda x: x + 1))
    dataset = dataset.map(lambda x: emulation.timed(x, ms=10))
    with emulation.measure() as use:
        assert values(strategy, dataset) == [1, 2, 3]
    assert use[0].busy * use.seconds > 0.025


REFUSED = {
    "batch": lambda d: d.batch(2),
    "shuffle": lambda d: d.shuffle(2),
    "cache": lambda d: d.cache(),
    "filter": lambda d: d.filter(lambda x: x > 1),
    "zip": lambda d: tf.data.Dataset.zip(d, tf.data.Dataset.range(3)),
    "concatenate": lambda d: d.concatenate(tf.data.Dataset.range(3)),
    "padded": lambda d: d.padded_batch(2),
    "enumerate": lambda d: d.enumerate(),
    "flatmap": lambda d: d.flat_map(tf.data.Dataset.from_tensors),
    "batch then map": lambda d: d.batch(2).map(lambda x: x),
}


def test_an_asserted_cardinality_behind_it_is_what_it_is_under_tensorflows_strategy(strategy):
    dataset = tf.data.Dataset.range(9).filter(lambda x: x < 5).apply(on_data_device(lambda x: -x))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(6))
    for each in (strategy, tf.distribute.OneDeviceStrategy("CPU:2")):
        distributed = each.experimental_distribute_dataset(dataset)
        assert int(distributed.cardinality) == 6
        assert [int(x) for x in distributed] == [0, -1, -2, -3, -4]


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_not_follow_is_refused_by_name_when_distributed(strategy, name):
    dataset = REFUSED[name](tf.data.Dataset.range(4).apply(on_data_device(lambda x: x)))
    with pytest.raises(ValueError) as error:
        strategy.experimental_distribute_dataset(dataset)
    word = {"enumerate": "zip", "batch then map": "batch"}.get(name, name)
    assert word in str(error.value).lower().replace("_", "")
    assert "on_data_device" in str(error.value)
    for remedy in re.findall(r"dataset\.(\w+)\(", str(error.value)):
        assert hasattr(tf.data.Dataset, remedy)


def test_hidden_inside_another_datasets_function_it_is_refused(strategy):
    def inner(i):
        return tf.data.Dataset.from_tensors(i).apply(on_data_device(lambda x: x))

    dataset = tf.data.Dataset.range(3).flat_map(inner).batch(2)
    with pytest.raises(ValueError, match="inside the function of flat_map"):
        strategy.experimental_distribute_dataset(dataset)


def test_on_the_host_as_data_device_anything_may_follow():
    strategy = DataModelSplitStrategy("CPU:0", "CPU:2")
    dataset = tf.data.Dataset.range(6).apply(on_data_device(lambda x: x * 2)).batch(3)
    assert values(strategy, dataset) == [[0, 2, 4], [6, 8, 10]]


@both_pairs
def test_keras_class_weights_and_sample_weights_follow_the_front_end(pair):
    x = np.random.RandomState(0).randn(24, 3).astype("f")
    y = np.arange(24) % 2

    def losses(strategy):
        keras.utils.set_random_seed(3)
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(2)])
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
        dataset = dataset.apply(on_data_device(lambda x, y: (x * 0.5, y)))
        history = model.fit(dataset, epochs=2, verbose=0, class_weight={0: 1.0, 1: 5.0})
        return history.history["loss"]

    with tf.device("CPU:0"):
        peer = losses(tf.distribute.OneDeviceStrategy("CPU:2"))
    ours = losses(DataModelSplitStrategy(*pair))
    if pair[0].startswith("CPU"):
        assert ours == peer
    np.testing.assert_allclose(ours, peer, rtol=1e-5)


BEFORE = "put it before: dataset.{}(...).apply(on_data_device(fn))"


@pytest.mark.parametrize(
    "made, remedy",
    [
        (lambda d: d.ignore_errors(), BEFORE.format("ignore_errors")),
        (
            lambda d: d.interleave(tf.data.Dataset.from_tensors, num_parallel_calls=2),
            BEFORE.format("interleave"),
        ),
        (lambda d: d.sparse_batch(2, [1]), BEFORE.format("sparse_batch")),
        (lambda d: d.enumerate(), "to what enumerate() or tf.data.Dataset.zip returns"),
        (
            lambda d: tf.data.Dataset.sample_from_datasets([d, d]),
            "to what sample_from_datasets or choose_from_datasets returns",
        ),
        (
            lambda d: d.apply(tf.data.experimental.prefetch_to_device("/CPU:0")),
            "leave it out: the strategy brings the batches",
        ),
    ],
    ids=[
        "ignore_errors",
        "interleave",
        "sparse_batch",
        "enumerate",
        "sample",
        "prefetch_to_device",
    ],
)
def test_the_remedy_of_a_refusal_names_what_exists_and_works(made, remedy):
    dataset = tf.data.Dataset.range(4).batch(1).apply(on_data_device(lambda x: x + 1))
    with pytest.raises(ValueError, match=re.escape(remedy)):
        values(DataModelSplitStrategy("CPU:1", "CPU:2"), made(dataset))
