"""Device memory is counted per device, and limited."""

import gc
import time

import pytest
import tensorflow as tf

from dual_device_strategy import emulation

MB = 1 << 20
LIMIT = 1024 * MB  # tests/conftest.py


def megabytes(count):
    return tf.zeros([count, MB // 4])


def about(count):
    """Beside the tensors in question, a few hundred bytes of scalars live."""
    return pytest.approx(count * MB, abs=MB // 100)


def fill(device, step_mb=100):
    kept = []
    with tf.device(device), pytest.raises(tf.errors.ResourceExhaustedError) as error:
        while len(kept) <= LIMIT // MB // step_mb:
            began = time.perf_counter()
            kept.append(megabytes(step_mb))
    seconds, message = time.perf_counter() - began, str(error.value)
    filled = len(kept) * step_mb
    del kept, error  # the error's traceback keeps what it saw
    gc.collect()
    return filled, seconds, message


def test_live_and_peak_bytes_are_those_of_the_tensors():
    gc.collect()
    with emulation.measure() as use:
        with tf.device("/GPU:1"):
            before = use[1].memory_live
            x = megabytes(20)
            assert use[1].memory_live - before == about(20)
            y = megabytes(30)
            del x
            assert use[1].memory_live - before == about(30)
        assert use[0].memory_peak - use[0].memory_live < MB
    assert use[1].memory_peak - before == about(50)
    del y


def test_a_peak_is_that_of_the_measured_block():
    with tf.device("/GPU:0"):
        del_me = megabytes(40)
        live = emulation.stats(0).memory_live
        del del_me
        with emulation.measure() as use:
            x = megabytes(10)
    assert use[0].memory_peak <= live - 40 * MB + 11 * MB
    assert emulation.stats(0).memory_peak >= live
    del x


def test_tensorflow_s_own_memory_info_counts_the_same_bytes():
    with tf.device("/GPU:1"):
        x = megabytes(25)
    info = tf.config.experimental.get_memory_info("GPU:1")
    assert info["current"] == emulation.stats(1).memory_live >= 25 * MB
    assert info["peak"] >= info["current"]
    del x
    tf.config.experimental.reset_memory_stats("GPU:1")
    info = tf.config.experimental.get_memory_info("GPU:1")
    assert info["peak"] == info["current"] == emulation.stats(1).memory_live


@pytest.mark.timing
@pytest.mark.parametrize("device", ["/GPU:0", "/GPU:1"])
def test_past_the_limit_an_error_comes_within_two_seconds_and_the_process_goes_on(device):
    megabytes_before, seconds, message = fill(device)
    assert 800 <= megabytes_before <= 1000
    assert seconds < 2
    assert f"{device[1:]}" in message and "OOM when allocating" in message
    with tf.device(device):
        assert float(tf.reduce_sum(megabytes(900))) == 0
        assert float(tf.reduce_sum(tf.fill([1000], 2.0))) == 2000


def test_more_than_the_limit_at_once_is_refused_at_once():
    with tf.device("/GPU:0"), pytest.raises(tf.errors.ResourceExhaustedError):
        began = time.perf_counter()
        megabytes(2000)
    assert time.perf_counter() - began < 5  # TensorFlow retries for ten seconds


def test_out_of_memory_in_a_function_is_an_error_and_leaves_nothing_behind():
    @tf.function
    def function(x):
        return tf.reduce_sum(tf.stack([x * i for i in range(1, 9)]))

    gc.collect()
    with tf.device("/GPU:1"):
        x = megabytes(100)
        before = emulation.stats(1).memory_live
        with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM when allocating"):
            function(x)
        assert emulation.stats(1).memory_live - before == about(0)
        assert float(tf.reduce_sum(x + 1)) == 100 * MB / 4


def test_an_allocation_waits_for_memory_that_is_about_to_return():
    import threading

    with tf.device("/GPU:0"):
        kept = [megabytes(300) for _ in range(3)]
        threading.Timer(0.3, kept.clear).start()
        assert float(tf.reduce_sum(megabytes(600))) == 0


def test_memory_freed_while_work_is_queued_is_used_again_in_order():
    """The next owner of the memory comes later in the stream, so it cannot spoil the work."""
    with tf.device("/GPU:1"):
        results = []
        for value in range(30):
            x = tf.fill([1000, 100], float(value))
            results.append(emulation.timed(x, 3)[0, :2] + 0)
            del x
    assert [float(result[0]) for result in results] == list(range(30))
