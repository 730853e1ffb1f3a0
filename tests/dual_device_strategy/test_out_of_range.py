"""An OutOfRange inside the front end is an error; only the host pipeline ends a sequence."""

import gc

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device
from tests.dual_device_strategy.pairs import in_turns, one_pair
from tests.dual_device_strategy.test_same_results import distributed, summing

pair = one_pair("gpu")


def front_ends_that_run_out():
    """Front ends in which an op says OutOfRange at their third batch, or a Python function does."""
    shorter = iter(tf.data.Dataset.range(2))
    queue = tf.queue.FIFOQueue(5, tf.int64, [[]])
    queue.enqueue_many(tf.constant([0, 0], tf.int64))
    queue.close()

    def python(i):
        if i == 2:
            raise StopIteration
        return i

    def in_a_call(x):
        return tf.function(lambda x: x + 0 * next(shorter))(x)

    def in_a_branch(x):
        return tf.cond(x >= 0, lambda: x + 0 * next(shorter), lambda: x)

    return {
        "iterator": lambda x: x + 0 * next(shorter),
        "unused": lambda x: (next(shorter), x)[1],
        "queue": lambda x: x + 0 * queue.dequeue(),
        "python": lambda x: tf.ensure_shape(tf.numpy_function(python, [x], tf.int64), []),
        "call": in_a_call,
        "branch": in_a_branch,
    }


KINDS = ["iterator", "unused", "queue", "python", "call", "branch"]


def running_out(kind, length=8, before=None, behind=None):
    dataset = tf.data.Dataset.range(length)
    with tf.device("CPU:0"):
        fn = front_ends_that_run_out()[kind]
    if before:
        dataset = dataset.apply(on_data_device(before))
    dataset = dataset.apply(on_data_device(fn))
    return dataset.map(behind) if behind else dataset


def eager(strategy, dataset):
    seen = []
    with pytest.raises(tf.errors.InvalidArgumentError, match="OutOfRange"):
        for batch in strategy.experimental_distribute_dataset(dataset):
            seen.append(int(batch))
    return seen


@pytest.mark.parametrize(  # a queue and a Python function cannot be used on a GPU
    ("pair", "kind"),
    [*(("cpu", kind) for kind in KINDS), ("gpu", "iterator"), ("gpu", "branch")],
    indirect=["pair"],
)
def test_an_out_of_range_inside_the_front_end_is_an_error_and_no_end(pair, kind):
    assert eager(DataModelSplitStrategy(*pair), running_out(kind)) == [0, 1]


@in_turns(
    ["length", "slots", "warm_up"], [(3, 2, False), (3, 6, True), (8, 3, True), (8, 5, False)]
)
def test_that_holds_for_the_last_batch_and_any_slots(pair, length, slots, warm_up):
    strategy = DataModelSplitStrategy(*pair, slots=slots, warm_up=warm_up)
    assert eager(strategy, running_out("iterator", length)) == [0, 1]


def test_that_holds_between_maps_and_where_batches_are_counted(pair):
    strategy = DataModelSplitStrategy(*pair, slots="auto")
    dataset = running_out("iterator", before=lambda x: x + 1, behind=lambda x: x * 10)
    assert eager(strategy, dataset) == [10, 20]


def test_that_holds_inside_functions_and_for_optionals(strategy):
    total = summing(strategy)
    with pytest.raises(tf.errors.InvalidArgumentError, match="OutOfRange"):
        total(strategy.experimental_distribute_dataset(running_out("iterator")))
    with pytest.raises(tf.errors.InvalidArgumentError, match="OutOfRange"):
        total(iter(strategy.experimental_distribute_dataset(running_out("iterator"))))
    iterator = iter(strategy.experimental_distribute_dataset(running_out("iterator")))
    assert [int(iterator.get_next_as_optional().get_value()) for _ in range(2)] == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="OutOfRange"):
        iterator.get_next_as_optional().has_value()


def test_a_sequence_of_the_same_length_as_the_front_ends_own_ends(strategy):
    dataset = running_out("iterator", length=2)
    assert [int(x) for x in strategy.experimental_distribute_dataset(dataset)] == [0, 1]


def test_abandoned_and_ended_front_ends_say_nothing(strategy, capfd):
    distributed_one = distributed(strategy, lambda x: x + 5)
    for taken in (0, 1, 2, 4, 5):
        iterator = iter(distributed_one)
        for _ in range(taken):
            next(iterator, None)
        del iterator
        gc.collect()
    assert "finaliz" not in capfd.readouterr().err


_DROPPED = """
import gc, time
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, on_data_device

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = DataModelSplitStrategy("CPU:1", "CPU:2")

def slow(x):
    turns = tf.while_loop(lambda i: i < 3000, lambda i: [i + tf.size(tf.range(9)) // 9], [0])
    return x + tf.cast(turns[0], tf.int64)

distributed = strategy.experimental_distribute_dataset(
    tf.data.Dataset.range(100).apply(on_data_device(slow)))
for pause in range(8):
    iterator = iter(distributed)
    assert int(next(iterator)) == 3000
    time.sleep(pause / 400)
    del iterator
    gc.collect()
"""


def test_an_iterator_that_is_dropped_while_its_front_end_works_says_nothing_of_an_error(
    run_python, tmp_path
):
    script = tmp_path / "dropped.py"
    script.write_text(_DROPPED)
    done = run_python([script], UNOPTIMIZED_GRAPHS="1")
    assert done.returncode == 0, done.stderr
    assert "OutOfRange" not in done.stderr
