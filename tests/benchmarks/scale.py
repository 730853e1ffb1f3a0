"""Time per step with several data devices and model devices, and with shares, on emulated GPUs.

    python tests/benchmarks/scale.py replicas [--front=40 --step=90]   N = 1 to 4 model devices
    python tests/benchmarks/scale.py data_devices [--front=160 --step=60]   one and two, N = 4
    python tests/benchmarks/scale.py shares [--front=20 --step=60 --fixed=5]   two GPUs

Batches of 24 rows and 1.6 MB, the loss read on every step; means in ms of `--steps` steps.  With
`replicas` and `data_devices` the front end and the step take as long as given, whatever the rows;
the ratio is to the longer of them, and the bytes into and out of the data device are those of a
step over those of a batch.  With `shares` both take their time for a whole batch, less for fewer
rows, and each launch `--fixed` more; a mirrored strategy has the front end in its step.
"""

import argparse
import time

import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    emulation,
    on_data_device,
)

ROWS, COLUMNS = 24, 33 * 512
BATCH_BYTES = ROWS * COLUMNS * 4


def batches() -> tf.data.Dataset:
    row = tf.data.Dataset.from_tensors(tf.zeros([COLUMNS])).repeat()
    return row.batch(ROWS, drop_remainder=True).take(1).cache().repeat()


def timed(x, ms, fixed=None):
    """Takes `ms` for a whole batch; with `fixed`, in proportion to the rows and that much more."""
    if fixed is not None:
        ms = fixed + ms * tf.cast(tf.shape(x)[0], tf.float32) / ROWS
    return emulation.timed(x, ms)


def step_time(strategy, dataset, ms, steps, fixed=None):
    """The mean time of a step, and what each GPU did meanwhile."""
    with strategy.scope():
        weight = tf.Variable(1.0)

    def replica_step(x):
        x = timed(x, ms, fixed)
        gradient = tf.reduce_sum(x[:, 0]) / ROWS
        total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
        weight.assign_sub(0.1 * total)
        return gradient

    @tf.function
    def step(batch):
        return strategy.reduce("SUM", strategy.run(replica_step, args=(batch,)), axis=None)

    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    for _ in range(8):
        float(step(next(iterator)))
    ends = [time.perf_counter()]
    with emulation.measure() as use:
        for _ in range(steps):
            float(step(next(iterator)))
        ends.append(time.perf_counter())
    # The mean: with two data devices two batches may come together, and then none for long.
    return 1e3 * (ends[-1] - ends[0]) / steps, use


def report(name, ms, least, use, steps, data_devices=1):
    moved = [
        sum(getattr(use[i], which) for i in range(data_devices)) / steps / BATCH_BYTES
        for which in ("bytes_in", "bytes_out")
    ]
    print(
        f"{name:28s} {ms:7.1f} ms  {ms / least:5.3f} of {least:5.1f}  data devices: in "
        f"{moved[0]:.2f}, out {moved[1]:.2f} batches",
        flush=True,
    )


def whole(front, step, steps, data_counts, replica_counts):
    emulation.start(gpus=6, gbps=12)
    staged = batches().apply(on_data_device(lambda x: timed(x, front)))
    for count in data_counts:
        for replicas in replica_counts:
            data = [f"GPU:{i}" for i in range(count)]
            model = [f"GPU:{2 + i}" for i in range(replicas)]
            strategy = MirroredDataModelSplitStrategy(data, model)
            ms, use = step_time(strategy, staged, step, steps)
            least = max(front / count, step)
            report(f"{count} data, {replicas} model devices", ms, least, use, steps, count)


def shares(front, step, fixed, steps):
    emulation.start(gpus=2, gbps=12)
    staged = batches().apply(on_data_device(lambda x: timed(x, front, fixed)))
    results = {}
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    results["split"] = step_time(strategy, dataset=staged, ms=step, steps=steps, fixed=fixed)
    mirrored = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
    in_step = step_time(mirrored, dataset=batches(), ms=front + step, steps=steps, fixed=2 * fixed)
    results["mirrored, front end in the step"] = in_step
    best = max(0.0, (step - front - fixed) / (2 * step))
    for rows in sorted({round(ROWS * best) + more for more in (-1, 0, 1)}):
        if rows > 0:
            strategy = MirroredDataModelSplitStrategy(
                ["GPU:1"], ["GPU:0", "GPU:1"], shares=(1 - rows / ROWS, rows / ROWS)
            )
            results[f"shares {ROWS - rows}:{rows}"] = step_time(
                strategy, dataset=staged, ms=step, steps=steps, fixed=fixed
            )
    for name, (ms, _) in results.items():
        print(f"F={front:g} S={step:g} fixed {fixed:g}: {name:32s} {ms:6.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["replicas", "data_devices", "shares"])
    parser.add_argument("--front", type=float)
    parser.add_argument("--step", type=float)
    parser.add_argument("--fixed", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    if given.what == "replicas":
        whole(
            given.front or 40,
            step=given.step or 90,
            steps=given.steps,
            data_counts=[1],
            replica_counts=[1, 2, 3, 4],
        )
    elif given.what == "data_devices":
        whole(
            given.front or 160,
            step=given.step or 60,
            steps=given.steps,
            data_counts=[1, 2],
            replica_counts=[4],
        )
    else:
        shares(given.front or 20, given.step or 60, given.fixed, given.steps)


if __name__ == "__main__":
    main()
