"""A real front end and a real step on two logical CPU devices, one intra-op thread.

    python tests/benchmarks/front_end_on_cpus.py [ROUNDS]

Both are chains of small matrix products; their lengths make the front end D as long as the step
T, half as long and twice as long.  Each is measured alone on a batch that stays on its device,
then both at once in two Python threads (what the machine's two cores really give at that moment),
then in tf.data's own way (a host map and prefetch(1), as many batches ahead), then staged.  Rounds
alternate, medians are printed.

oneDNN is switched off: with one intra-op thread it runs the products of both devices on that one
thread, one after the other.
"""

import os
import statistics
import sys
import threading
import time

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device

SIZE, STEPS = 64, 40


def products(count):
    def work(x):
        same = tf.eye(SIZE)  # keeps the values as they are: no denormals, which cost extra time
        for _ in range(count):
            x = tf.matmul(x, same)
        return x

    return work


def per_step(call):
    start = time.perf_counter()
    for _ in range(STEPS):
        call()
    return 1e3 * (time.perf_counter() - start) / STEPS


def main(rounds: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
    host = tf.data.Dataset.from_tensors(tf.ones([SIZE, SIZE])).repeat()
    for d, t in [(1200, 1200), (600, 1200), (1200, 600)]:
        front_end, train = products(d), products(t)
        iterator = iter(
            strategy.experimental_distribute_dataset(host.apply(on_data_device(front_end)))
        )
        mapped = iter(host.map(front_end).prefetch(1))
        step = tf.function(lambda x: train(x)[0, 0])
        alone = tf.function(lambda x: front_end(x)[0, 0])
        with tf.device("CPU:1"):
            raw = tf.identity(tf.ones([SIZE, SIZE]))
        with tf.device("CPU:2"):
            ready = tf.identity(tf.ones([SIZE, SIZE]))

        def front_end_alone():
            with tf.device("CPU:1"):
                alone(raw).numpy()

        calls = {
            "front end": front_end_alone,
            "step": lambda: strategy.run(step, args=(ready,)).numpy(),
            "tf.data": lambda: strategy.run(step, args=(next(mapped),)).numpy(),
            "staged": lambda: strategy.run(step, args=(next(iterator),)).numpy(),
        }

        def at_once():
            other = threading.Thread(target=per_step, args=(calls["front end"],))
            other.start()
            own = per_step(calls["step"])
            start = time.perf_counter()
            other.join()
            return own + 1e3 * (time.perf_counter() - start) / STEPS

        times = {name: [] for name in [*calls, "at once"]}
        for _ in range(rounds + 1):
            for name, call in calls.items():
                times[name].append(per_step(call))
            times["at once"].append(at_once())
        median = {name: statistics.median(values[1:]) for name, values in times.items()}
        slowest = max(median["front end"], median["step"])
        print(
            f"D:T = {d}:{t}: front end alone {median['front end']:.2f} ms, step alone "
            f"{median['step']:.2f} ms, both at once {median['at once']:.2f} ms, tf.data "
            f"{median['tf.data']:.2f} ms, staged "
            f"{median['staged']:.2f} ms a step; staged / slower {median['staged'] / slowest:.3f}, "
            f"staged / both at once {median['staged'] / median['at once']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
