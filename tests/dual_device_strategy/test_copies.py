"""Two copies at once: the same batches, errors and ends at their places, no more than the slots."""

import gc

import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    compat,
    emulation,
    on_data_device,
)
from tests.dual_device_strategy.tensors import live, of_every_type
from tests.waiting import at_rest, wait_until

MB = 1_000_000

pytestmark = pytest.mark.usefixtures("small_batches_too")


@pytest.fixture(params=[4, 6])  # two copies to the model device; two from the host as well
def strategy(request):
    return DataModelSplitStrategy("GPU:1", "GPU:0", slots=request.param)


def test_every_epoch_has_all_batches_in_order_through_copies_two_at_a_time(strategy):
    dataset = tf.data.Dataset.range(50).apply(on_data_device(lambda x: 3 * x))
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert distributed._staging._two_copies
    for _ in range(2):
        assert [int(x) for x in distributed] == [3 * i for i in range(50)]


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("warm_up", [False, True])
def test_a_dataset_shorter_than_the_slots_ends(length, warm_up):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=6, warm_up=warm_up)
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(length))
    assert [int(x) for x in distributed] == list(range(length))


def test_warm_up_fills_the_ready_slots_before_the_first_batch_is_handed_out():
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=5, warm_up=True)
    strategy.extended.running_input.counts_arrivals = True
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(9)))
    assert iterator.arrivals() == 3
    assert [int(x) for x in iterator] == list(range(9))
    assert iterator.arrivals() == 9


def test_every_kind_of_tensor_arrives_on_the_model_device(strategy):
    kinds = {
        "int32": tf.TensorSpec([2], tf.int32),
        "bool": tf.TensorSpec([2], tf.bool),
        "half": tf.TensorSpec([2], tf.float16),
        "words": tf.TensorSpec([2], tf.string),
    }

    def make(i):
        numbers = tf.stack([i, i + 1])
        return {
            **of_every_type(numbers),
            "ragged": tf.ragged.range([i, 2]),
            "sparse": tf.sparse.from_dense(tf.cast(numbers, tf.float32)),
        }

    dataset = tf.data.Dataset.range(6).map(make)
    for number, got in enumerate(strategy.experimental_distribute_dataset(dataset)):
        for kind, tensor in make(tf.constant(number, tf.int64)).items():
            if kind in kinds:
                assert got[kind].numpy().tolist() == tensor.numpy().tolist()
                assert kind == "words" or "GPU:0" in got[kind].device
        assert got["ragged"].to_list() == [list(range(number)), [0, 1]]
        assert tf.sparse.to_dense(got["sparse"]).numpy().tolist() == [number, number + 1]


def test_an_error_comes_at_its_place_and_the_batches_after_it_follow(strategy):
    dataset = tf.data.Dataset.range(8).apply(
        on_data_device(lambda x: tf.debugging.check_numerics(12.0 / tf.cast(x - 3, tf.float32), ""))
    )
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    got = []
    for _ in range(8):
        try:
            got.append(float(next(iterator)))
        except tf.errors.InvalidArgumentError:
            got.append(None)
    assert got == [-4.0, -6.0, -12.0, None, 12.0, 6.0, 4.0, 3.0]
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_iterator_lives_within_a_function_or_passes_through_it(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10))

    @tf.function
    def whole(dataset):
        total = tf.constant(0, tf.int64)
        for x in dataset:
            total = 10 * total + x
        return total

    @tf.function
    def three(iterator):
        return tf.stack([next(iterator) for _ in range(3)])

    assert [int(whole(distributed)) for _ in range(2)] == [123456789] * 2
    iterator = iter(distributed)
    assert int(next(iterator)) == 0  # the same order, whoever takes the next one
    assert three(iterator).numpy().tolist() == [1, 2, 3]
    assert [int(x) for x in iterator] == list(range(4, 10))


def live_on_both():
    return live("GPU:0") + live("GPU:1")


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("replicas", [False, True])
def test_abandoned_iterators_leave_no_batch_behind(strategy, full, replicas):
    if replicas:
        strategy = MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0"], slots=strategy.slots)
    dataset = tf.data.Dataset.range(20).map(lambda i: tf.fill([MB // 4], tf.cast(i, tf.float32)))
    distributed = strategy.experimental_distribute_dataset(dataset)
    gc.collect()  # what other tests left is not to be freed meanwhile
    before = at_rest(live_on_both)
    for _ in range(3):
        iterator = iter(distributed)
        assert float(strategy.experimental_local_results(next(iterator))[0][0]) == 0.0
        if full:
            wait_until(lambda: live_on_both() > before + (strategy.slots - 1.5) * MB)
        del iterator
    gc.collect()
    wait_until(lambda: live_on_both() < before + MB // 2)


@pytest.mark.parametrize(
    "strategy",
    [
        lambda: DataModelSplitStrategy("GPU:1", "GPU:0"),
        lambda: MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0", "CPU:1"]),
        lambda: MirroredDataModelSplitStrategy(["GPU:1", "CPU:1"], ["GPU:0"]),
    ],
    ids=["one way", "two replicas", "two data devices"],
)
def test_what_a_cancelled_call_would_keep_owns_no_batch(strategy):
    """TensorFlow keeps the arguments of a remote call that is cancelled before it begins."""
    dataset = tf.data.Dataset.range(4).batch(2)
    staging = strategy().experimental_distribute_dataset(dataset)._staging
    copy = staging._two_copies._copy if hasattr(staging, "_two_copies") else staging._copy
    calls = [op for op in compat.ops_of(copy) if op.type == "RemoteCall"]
    assert calls
    assert {each.dtype for call in calls for each in call.inputs} == {tf.string}


def test_iterators_made_in_a_function_leave_no_batch_behind(strategy):
    dataset = tf.data.Dataset.range(6).map(lambda i: tf.fill([MB // 4], tf.cast(i, tf.float32)))
    distributed = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def total(dataset):
        result = 0.0
        for batch in dataset:
            result += batch[0]
        return result

    gc.collect()  # what other tests left is not to be freed meanwhile
    before = at_rest(live_on_both)
    for _ in range(3):
        assert float(total(distributed)) == 15.0
    gc.collect()
    wait_until(lambda: live_on_both() < before + MB // 2)


@pytest.mark.parametrize(("slots", "on_model"), [(4, 3), (5, 4), (6, 3), (7, 4)])
def test_neither_device_ever_holds_more_batches_than_the_slots_less_one(slots, on_model):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=slots)
    dataset = tf.data.Dataset.range(12).map(lambda i: tf.fill([MB // 2], tf.cast(i, tf.float32)))
    distributed = strategy.experimental_distribute_dataset(dataset)
    step = tf.function(lambda batch: emulation.timed(batch[:1], ms=30))
    gc.collect()
    devices = "GPU:0", "GPU:1"
    for device in devices:
        tf.config.experimental.reset_memory_stats(device)
    before = at_rest(lambda: [live(device) for device in devices])
    iterator = iter(distributed)
    for i in range(12):
        batch = next(iterator)
        assert float(strategy.run(step, args=(batch,))[0]) == i
        del batch
    for device, held, most in zip(devices, before, (on_model, slots - 1), strict=True):
        peak = tf.config.experimental.get_memory_info(device)["peak"] - held
        assert peak <= most * 2 * MB + 100_000


def test_a_copy_that_is_the_longer_part_still_passes_every_batch_once():
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=5)
    dataset = tf.data.Dataset.range(30).map(lambda i: tf.fill([MB], tf.cast(i, tf.float32)))
    seen = [x[0] for x in strategy.experimental_distribute_dataset(dataset)]
    assert [float(x) for x in seen] == list(range(30))
