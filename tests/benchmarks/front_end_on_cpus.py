"""A front end and a step on two logical CPU devices, one intra-op thread.

    python tests/benchmarks/front_end_on_cpus.py [ROUNDS]

Their lengths make the front end D as long as the step T, half as long and twice as long.  Each is
measured alone on a batch that stays on its device, then both at once in two Python threads (what
the machine's two cores really give at that moment), then in tf.data's own way (a host map and
prefetch(1), as many batches ahead), then staged.  Rounds alternate, medians are printed.

Both are chains of small matrix products, of some 8 ms and of some 40 ms, and then timed work of
20 ms, which takes no core: what it takes longer is the staging, not two cores that share a memory.
Printed as well: how long, in a staged step, the threads that compute were ready to run but waited
for a core (Linux's schedstat).

oneDNN is switched off: with one intra-op thread it runs the products of both devices on that one
thread, one after the other.
"""

import contextlib
import os
import statistics
import sys
import threading
import time
from pathlib import Path

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

SIZE = 128  # some 40 us a product
# Work, its unit, D and T in units, steps of a measurement.
CASES = [
    (kind, unit, d * scale, t * scale, steps)
    for kind, unit, scale, steps in (
        ("products", "products", 100, 40),
        ("products", "products", 500, 10),
        ("timed", "ms", 10, 10),
    )
    for d, t in ((2, 2), (1, 2), (2, 1))
]


def products(count):
    def work(x):
        same = tf.eye(SIZE)  # keeps the values as they are: no denormals, which cost extra time
        for _ in range(count):
            x = tf.matmul(x, same)
        return x

    return work


def timed(ms):
    return lambda x: emulation.timed(x, ms=ms)


def per_step(call, steps):
    start = time.perf_counter()
    for _ in range(steps):
        call()
    return 1e3 * (time.perf_counter() - start) / steps


def thread_times():
    """Milliseconds `(computed, waited for a core)` by thread."""
    times = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            computed, waited, _ = (task / "schedstat").read_text().split()
            times[task.name] = int(computed) / 1e6, int(waited) / 1e6
    return times


def waited_for_a_core(call, steps):
    """Milliseconds a step, of the threads that compute (more than 1 ms a step)."""
    before = thread_times()
    per_step(call, steps)
    waited = 0.0
    for thread, (computed_now, waited_now) in thread_times().items():
        computed_then, waited_then = before.get(thread, (0.0, 0.0))
        if computed_now - computed_then > steps:
            waited += (waited_now - waited_then) / steps
    return waited


def main(rounds: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
    host = tf.data.Dataset.from_tensors(tf.ones([SIZE, SIZE])).repeat()
    for kind, unit, d, t, steps in CASES:
        front_end, train = ({"products": products, "timed": timed}[kind](n) for n in (d, t))
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
            other = threading.Thread(target=per_step, args=(calls["front end"], steps))
            other.start()
            own = per_step(calls["step"], steps)
            start = time.perf_counter()
            other.join()
            return own + 1e3 * (time.perf_counter() - start) / steps

        times = {name: [] for name in [*calls, "at once", "waited"]}
        for _ in range(rounds + 1):
            for name, call in calls.items():
                times[name].append(per_step(call, steps))
            times["at once"].append(at_once())
            times["waited"].append(waited_for_a_core(calls["staged"], steps))
        median = {name: statistics.median(values[1:]) for name, values in times.items()}
        slowest = max(median["front end"], median["step"])
        print(
            f"D:T = {d}:{t} {unit}: front end alone {median['front end']:.2f} ms, step alone "
            f"{median['step']:.2f} ms, both at once {median['at once']:.2f} ms, tf.data "
            f"{median['tf.data']:.2f} ms, staged "
            f"{median['staged']:.2f} ms a step, of it "
            f"{median['waited']:.2f} ms waiting for a core; "
            f"staged / slower {median['staged'] / slowest:.3f}, "
            f"staged / both at once {median['staged'] / median['at once']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
