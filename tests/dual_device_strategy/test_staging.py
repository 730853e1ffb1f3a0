"""What arrives at the step, from where, and how many batches exist meanwhile."""

import collections
import gc
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from tests.waiting import at_rest, wait_until


def short(device):
    return device.rsplit("device:", 1)[-1]


Pair = collections.namedtuple("Pair", ["first", "second"])

DTYPES = [
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.int32,
    tf.int64, tf.bool, tf.complex64,
]  # fmt: skip


@pytest.mark.parametrize("through_front_end", [False, True])
def test_every_dtype_arrives_unchanged_on_the_model_device(strategy, pair, through_front_end):
    values = {d.name: tf.cast(tf.reshape(tf.range(6) % 2, [3, 2]), d) for d in DTYPES}
    dataset = tf.data.Dataset.from_tensor_slices(values).batch(2)
    if through_front_end:
        dataset = dataset.apply(on_data_device(lambda x: x))
    for epoch in range(2):
        batches = list(strategy.experimental_distribute_dataset(dataset))
        for name, value in values.items():
            got = tf.concat([b[name] for b in batches], 0)
            np.testing.assert_array_equal(got.numpy(), value.numpy(), err_msg=f"{name} {epoch}")
        devices = {short(t.device) for b in batches for t in b.values()}
        assert devices == {pair[1]}


def test_strings_stay_readable(strategy):
    dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "c"]).batch(2)
    plain = list(strategy.experimental_distribute_dataset(dataset))
    assert [list(b.numpy()) for b in plain] == [[b"a", b"b"], [b"c"]]
    made = dataset.apply(on_data_device(lambda s: tf.strings.join([s, "!"])))
    assert list(next(iter(strategy.experimental_distribute_dataset(made))).numpy()) == [
        b"a!",
        b"b!",
    ]


@pytest.mark.parametrize("through_front_end", [False, True])
def test_nested_structures_keep_their_shape_and_their_nones(strategy, through_front_end):
    def element(i):
        return {"pair": Pair(i, (i + 1, None)), "list": (i * 2,)}

    dataset = tf.data.Dataset.range(4).map(element)
    if through_front_end:
        dataset = dataset.apply(on_data_device(lambda x: x))
    distributed = strategy.experimental_distribute_dataset(dataset)
    for i, got in enumerate(distributed):
        assert isinstance(got["pair"], Pair)
        assert got["pair"].second[1] is None
        assert [int(got["pair"].first), int(got["pair"].second[0]), int(got["list"][0])] == [
            i,
            i + 1,
            2 * i,
        ]
    assert distributed.element_spec == dataset.element_spec


@pytest.mark.parametrize("through_front_end", [False, True])
@pytest.mark.parametrize("inside", ["eager", "function", "optional"])
def test_ragged_and_sparse_tensors_arrive_on_the_model_device(
    strategy, pair, through_front_end, inside
):
    rows = [[1.0, 2.0], [], [3.0]]
    with tf.device("CPU:0"):
        dataset = tf.data.Dataset.from_tensor_slices(
            {
                "ragged": tf.ragged.constant(rows),
                "words": tf.ragged.constant([["x"], ["y", "z"], []]),
                "sparse": tf.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2]),
            }
        ).batch(2)
    if through_front_end:
        dataset = dataset.apply(on_data_device(lambda x: x))
    distributed = strategy.experimental_distribute_dataset(dataset)
    if inside == "eager":
        got = next(iter(distributed))
    elif inside == "optional":
        got = iter(distributed).get_next_as_optional().get_value()
    else:
        with tf.device(pair[1]):  # or a function's results go to the default device
            got = tf.function(lambda it: next(it))(iter(distributed))
    assert got["ragged"].to_list() == rows[:2]
    assert got["words"].to_list() == [[b"x"], [b"y", b"z"]]
    assert tf.sparse.to_dense(got["sparse"]).numpy().tolist() == [[0.0, 5.0], [0.0, 0.0]]
    if inside != "optional":
        assert short(got["ragged"].values.device) == pair[1]
        assert short(got["sparse"].values.device) == pair[1]


def test_order_is_kept_and_each_epoch_is_whole(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(100))
    for _ in range(3):
        assert [int(x) for x in distributed] == list(range(100))


def test_several_iterators_of_one_dataset_do_not_disturb_each_other(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10))
    train, other = iter(distributed), iter(distributed)
    taken = [(int(next(train)), int(next(other))) for _ in range(10)]
    assert taken == [(i, i) for i in range(10)]


def test_a_distributed_dataset_has_what_tensorflows_have(strategy):
    dataset = tf.data.Dataset.range(7).batch(3)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert isinstance(distributed, tf.distribute.DistributedDataset)
    assert distributed.element_spec == dataset.element_spec
    assert int(distributed.cardinality) == 3
    total = distributed.reduce(tf.constant(0, tf.int64), lambda s, x: s + tf.reduce_sum(x))
    assert int(total) == 21
    iterator = iter(distributed)
    assert isinstance(iterator, tf.distribute.DistributedIterator)
    seen = []
    optional = iterator.get_next_as_optional()
    while optional.has_value():
        seen.append(optional.get_value().numpy().tolist())
        optional = iterator.get_next_as_optional()
    assert seen == [[0, 1, 2], [3, 4, 5], [6]]


def test_loops_inside_a_function_see_every_batch_and_trace_once(strategy):
    dataset = (
        tf.data.Dataset.range(10).batch(4).apply(on_data_device(lambda x: tf.cast(x, tf.float32)))
    )
    distributed = strategy.experimental_distribute_dataset(dataset)
    traces = []

    @tf.function
    def epoch(batches):
        traces.append("epoch")
        total = 0.0
        for batch in batches:
            total += strategy.run(tf.reduce_sum, args=(batch,))
        return total

    @tf.function
    def one(iterator):
        traces.append("one")
        return strategy.run(tf.reduce_sum, args=(next(iterator),))

    assert [float(epoch(distributed)) for _ in range(3)] == [45.0] * 3
    for _ in range(3):
        iterator = iter(distributed)
        assert [float(one(iterator)) for _ in range(3)] == [6.0, 22.0, 17.0]
    assert traces == ["epoch", "one"]


@pytest.mark.filterwarnings("error:To make it possible to preserve tf.data options")
def test_the_users_options_hold_inside_a_function_as_well(pair):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 7
    dataset = tf.data.Dataset.range(3).with_options(options)
    distributed = DataModelSplitStrategy(*pair).experimental_distribute_dataset(dataset)
    given = []

    def with_options(host, options):
        given.append(options.threading.private_threadpool_size)
        return wrapped(host, options)

    wrapped = tf.data.Dataset.with_options
    with mock.patch.object(tf.data.Dataset, "with_options", with_options):
        total = tf.function(lambda d: d.reduce(tf.constant(0, tf.int64), tf.add))
        assert int(total(distributed)) == 3
    assert given[0] is None  # the host's, whose number of threads stays as it is


def test_two_epochs_of_variable_length_batches_trace_once(strategy):
    rows = [np.full([n, 2], n, "f") for n in (1, 5, 2, 7)]
    spec = tf.TensorSpec([None, 2])
    dataset = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=spec)
    distributed = strategy.experimental_distribute_dataset(dataset)
    traces = []

    @tf.function(input_signature=[spec])
    def step(batch):
        traces.append(1)
        return tf.reduce_sum(batch)

    for _ in range(2):
        sums = [float(strategy.run(step, args=(batch,))) for batch in distributed]
        assert sums == [2.0, 50.0, 8.0, 98.0]
    assert len(traces) == 1


@pytest.mark.parametrize("slots", [2, 3, 5])
def test_no_more_batches_are_taken_from_the_host_than_there_are_slots(pair, slots):
    strategy = DataModelSplitStrategy(*pair, slots=slots)
    with tf.device("CPU:0"):
        taken = tf.Variable(0, dtype=tf.int64)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    host = tf.data.Dataset.range(50).map(lambda x: x + 0 * taken.assign_add(1))
    iterator = iter(strategy.experimental_distribute_dataset(host.with_options(options)))
    most = 0
    for trained in range(20):
        batch = next(iterator)
        wait_until(lambda: int(taken) >= trained + slots)
        time.sleep(0.01)  # for more, if there were room
        most = max(most, int(taken) - trained)
        assert int(batch) == trained
    assert most == slots


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_live_bytes_on_the_model_device_stay_within_the_slots(slots):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots=slots)
    floats = 500_000
    batch_bytes = 4 * floats
    dataset = tf.data.Dataset.range(12).map(lambda i: tf.fill([floats], tf.cast(i, tf.float32)))
    with strategy.scope():
        weights = tf.Variable(tf.zeros([1000]))

    @tf.function
    def step(batch):
        return emulation.timed(batch[:1] + weights[0], ms=40)

    gc.collect()  # what other tests left is not to be freed meanwhile

    def live():
        return tf.config.experimental.get_memory_info("GPU:1")["current"]

    before = at_rest(live)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    tf.config.experimental.reset_memory_stats("GPU:1")
    for i in range(12):
        batch = next(iterator)
        if i < 8:
            wait_until(lambda: live() - before > (slots - 1.5) * batch_bytes)
        assert float(strategy.run(step, args=(batch,))[0]) == i
        del batch  # or it would live until the next one has come
    peak = tf.config.experimental.get_memory_info("GPU:1")["peak"] - before
    assert abs(peak - (slots - 1) * batch_bytes) <= 100_000


def test_warm_up_fills_the_ready_slots_before_the_first_batch_is_handed_out(pair):
    strategy = DataModelSplitStrategy(*pair, slots=4, warm_up=True)
    strategy.extended.running_input.counts_arrivals = True
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(9)))
    assert iterator.arrivals() == 2
    assert [int(x) for x in iterator] == list(range(9))
    assert iterator.arrivals() == 9


@pytest.mark.parametrize("length", [0, 1, 2])
def test_warm_up_of_a_dataset_shorter_than_the_slots_ends(pair, length):
    strategy = DataModelSplitStrategy(*pair, slots=6, warm_up=True)
    short_one = tf.data.Dataset.range(9).filter(lambda x: x < length)
    assert [int(x) for x in strategy.experimental_distribute_dataset(short_one)] == list(
        range(length)
    )


def test_distributing_from_a_function_gives_the_same(strategy, pair):
    contexts = []

    def make(context):
        contexts.append(context)
        return tf.data.Dataset.range(4).apply(on_data_device(lambda x: x * 3))

    distributed = strategy.distribute_datasets_from_function(make)
    batches = list(distributed)
    assert [int(x) for x in batches] == [0, 3, 6, 9]
    assert {short(x.device) for x in batches} == {pair[1]}
    assert len(contexts) == 1 and contexts[0].num_replicas_in_sync == 1
