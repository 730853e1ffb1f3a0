"""COPYING slots: time per step with four and with six slots, where the copy from the host is long.

    python tests/benchmarks/host_copies.py [--kinds=mirrored,worker,...] [--copy=15] [--rounds=3]

A front end of 15 ms, a step of 20 ms, and a copy of `--copy` ms for whole batches of 2 MB; a part
takes less for fewer rows.  With four slots the copy waits for the front end of the batch before,
with six it runs beside it.  The kinds of input:

    mirrored            MirroredDataModelSplitStrategy, one data device, one model device
    worker, worker_2    a worker of several machines, with one and with two model devices
    function            a dataset function; function_2: two replicas, function_22: and as many data
                        devices
    share_1, share_4    the data device trains 1 or 4 of 10 rows
    alone               a worker's only device prepares and trains; it has no COPYING slots
                        otherwise, but it has them here

Medians of the rounds, which alternate, in ms a step: the loss read on every step, and on every
tenth.  The third column has six slots as well, none of them for copies.
"""

import argparse
import statistics
import time
from unittest import mock

import tensorflow as tf

from dual_device_strategy import (
    MirroredDataModelSplitStrategy,
    MultiWorkerDataModelSplitStrategy,
    emulation,
    on_data_device,
)
from dual_device_strategy.staged_input import StagedInput

STEP, FRONT_END, FLOATS, ROWS = 20.0, 15.0, 500_000, 10
COLUMNS = {"4 slots": (4, True), "6 slots": (6, True), "6, none COPYING": (6, False)}


def shares(rows: int):
    return lambda slots: MirroredDataModelSplitStrategy(
        ["GPU:1"],
        ["GPU:0", "GPU:1"],
        slots=slots,
        shares=(1 - rows / ROWS, rows / ROWS),
        weighs_rows=True,
    )


def mirrored(data, model):
    return lambda slots: MirroredDataModelSplitStrategy(data, model, slots=slots)


def worker(data, model):
    return lambda slots: MultiWorkerDataModelSplitStrategy(data, model, slots=slots)


KINDS = {
    "mirrored": mirrored(["GPU:3"], ["GPU:0"]),
    "worker": worker(["GPU:3"], ["GPU:0"]),
    "worker_2": worker(["GPU:3"], ["GPU:0", "GPU:1"]),
    "function": mirrored(["GPU:3"], ["GPU:0"]),
    "function_2": mirrored(["GPU:3"], ["GPU:0", "GPU:1"]),
    "function_22": mirrored(["GPU:2", "GPU:3"], ["GPU:0", "GPU:1"]),
    "share_1": shares(1),
    "share_4": shares(4),
    "alone": worker(["GPU:0"], ["GPU:0"]),
}


def timed(x, ms):
    return emulation.timed(x, ms=ms * (x.shape[0] or tf.cast(tf.shape(x)[0], tf.float32)) / ROWS)


def batches(rows: int) -> tf.data.Dataset:
    with tf.device("CPU:0"):
        batch = tf.ones([rows, FLOATS // ROWS])
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    return dataset.apply(on_data_device(lambda x: timed(x, FRONT_END)[:, :10]))


def loop_of(kind: str, slots: int):
    """A function that runs so many steps, and reads the loss after each `every` of them."""
    strategy = KINDS[kind](slots)
    if kind.startswith("function"):
        rows = ROWS // strategy.num_replicas_in_sync
        distributed = strategy.distribute_datasets_from_function(lambda context: batches(rows))
    else:
        distributed = strategy.experimental_distribute_dataset(batches(ROWS))
    iterator = iter(distributed)

    @tf.function
    def step(batch):
        losses = strategy.run(lambda x: tf.reduce_sum(timed(x[:, :1], STEP)), args=(batch,))
        return strategy.experimental_local_results(losses)

    def loop(steps, every):
        begin = time.perf_counter()
        for number in range(1, steps + 1):
            losses = step(next(iterator))
            if number % every == 0:
                [loss.numpy() for loss in losses]
        return 1e3 * (time.perf_counter() - begin) / steps

    return loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--copy", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    emulation.start(gpus=4, memory_mb=512, gbps=4e-6 * FLOATS / options.copy)
    for kind in options.kinds.split(","):
        loops, times = {}, {}
        for column, (slots, copying) in COLUMNS.items():
            patches = {"_data_devices_train_alone": False}
            if not copying:
                patches["copying_slots"] = lambda *options: 0
            with mock.patch.multiple(StagedInput, **patches):
                loops[column] = loop_of(kind, slots)
                loops[column](10, every=1)
        for _ in range(options.rounds):
            for every in (1, 10):
                for column, loop in loops.items():
                    times.setdefault((column, every), []).append(loop(options.steps, every))
        medians = {case: f"{statistics.median(each):.1f}" for case, each in times.items()}
        cells = [f"{column}: {medians[column, 1]}, {medians[column, 10]}" for column in COLUMNS]
        print(f"{kind}, copy of {options.copy} ms: {'; '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
