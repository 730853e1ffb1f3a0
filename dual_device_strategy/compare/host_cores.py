"""What the front end costs on the cores of the host."""

import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy.workload import Workload


def front_end_core_ms(workload: Workload, slowdown: float) -> float:
    """How long the front end keeps a core of the host busy with a batch.

    `slowdown` is how many times longer the emulated front end takes there.
    """
    if workload.part_ms:
        return workload.scaled_ms()[1] * slowdown
    with tf.device("/CPU:0"):
        batch, times = next(iter(workload.host())), []
        run = tf.function(lambda *batch: workload.front_end(*batch)[1][0, 0, 0])
        run(*batch).numpy()
        for _ in range(5):
            begin = time.process_time()
            run(*batch).numpy()
            times.append(1e3 * (time.process_time() - begin))
    return statistics.median(times)


def holding_a_core(ms: float) -> Callable:
    """A function that passes a batch on after `ms` milliseconds of work on one core."""
    with tf.device("/CPU:0"):
        matrix = tf.eye(64)  # small enough that one core multiplies it

    def products(times):
        return tf.while_loop(lambda i, _: i < times, lambda i, m: (i + 1, m @ matrix), (0, matrix))[
            1
        ]

    timed, times = tf.function(products), 500
    with tf.device("/CPU:0"):
        timed(tf.constant(times))
        begin = time.process_time()
        for _ in range(5):
            timed(tf.constant(times)).numpy()
        per_ms = 5 * times / max(1e-3, 1e3 * (time.process_time() - begin))
    wanted = round(ms * per_ms)

    def hold(batch):
        with tf.control_dependencies([products(wanted)]):
            return tuple(tf.identity(t) for t in batch)

    return hold
