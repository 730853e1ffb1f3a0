"""Timed work holds a device for its time, wherever it is called from."""

import time

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import emulation

pytestmark = pytest.mark.timing


def computed_ms(run, gpu=1):
    """The time the device computes for `run`, whose result is waited for."""
    with emulation.measure() as use:
        tf.nest.map_structure(lambda tensor: tensor.numpy(), run())
    return use[gpu].compute_seconds * 1e3


# Slices and sums beside the timed work take microseconds of real computing.
def about(ms):
    return pytest.approx(ms, abs=2)


def test_it_returns_its_argument_and_takes_its_time_on_the_device():
    with tf.device("/GPU:1"):
        x = tf.constant([1.0, 2.0, 3.0])
        assert computed_ms(lambda: emulation.timed(x, ms=20)) == about(20)
        held = emulation.timed(x, ms=1)
    assert held.device.endswith("GPU:1")
    np.testing.assert_array_equal(held, [1, 2, 3])


def test_the_caller_goes_on_while_the_device_is_held():
    with tf.device("/GPU:1"), emulation.measure() as use:
        y = tf.constant(1.0)
        for _ in range(10):
            y = emulation.timed(y, ms=30)
        dispatched = use.seconds
        y.numpy()
        assert dispatched < 0.1 < 0.3 <= use.seconds


def test_assigning_a_variable_passes_a_pointer_and_waits_for_nothing():
    with tf.device("/GPU:1"):
        mark, on = tf.Variable(False), tf.constant(True)
        with emulation.measure() as use:
            y = emulation.timed(tf.constant(1.0), ms=200)
            mark.assign(on, read_value=False)
            assigned = use.seconds
            y.numpy()
    assert assigned < 0.1 < 0.2 <= use.seconds
    assert bool(mark)


def test_synchronizing_the_devices_waits_for_what_they_were_given():
    with tf.device("/CPU:0"):  # for both at once; see test_two_devices_are_held_at_the_same_time
        x = tf.constant(1.0)
    with emulation.measure() as use:
        for device in ("/GPU:0", "/GPU:1"):
            with tf.device(device):
                emulation.timed(x, ms=100)
        tf.test.experimental.sync_devices()
    assert [one.compute_seconds * 1e3 for one in use] == [about(100), about(100)]
    assert use.seconds >= 0.1


def test_busy_time_can_be_read_while_the_device_is_held():
    with tf.device("/GPU:1"), emulation.measure() as use:
        y = emulation.timed(tf.constant(1.0), ms=400)
        time.sleep(0.1)
        so_far = use[1].compute_seconds
        y.numpy()
    assert 0.05 < so_far < 0.35
    assert use[1].compute_seconds == pytest.approx(0.4, abs=0.002)


def test_two_devices_are_held_at_the_same_time():
    @tf.function
    def both(x):
        with tf.device("/GPU:0"):
            a = emulation.timed(x, ms=100)
        with tf.device("/GPU:1"):
            b = emulation.timed(x, ms=100)
        return a, b

    with tf.device("/CPU:0"):  # a copy from one GPU to the other would wait for the first
        x = tf.constant(1.0)
    tf.nest.map_structure(lambda t: t.numpy(), both(x))
    with emulation.measure() as use:
        tf.nest.map_structure(lambda t: t.numpy(), both(x))
    assert [one.compute_seconds * 1e3 for one in use] == [about(100), about(100)]
    assert use.seconds < 0.19


def test_in_a_function_every_call_counts_even_of_equal_constants():
    @tf.function
    def function():
        a, b = (emulation.timed(tf.ones([4]), ms=5) for _ in range(2))
        return a + b

    with tf.device("/GPU:1"):
        function()
        assert computed_ms(lambda: [function() for _ in range(3)]) == about(30)


def test_in_a_loop_of_a_function_every_turn_counts():
    @tf.function
    def function(x):
        for _ in tf.range(5):
            x = emulation.timed(x, ms=4) + 1
        return x

    with tf.device("/GPU:1"):
        function(tf.constant(0.0))
        assert computed_ms(lambda: function(tf.constant(0.0))) == about(20)


def test_a_time_that_is_a_tensor_needs_no_second_trace():
    traces = []

    @tf.function
    def function(x, ms):
        traces.append(1)
        return emulation.timed(x, ms)

    with tf.device("/GPU:1"):
        x = tf.constant(1.0)
        times = [computed_ms(lambda ms=ms: function(x, tf.constant(ms))) for ms in (3.0, 30.0)]
    assert times == [about(3), about(30)]
    assert len(traces) == 1


def test_a_time_drawn_on_the_device_does_not_stop_the_caller():
    @tf.function
    def function(x):
        return emulation.timed(x, 50 + 0 * tf.random.stateless_normal([], [1, 2]))

    with tf.device("/GPU:1"):
        x = function(tf.constant(1.0))
        x.numpy()
        with emulation.measure() as use:
            held = emulation.timed(function(x), 150)
            dispatched = use.seconds
            held.numpy()
    assert dispatched < 0.1
    assert use[1].compute_seconds * 1e3 == about(200)


def test_a_drawn_time_below_zero_is_no_time():
    with tf.device("/GPU:1"):
        assert computed_ms(lambda: emulation.timed(tf.constant(1.0), tf.constant(-5.0))) < 1
    with tf.device("/CPU:0"):
        assert emulation.timed(tf.constant(1.0), tf.constant(-5.0)) == 1


def test_a_structure_is_held_once_and_keeps_its_dtypes():
    batch = {
        "audio": tf.ones([2, 3]),
        "tokens": (tf.range(3), tf.constant([4], tf.int64)),
        "mask": tf.constant([True, False]),
        "half": tf.constant([0.5], tf.float16),
    }
    with tf.device("/GPU:1"):
        assert computed_ms(lambda: emulation.timed(batch, ms=10)) == about(10)
        held = emulation.timed(batch, ms=1)
    tf.nest.assert_same_structure(batch, held)
    for before, after in zip(tf.nest.flatten(batch), tf.nest.flatten(held), strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_it_takes_no_device_memory():
    with tf.device("/GPU:1"):
        x = tf.zeros([1 << 20])
        emulation.timed(x, ms=1).numpy()
        with emulation.measure() as use:
            held = emulation.timed(x, ms=1)
        assert use[1].memory_peak - use[1].memory_live == 0
    del held


def test_its_gradient_is_the_identity():
    with tf.device("/GPU:1"):
        x, ms = tf.constant([1.0, 2.0]), tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(emulation.timed(emulation.timed(x, 1), ms) ** 2)
        np.testing.assert_array_equal(tape.gradient(y, x), [2, 4])


def test_on_a_cpu_device_it_sleeps_without_a_core():
    with tf.device("/CPU:0"):
        x = tf.constant(1.0)
        began, cpu = time.perf_counter(), time.thread_time()
        assert emulation.timed(x, ms=200) == 1
        assert time.perf_counter() - began >= 0.2
        assert time.thread_time() - cpu < 0.1


def test_many_sleep_at_a_time_on_a_cpu_device():
    """More than the machine has cores: a sleeping op keeps none of TensorFlow's threads."""

    @tf.function
    def function(x):
        return tf.add_n([emulation.timed(x + i, ms=200) for i in range(20)])

    with tf.device("/CPU:0"):
        function(tf.constant(1.0))
        began = time.perf_counter()
        function(tf.constant(1.0)).numpy()
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("constant", [False, True], ids=["an element", "a constant"])
def test_it_takes_its_time_in_a_dataset_s_map(constant):
    def slow(i):
        return i + emulation.timed(tf.constant(0, tf.int64) if constant else i * 0, ms=20)

    options = tf.data.Options()
    options.autotune.enabled = False  # or it would run several at a time
    dataset = tf.data.Dataset.range(10).map(slow).with_options(options)
    began = time.perf_counter()
    assert [int(i) for i in dataset] == list(range(10))
    assert time.perf_counter() - began >= 0.2


def test_closing_a_dataset_s_iterator_does_not_wait_for_a_long_sleep():
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.range(9).map(lambda i: emulation.timed(i, 60_000 * i))
        iterator = iter(dataset.prefetch(4))
        assert next(iterator) == 0
    began = time.perf_counter()
    del iterator
    assert time.perf_counter() - began < 10


def test_it_holds_the_device_a_dataset_s_function_runs_on():
    from dual_device_strategy import DataModelSplitStrategy, on_data_device

    strategy = DataModelSplitStrategy("/GPU:0", "/GPU:1")
    dataset = tf.data.Dataset.range(10).map(
        lambda i: (tf.cast(i, tf.float32), tf.constant(6.0) + tf.cast(i % 2, tf.float32))
    )
    front_end = on_data_device(lambda x, ms: emulation.timed(emulation.timed(x, ms), 5))
    with emulation.measure() as use:
        batches = list(strategy.experimental_distribute_dataset(dataset.apply(front_end)))
    assert [float(batch) for batch in batches] == list(range(10))
    assert use[0].compute_seconds * 1e3 == pytest.approx(10 * 11.5, abs=5)


@pytest.mark.parametrize("ms", [-1, float("nan"), float("inf")])
def test_a_number_that_is_no_time_is_refused(ms):
    with pytest.raises(ValueError, match=f"ms must be from 0 .* got ms={ms}"):
        emulation.timed(tf.constant(1.0), ms=ms)


def test_strings_are_held_on_the_cpu():
    with tf.device("/GPU:1"):
        assert emulation.timed(tf.constant("a"), ms=1).numpy() == b"a"
