"""Time per step when host, front end and step take H, D and T ms, on the emulated pair.

    python tests/benchmarks/overlap.py [ROUNDS]

2.5 MB batches, the loss read on every step and on every tenth.  Each stage is also measured alone
in the same run: the host pipeline iterated, the front end and the step on a batch that stays on
their device, with a result read back.  "Prefetched, no front end" is the step fed by
prefetch_to_device: what an iterator of tf.data's own costs a step, with no second device's work
before it.  Rounds alternate between all of them; medians are printed.
"""

import statistics
import sys

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.readings import Reading, step_times

CASES = [(0, 10, 20), (10, 20, 20), (20, 20, 20), (5, 30, 20)]
STEPS, WARM = 40, 6
FLOATS = 625_000  # 2.5 MB


def contenders(host_ms, front_ms, step_ms):
    """name -> function that makes (next_batch, step)."""
    with tf.device("CPU:0"):
        example = tf.ones([FLOATS])
    host = tf.data.Dataset.from_tensors(example).repeat()
    if host_ms:
        host = host.map(lambda x: emulation.timed(x, ms=host_ms))
    front_end = lambda x: emulation.timed(x, ms=front_ms)  # noqa: E731
    split = DataModelSplitStrategy("GPU:0", "GPU:1")
    one = tf.distribute.OneDeviceStrategy("GPU:1")

    def train(x):
        return emulation.timed(x, ms=step_ms)[0]

    def alone(device, work):
        with tf.device(device):
            kept = tf.identity(example)
        run = tf.function(work)

        def step(x):
            with tf.device(device):
                return run(x)

        return lambda: kept, step

    def staged():
        iterator = iter(
            split.experimental_distribute_dataset(host.apply(on_data_device(front_end)))
        )
        run = tf.function(lambda batch: split.run(train, args=(batch,)))
        return lambda: next(iterator), run

    def one_device():
        iterator = iter(one.experimental_distribute_dataset(host))
        run = tf.function(lambda batch: one.run(lambda x: train(front_end(x)), args=(batch,)))
        return lambda: next(iterator), run

    def with_tf_device():
        iterator = iter(host.apply(tf.data.experimental.prefetch_to_device("/GPU:0")))

        @tf.function
        def step(x):
            with tf.device("GPU:0"):
                features = front_end(x)
            with tf.device("GPU:1"):
                return train(tf.identity(features))

        return lambda: next(iterator), step

    def prefetched():
        iterator = iter(host.apply(tf.data.experimental.prefetch_to_device("/GPU:1")))
        run = tf.function(train)

        def step(x):
            with tf.device("GPU:1"):
                return run(x)

        return lambda: next(iterator), step

    def host_alone():
        iterator = iter(host)
        return lambda: next(iterator), lambda x: x

    return {
        "host alone": host_alone,
        "front end alone": lambda: alone("GPU:0", lambda x: front_end(x)[0]),
        "step alone": lambda: alone("GPU:1", train),
        "split": staged,
        "prefetched, no front end": prefetched,
        "tf.device": with_tf_device,
        "one device": one_device,
    }


def main(rounds: int) -> None:
    emulation.start(gpus=2, memory_mb=1024)
    print("ms per step; ratios to the split strategy; busy = share of time the model device worked")
    for case in CASES:
        made = {name: make() for name, make in contenders(*case).items()}
        times = {name: [] for name in made}
        busy, ahead = {name: [] for name in made}, {name: [] for name in made}
        for _ in range(rounds):
            for name, (next_batch, step) in made.items():
                step_times(next_batch, step, steps=1, reading=Reading.EVERY_STEP, warm=WARM)
                with emulation.measure() as use:
                    times[name] += step_times(
                        next_batch, step, steps=STEPS, reading=Reading.EVERY_STEP, warm=0
                    )
                busy[name].append(use[1].busy)
                ahead[name] += step_times(
                    next_batch, step, steps=STEPS, reading=Reading.EVERY_TENTH
                )
        median = {name: statistics.median(values) for name, values in times.items()}
        tenth = {name: statistics.median(values) for name, values in ahead.items()}
        alone = max(median[name] for name in ("host alone", "front end alone", "step alone"))
        ours = median["split"]
        spread = statistics.pstdev(times["split"]) / statistics.mean(times["split"])
        print(
            f"(H,D,T)={case}: split {ours:.2f}, slowest part alone {alone:.2f} "
            f"(ratio {ours / alone:.3f}), variation {spread:.1%}, "
            f"busy {statistics.median(busy['split']):.1%}; "
            + ", ".join(
                f"{name} {median[name]:.2f} ({median[name] / ours:.3f} x)"
                for name in ("tf.device", "one device", "prefetched, no front end")
            ),
            flush=True,
        )
        print(
            f"  read every tenth: split {tenth['split']:.2f} (ratio {tenth['split'] / alone:.3f}); "
            + ", ".join(
                f"{name} {tenth[name]:.2f} ({tenth[name] / tenth['split']:.3f} x)"
                for name in ("tf.device", "one device", "prefetched, no front end")
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
