"""The cost of iterators that can be saved, and of a save, on the emulated pair.

    python tests/benchmarks/iterator_checkpoints.py [--rounds=3] [--steps=100]

A step of 20 ms, a front end of 4 ms, batches of 2 MB.  Loops with the record of what has left the
host, and without, take turns; medians of the rounds.  Then loops of empty steps.  Then saves, with
shuffle buffers of several sizes.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, distributed, emulation, on_data_device

FLOATS = 500_000


def iterator_of(strategy, front_end, buffer=0, floats=FLOATS):
    numbers = tf.data.Dataset.range(10**9).map(lambda i: tf.fill([floats], tf.cast(i, tf.float32)))
    if buffer:
        numbers = numbers.shuffle(buffer)
    dataset = numbers.batch(1).apply(on_data_device(front_end))
    return iter(strategy.experimental_distribute_dataset(dataset))


def time_a_step(iterator, step, steps):
    for _ in range(10):
        step(next(iterator)).numpy()
    begin = time.perf_counter()
    for _ in range(steps):
        step(next(iterator)).numpy()
    return (time.perf_counter() - begin) / steps * 1e3


def compare(strategy, front_end, step, rounds, steps, floats=FLOATS):
    record = distributed.IteratorRecord
    times = {True: [], False: []}
    for turn in range(2 * rounds):
        recorded = turn % 2 == 0
        distributed.IteratorRecord = record if recorded else lambda recorder: None
        iterator = iterator_of(strategy, front_end, floats=floats)
        times[recorded].append(time_a_step(iterator, step, steps))
        del iterator
    distributed.IteratorRecord = record
    return [statistics.median(times[recorded]) for recorded in (True, False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    flags = parser.parse_args()
    emulation.start(gpus=2, memory_mb=1024)
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")

    @tf.function
    def full_step(batch):
        return emulation.timed(batch[0, :1], ms=20.0)

    @tf.function
    def empty_step(batch):
        return batch[0, :1]

    front_end = lambda x: emulation.timed(x, ms=4.0)  # noqa: E731
    rows = [
        ("step of 20 ms", front_end, full_step, flags.steps, FLOATS),
        ("empty step", lambda x: x + 1.0, empty_step, 10 * flags.steps, 16),
    ]
    print("ms a step                recorded  without  ratio")
    for name, front, step, steps, floats in rows:
        ours, bare = compare(
            strategy, front, step=step, rounds=flags.rounds, steps=steps, floats=floats
        )
        print(f"{name:24} {ours:8.3f} {bare:8.3f} {ours / bare:6.3f}")
    print("a save                      ms       MB")
    with tempfile.TemporaryDirectory() as folder:
        for buffer in (0, 10, 100):
            iterator = iterator_of(strategy, front_end, buffer)
            for _ in range(5):
                next(iterator)
            checkpoint = tf.train.Checkpoint(iterator=iterator)
            took = []
            for turn in range(3):
                begin = time.perf_counter()
                checkpoint.write(f"{folder}/{buffer}-{turn}")
                took.append((time.perf_counter() - begin) * 1e3)
            written = sum(path.stat().st_size for path in Path(folder).glob(f"{buffer}-2*"))
            name = f"{buffer} batches shuffled"
            print(f"{name:24} {statistics.median(took):8.0f} {written / 1e6:8.1f}")


if __name__ == "__main__":
    main()
