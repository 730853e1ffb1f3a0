"""Loops whose parts vary from step to step, on the emulated pair with copies of a given length.

    python tests/benchmarks/jitter.py [--copies=0.2,5,15] [--jitter=30,60] [--slots=3,4,5,6,7,8]

A step of 20 ms and a front end of 15, each times a factor that is drawn anew for every batch.
Wanted: at most 1.03 times what the same numbers give with the same slots and free copies, by
simulation.  Prints ms a step, and that ratio, for a loop of one's own that reads every tenth loss
and for many steps in one function.  A batch is copied from the host over a link of the same rate:
with fewer than six slots before its front end, with more beside that of another.  So a second
ratio is over a simulation that has that copy.  In a simulation nothing but the parts takes time.
So a third ratio is over the same loop, measured in turns, with a batch that stays on the device.
"""

import argparse
import random
import subprocess
import sys
import time

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.copies import copying_slots

STEP, FRONT_END, FLOATS, WARM = 20.0, 15.0, 500_000, 10
DATA, MODEL = "GPU:1", "GPU:0"


def drawn(count: int, jitter: float) -> list[tuple[float, float]]:
    """Front end and step of each batch, in ms; the same in every run."""
    chance = random.Random(7)

    def factor():
        return 1 + jitter * chance.uniform(-1, 1)

    return [(FRONT_END * factor(), STEP * factor()) for _ in range(count)]


def simulated(parts: list[tuple[float, float]], slots: int, from_host: float) -> list[float]:
    """When each step ends, in ms, if only the copy from the host takes time."""
    copying = copying_slots(slots)
    copied, prepared, ends = 0.0, 0.0, []

    def free(count):  # when one of so many slots is
        return ends[-count] if len(ends) >= count else 0.0

    for front_end, step in parts:
        copied = max(copied if copying else prepared, free(slots)) + from_host
        prepared = max(prepared, copied, free(slots - copying)) + front_end
        ends.append(max(prepared, ends[-1] if ends else 0.0) + step)
    return ends


class OnDevice:
    """The same batch, which stays on the model device, with the times of each step."""

    def __init__(self, parts):
        with tf.device(MODEL):
            self._batch = tf.ones([1, FLOATS])
            self._times = tf.identity(tf.constant(parts))
            self._of_each = tf.unstack(self._times)

    def __iter__(self):
        return ((self._batch, times) for times in self._of_each)

    def at(self, place):
        return self._batch, self._times[place]


def staged(strategy, parts):
    with tf.device("CPU:0"):
        example = tf.ones([1, FLOATS])
        times = tf.constant(parts)
    numbers = tf.data.Dataset.range(len(parts)).map(lambda i: (example, times[i])).prefetch(2)
    dataset = numbers.apply(on_data_device(lambda x, ms: (emulation.timed(x, ms=ms[0]), ms)))
    return strategy.experimental_distribute_dataset(dataset)


def loops(slots: int | None, parts):
    """kind of loop -> ms a step, without the first WARM ones; without slots, on the device."""
    if slots is None:
        strategy, batches = tf.distribute.OneDeviceStrategy(MODEL), OnDevice(parts)
    else:
        strategy = DataModelSplitStrategy(DATA, MODEL, slots=slots)
        batches = staged(strategy, parts)

    def train(x, ms):
        return emulation.timed(x[0, :1], ms=ms[1])

    step = tf.function(lambda batch: strategy.run(train, args=batch))

    @tf.function
    def whole(iterator, count):
        loss = tf.zeros([1])
        for place in tf.range(count):
            # Its times are the last ones, as those of the batches that are left in the iterator.
            there = len(parts) - count + place
            batch = batches.at(there) if slots is None else next(iterator)
            loss = strategy.run(train, args=batch)
        return loss

    def eager(iterator, count):
        for number in range(count):
            loss = step(next(iterator))
            if number % 10 == 9 or number + 1 == count:
                loss.numpy()

    def in_graph(iterator, count):
        with tf.device(MODEL):
            whole(None if slots is None else iterator, tf.constant(count)).numpy()

    result = {}
    for kind, loop in {"read every tenth": eager, "in one function": in_graph}.items():
        iterator = iter(batches)
        loop(iterator, WARM)
        begin = time.perf_counter()
        loop(iterator, len(parts) - WARM)
        result[kind] = 1e3 * (time.perf_counter() - begin) / (len(parts) - WARM)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", default="0.2,5,15")
    parser.add_argument("--jitter", default="30,60")
    parser.add_argument("--slots", default="3,4,5,6,7,8")
    parser.add_argument("--steps", type=int, default=70)
    options = parser.parse_args()
    copies = options.copies.split(",")
    if len(copies) > 1:  # the rate of the links belongs to the emulation
        for copy in copies:
            flags = [f"--copies={copy}", f"--jitter={options.jitter}"]
            flags += [f"--slots={options.slots}", f"--steps={options.steps}"]
            subprocess.run([sys.executable, __file__, *flags], check=True)
        return
    emulation.start(gpus=2, memory_mb=1024, gbps=4e-6 * FLOATS / float(copies[0]))
    for jitter in map(float, options.jitter.split(",")):
        parts = drawn(options.steps, jitter / 100)
        for slots in map(int, options.slots.split(",")):
            free, not_free = (
                (ends[-1] - ends[WARM - 1]) / (len(parts) - WARM)
                for ends in (simulated(parts, slots, ms) for ms in (0.0, float(copies[0])))
            )
            here = loops(None, parts)
            cells = ", ".join(
                f"{kind} {took:.2f} ({took / free:.3f}, {took / not_free:.3f}, "
                f"{took / here[kind]:.3f})"
                for kind, took in loops(slots, parts).items()
            )
            print(
                f"copy {copies[0]} ms, jitter {jitter:.0f} %, {slots} slots: free copies "
                f"{free:.2f}, copies from the host {not_free:.2f}; {cells}",
                flush=True,
            )


if __name__ == "__main__":
    main()
