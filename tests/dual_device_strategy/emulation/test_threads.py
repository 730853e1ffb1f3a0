"""Many threads at a time, on both devices, with work that really computes."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import emulation


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
