"""The options that the strategy sets on datasets, against the same pipeline without them.

    python tests/benchmarks/stage_options.py [ROUNDS]

In-graph loops with an empty step on logical CPUs.  "shared threads": the stages and the host
pipeline run on TensorFlow's common threads.  "rewriting": autotuning and injected prefetch are
left on in the device stages; there the number of batches taken ahead is no longer the number of
slots, which is printed too.
"""

import contextlib
import statistics
import sys
import time
from unittest import mock

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, staging

STEPS = 2000


def rewriting(warm_up):
    options = tf.data.Options()
    options.experimental_warm_start = warm_up
    options.threading.private_threadpool_size = 1
    return options


VARIANTS = {
    "as it is": [],
    "shared threads": [
        ("_stage_options", lambda warm_up: tf.data.Options()),
        ("_host_options", lambda given: tf.data.Options()),
    ],
    "rewriting": [("_stage_options", rewriting)],
}


def made(changes):
    """A function that times the loop, and one that tells how many batches are taken ahead."""
    taken = tf.Variable(0, dtype=tf.int64)
    dataset = tf.data.Dataset.range(10**9).map(lambda i: (tf.ones([8, 8]), taken.assign_add(1)))
    host_options = tf.data.Options()
    host_options.experimental_optimization.inject_prefetch = False  # or the host works ahead too
    dataset = dataset.with_options(host_options)
    with contextlib.ExitStack() as stack:
        for name, value in changes:
            stack.enter_context(mock.patch.object(staging, name, value))
        strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
        iterator = iter(strategy.experimental_distribute_dataset(dataset))

    @tf.function
    def loop(iterator, count):
        total = 0.0
        for _ in tf.range(count):
            total += strategy.run(lambda batch: batch[0][0, 0], args=(next(iterator),))
        return total

    asked = [0]

    def timed():
        start = time.perf_counter()
        loop(iterator, tf.constant(STEPS)).numpy()
        asked[0] += STEPS
        return 1e6 * (time.perf_counter() - start) / STEPS

    def ahead():
        time.sleep(0.2)
        return int(taken) - asked[0]

    return timed, ahead


def main(rounds: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    with tf.device("CPU:0"):
        loops = {name: made(changes) for name, changes in VARIANTS.items()}
    times = {name: [] for name in loops}
    for _ in range(rounds + 1):
        for name, (timed, _) in loops.items():
            times[name].append(timed())
    for name, (_, ahead) in loops.items():
        print(
            f"{name}: {statistics.median(times[name][1:]):.0f} us a step, "
            f"{ahead()} batches beyond the step's own (3 slots: 2)",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
