"""How precisely the emulated GPUs keep time, and what they cost the host.

    python tests/benchmarks/emulation_devices.py [ROUNDS]

Rounds alternate between all of it; medians are printed.
"""

import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from dual_device_strategy import emulation

GBPS, LATENCY_US = 16.0, 10.0
FLOATS = 625_000  # 2.5 MB


def seconds(run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def chain(ms: float, count: int):
    """ms per op of a chain of timed ops, and us to enqueue one."""
    with tf.device("/GPU:1"):
        first = tf.constant(1.0)

    def measure():
        with tf.device("/GPU:1"):
            x, began = first, time.perf_counter()
            for _ in range(count):
                x = emulation.timed(x, ms)
            enqueued = time.perf_counter() - began
            x.numpy()
        return 1e3 * (time.perf_counter() - began) / count, 1e6 * enqueued / count

    return measure


def step(ms: float, count: int = 20):
    """ms per call of a function with one timed op, its result read each time."""
    with tf.device("/GPU:1"):
        batch = tf.ones([FLOATS])
        function = tf.function(lambda x: emulation.timed(x, ms)[0])

        def call():
            with tf.device("/GPU:1"):
                function(batch).numpy()

        call()

    def measure():
        cpu = time.process_time()
        times = [seconds(call) for _ in range(count)]
        return 1e3 * statistics.median(times), (time.process_time() - cpu) / sum(times)

    return measure


def copy(source: str, target: str):
    """ms until a copy of 2.5 MB is there, and what the link is booked for."""

    def measure():
        with tf.device(source):
            batch = tf.ones([FLOATS])
            batch[:1].numpy()

        def move():
            with tf.device(target):
                tf.identity(batch)[:1].numpy()

        with emulation.measure() as use:
            taken = seconds(move)
        return 1e3 * taken, 1e3 * use[1].copy_seconds

    return measure


def op_in_function(device: str, count: int = 1000):
    """us per op of a chain of small ops in a function."""

    @tf.function
    def function(x):
        for _ in range(count):
            x = tf.sin(x)
        return x

    def measure():
        with tf.device(device):
            return 1e6 * seconds(lambda: function(tf.ones([10])).numpy()) / count, 0.0

    measure()
    return measure


def main(rounds: int) -> None:
    emulation.start(gpus=2, memory_mb=256, gbps=GBPS, latency_us=LATENCY_US)
    expected = 1e3 * FLOATS * 4 / GBPS / 1e9 + LATENCY_US / 1e3
    measures = {
        "timed ops of 0.1 ms in a chain: ms each, us to enqueue": chain(0.1, 200),
        "timed ops of 1 ms in a chain: ms each, us to enqueue": chain(1, 100),
        "timed ops of 20 ms in a chain: ms each, us to enqueue": chain(20, 10),
        "a step of 0 ms with its result read: ms, cores used": step(0),
        "a step of 20 ms with its result read: ms, cores used": step(20),
        f"2.5 MB from host to GPU ({expected:.3f} ms by the link): ms, booked": copy(
            "/CPU:0", "/GPU:1"
        ),
        f"2.5 MB from GPU to GPU ({expected:.3f} ms by the link): ms, booked": copy(
            "/GPU:0", "/GPU:1"
        ),
        "a small op in a function on the CPU: us": op_in_function("/CPU:0"),
        "a small op in a function on an emulated GPU: us": op_in_function("/GPU:0"),
    }
    results = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    for name, pairs in results.items():
        first, second = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{name}: {first:.3f}, {second:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
