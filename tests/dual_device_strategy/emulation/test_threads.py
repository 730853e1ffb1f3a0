"""Many threads at a time, on both devices, with work that really computes."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import emulation


@pytest.mark.timing
def test_kernels_that_wait_for_their_device_leave_the_host_s_functions_alone():
    @tf.function
    def on_device(x):
        return emulation.timed(x, 800) + 1

    @tf.function
    def on_host(x):
        return tf.add_n([tf.sin(x + i) for i in range(4)])

    def call(device):
        with tf.device(device):
            on_device(x).numpy()

    with tf.device("/CPU:0"):
        x = tf.ones([])
        on_host(x)
    waiting = [threading.Thread(target=call, args=(f"/GPU:{i % 2}",)) for i in range(6)]
    with emulation.measure() as use:
        for thread in waiting:
            thread.start()
        while not all(one.compute_seconds > 0 for one in use):
            time.sleep(0.01)
        with tf.device("/CPU:0"):
            on_host(x).numpy()
        assert all(one.compute_seconds < 0.7 for one in use)
        for thread in waiting:
            thread.join()


@pytest.mark.slow
def test_eight_threads_of_random_work_give_no_wrong_result():
    problems = []

    @tf.function
    def chain(x, y):
        for _ in tf.range(3):
            x = tf.tanh(x @ y) + x
        return tf.concat([x, tf.cumsum(x, 1)], 0)

    def expected(x, y):
        for _ in range(3):
            x = np.tanh(x @ y) + x
        return np.concatenate([x, np.cumsum(x, 1)], 0)

    def work(seed):
        random = np.random.RandomState(seed)
        try:
            for _ in range(60):
                size = random.randint(4, 80)
                x, y = random.randn(2, size, size).astype("float32") / size
                with tf.device(f"/GPU:{random.randint(2)}"):
                    a, b = tf.constant(x), tf.constant(y)
                    if random.rand() < 0.3:
                        a = emulation.timed(a, random.rand())
                    result = chain(a, b)
                with tf.device(f"/GPU:{random.randint(2)}"):
                    moved = tf.identity(result) * 2
                np.testing.assert_allclose(moved, 2 * expected(x, y), rtol=1e-3, atol=1e-4)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems, problems[0]
