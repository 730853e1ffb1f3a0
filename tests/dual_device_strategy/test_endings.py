"""How iterations end: short, empty, abandoned, broken, interrupted, or with the process."""

import gc
import os
import signal
import time

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from tests.waiting import wait_for_output, wait_until


def test_a_partial_last_batch_arrives_as_it_is(strategy):
    dataset = tf.data.Dataset.range(7).batch(3)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert [b.numpy().tolist() for b in distributed] == [[0, 1, 2], [3, 4, 5], [6]]


def test_an_empty_dataset_has_no_batch_in_any_epoch(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(0))
    assert [list(distributed) for _ in range(2)] == [[], []]


def test_an_exhausted_iterator_stays_exhausted_and_the_dataset_starts_anew(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(2))
    iterator = iter(distributed)
    assert [int(x) for x in iterator] == [0, 1]
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()
    assert [int(x) for x in distributed] == [0, 1]


def test_an_infinite_dataset_can_be_left(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(3).repeat())
    assert int(distributed.cardinality) == tf.data.INFINITE_CARDINALITY
    iterator = iter(distributed)
    assert [int(next(iterator)) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    del iterator
    assert int(next(iter(distributed))) == 0


def failing(x):
    message = tf.strings.join(["no value for ", tf.strings.as_string(x)])
    with tf.control_dependencies([tf.debugging.Assert(x != 3, [message])]):
        return x * 10


@pytest.mark.parametrize("where", ["host", "front end", "map after the front end"])
def test_an_exception_reaches_the_consumer_at_its_element_with_its_message(strategy, where):
    dataset = tf.data.Dataset.range(6)
    if where == "host":
        dataset = dataset.map(failing)
    else:
        dataset = dataset.apply(on_data_device(failing if where == "front end" else lambda x: x))
        dataset = dataset if where == "front end" else dataset.map(failing)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    assert [int(next(iterator)) for _ in range(3)] == [0, 10, 20]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no value for 3"):
        next(iterator)
    assert [int(x) for x in iterator] == [40, 50]


_MANY_ITERATORS = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, on_data_device

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
tf.config.threading.set_inter_op_parallelism_threads(1)
strategy = DataModelSplitStrategy("CPU:1", "CPU:2")

def slow(x):
    order = tf.argsort(tf.random.stateless_uniform([100_000], [1, x]))
    return x + tf.cast(order[0] < 0, tf.int64)

dataset = tf.data.Dataset.range(10).map(slow).apply(on_data_device(lambda x: x * 2))
distributed = [strategy.experimental_distribute_dataset(dataset) for _ in range(6)]
print([[int(x) for x in batches] for batches in zip(*distributed)])

@tf.function
def total(iterator):
    sum = tf.constant(0, tf.int64)
    for batch in iterator:
        sum += batch
    return sum

print([int(total(iter(one))) for one in distributed])
"""


def test_iterators_that_wait_for_their_hosts_hold_no_thread_of_tensorflow(run_python, tmp_path):
    # With a single common thread; every stage and the step would need it.
    script = tmp_path / "many_iterators.py"
    script.write_text(_MANY_ITERATORS)
    done = run_python([script], UNOPTIMIZED_GRAPHS="1")
    assert done.stdout.splitlines() == [
        str([[2 * i] * 6 for i in range(10)]),
        str([90] * 6),
    ], done.stderr


def test_an_exception_of_the_users_generator_arrives_with_its_message(strategy):
    def rows():
        yield 1.0
        raise KeyError("clip 17 is gone")

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([]))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    assert float(next(iterator)) == 1.0
    with pytest.raises(tf.errors.OpError, match="clip 17 is gone"):
        next(iterator)


def test_training_and_validation_batches_can_be_taken_in_turns(strategy):
    train = strategy.experimental_distribute_dataset(tf.data.Dataset.range(6).repeat())
    validation = strategy.experimental_distribute_dataset(tf.data.Dataset.range(100, 103))
    taken = []
    iterator = iter(train)
    for _ in range(3):
        taken += [int(next(iterator)) for _ in range(2)]
        taken += [int(x) for x in validation]
    assert taken == [0, 1, 100, 101, 102, 2, 3, 100, 101, 102, 4, 5, 100, 101, 102]


# Prints threads, bytes in use on the heap and on each GPU before and after the same again.
_MEMORY = """
import ctypes, gc, os, sys, time
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

if "GPU" in sys.argv[1]:
    emulation.start(gpus=2)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = DataModelSplitStrategy(*sys.argv[1:])

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keep".split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Mallinfo

def threads_and_devices():
    gpus = range(len(tf.config.list_logical_devices("GPU")))
    live = [tf.config.experimental.get_memory_info(f"GPU:{i}")["current"] for i in gpus]
    return [len(os.listdir("/proc/self/task")), *live]

def held(before=None):
    # At rest, or as soon as it is as before: threads of what was dropped end one after the other.
    gc.collect()
    seen = []
    while len(seen) < 1200:
        time.sleep(0.05)
        threads, *live = threads_and_devices()
        if before and threads <= before[0] and live == before[2:]:
            break
        seen.append([threads, *live])
        if not before and [known[1:] for known in seen[-10:]] == [live] * 10:
            threads = max(known[0] for known in seen[-10:])
            break
    heap = mallinfo()
    return [threads, heap.uordblks + heap.hblkhd + 512 * sys.getallocatedblocks(), *live]

dataset = tf.data.Dataset.range(8).repeat().map(lambda i: tf.fill([4096], i)).prefetch(2)
dataset = dataset.apply(on_data_device(lambda x: tf.cast(x, tf.float32)))
distributed = strategy.experimental_distribute_dataset(dataset)
"""

_REPEATED = """
traces = []

@tf.function
def steps(iterator, count):
    traces.append(1)
    total = 0.0
    for _ in tf.range(count):
        total += strategy.run(tf.reduce_sum, args=(next(iterator),))
    return total

iterator = iter(distributed)

def thousand_steps():
    return float(steps(iterator, tf.constant(1000)))

def ten_iterators():
    for i in range(10):
        abandoned = iter(distributed)
        if i % 2:
            next(abandoned)
    return 0.0

for work, before_that, times in (thousand_steps, 2, 3), (ten_iterators, 3, 5):
    for _ in range(before_that):
        work()
    before = held()
    total = sum(work() for _ in range(times))
    print(total, *before, *held(before))
print(len(traces))
"""


@pytest.mark.slow
def test_thousands_of_steps_and_abandoned_iterators_leave_memory_and_threads_where_they_were(
    run_python, tmp_path, pair
):
    """In a process of its own: what else a process of tests frees and takes is not counted."""
    script = tmp_path / "repeated.py"  # AutoGraph reads the source
    script.write_text(_MEMORY + _REPEATED)
    done = run_python([script, *pair], UNOPTIMIZED_GRAPHS="1")
    assert done.returncode == 0, done.stderr
    *lines, traces = done.stdout.splitlines()
    assert traces == "1"
    grew = []
    for line in lines:
        total, *figures = map(float, line.split())
        half = len(figures) // 2
        (threads, heap, *devices), after = figures[:half], figures[half:]
        assert after[0] <= threads
        assert after[2:] == devices  # no batch is left
        grew.append((total, after[1] - heap))
    (sum_of_steps, by_steps), (_, by_iterators) = grew
    assert sum_of_steps == 3 * 125 * 28 * 4096
    # Less than any object of TensorFlow's a step; a batch has 16,384 bytes.  The heap of the
    # emulated pair grows by some 40 bytes a step at first, by 15 after 20,000 steps.
    assert by_steps < 3000 * 64
    assert by_iterators < 50 * 4096


PROGRAM = """
import signal, sys, time
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
emulation.start(gpus=2)
strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
dataset = tf.data.Dataset.range(10**9).map(lambda i: tf.fill([1000], i)).prefetch(4)
dataset = dataset.apply(on_data_device(lambda x: emulation.timed(x, ms=5)))
distributed = strategy.experimental_distribute_dataset(dataset)
iterators = [iter(distributed) for _ in range(3)]
for iterator in iterators:
    next(iterator)
print("running", flush=True)
{ending}
"""

ENDINGS = {
    "end of the program": ("", 0),
    "an exception": ("raise SystemError('told')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "Ctrl-C": (
        "while True:\n    strategy.run(tf.function(lambda x: x + 1), args=(next(iterators[0]),))",
        -signal.SIGINT,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_at_once_with_iterators_alive(processes, ending):
    code, expected = ENDINGS[ending]
    environment = {**os.environ, "UNOPTIMIZED_GRAPHS": "1"}
    process = processes.start(["-c", PROGRAM.format(ending=code)], env=environment)
    try:
        wait_for_output(process, "running")
        if ending == "Ctrl-C":
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == expected, errors[-2000:]
    assert ("SystemError: told" in errors) == (ending == "an exception")


def test_devices_are_idle_after_an_iterator_is_dropped():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    dataset = tf.data.Dataset.range(10**6).apply(
        on_data_device(lambda x: emulation.timed(x, ms=10))
    )
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    next(iterator)
    del iterator
    gc.collect()

    def idle():
        with emulation.measure() as use:
            time.sleep(0.1)
        return use[0].busy == use[1].busy == 0

    wait_until(idle)
