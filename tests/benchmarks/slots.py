"""slots="auto" against every fixed number, with stages whose times vary, on the emulated pair.

    python tests/benchmarks/slots.py [ROUNDS] [BATCHES] [PERCENT ...]

Front end and step take 20 ms on average, with a standard deviation of PERCENT (30 and 60), each
batch the same times for every contender.  The loss is read on every step, and then on every tenth.
Epochs of all contenders alternate; medians are printed.
The last part limits the model device's memory.
"""

import statistics
import sys
import time

import numpy as np
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

MEAN_MS = 20
FLOATS = 625_000  # 2.5 MB


def dataset(spread, batches, floats=FLOATS):
    random = np.random.default_rng(7)
    times = np.maximum(0, random.normal(MEAN_MS, MEAN_MS * spread, [batches, 2]))
    with tf.device("CPU:0"):
        example = tf.ones([floats])

    def front_end(batch, times):
        held, step_ms = emulation.timed((batch, times[1]), ms=times[0])
        return held, step_ms

    source = tf.data.Dataset.from_tensor_slices(times.astype(np.float32))
    return source.map(lambda times: (example, times)).apply(on_data_device(front_end))


class Contender:
    def __init__(self, slots, data, read_every=1):
        self.slots, self.read_every = slots, read_every
        self.strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots=slots)
        self.dataset = self.strategy.experimental_distribute_dataset(data)
        self.step = tf.function(
            lambda batch: self.strategy.run(
                lambda x, ms: emulation.timed(x, ms=ms)[0], args=batch
            )
        )
        self.epochs, self.chosen = [], []

    def epoch(self):
        begin, count = None, 0
        for batch in self.dataset:
            loss = self.step(batch)
            count += 1
            if count % self.read_every == 0:
                loss.numpy()
            if count == 10:
                begin = time.perf_counter()
        loss.numpy()
        self.chosen.append(self.strategy.extended.running_input.slots)
        self.epochs.append(1e3 * (time.perf_counter() - begin) / (count - 10))


def main(rounds: int, batches: int, spreads: list[float]) -> None:
    emulation.start(gpus=2, memory_mb=[1024, 96])
    for spread, every in [(spread, every) for spread in spreads for every in (1, 10)]:
        data = dataset(spread, batches)
        contenders = [Contender(slots, data, every) for slots in (2, 3, 4, 5, 6, 7, 8, "auto")]
        contenders[-1].epoch()  # it has to see an epoch before it can choose
        contenders[-1].epochs.clear()
        for _ in range(rounds):
            for contender in contenders:
                contender.epoch()
        median = {c.slots: statistics.median(c.epochs) for c in contenders}
        best = min((slots for slots in median if slots != "auto"), key=median.get)
        print(
            f"std {spread:.0%}, read every {every}: "
            + ", ".join(f"{slots}: {ms:.2f}" for slots, ms in median.items())
            + f" ms; auto chose {contenders[-1].chosen[1:]}, best fixed {best}, "
            f"auto / best {median['auto'] / median[best]:.3f}",
            flush=True,
        )
    # 16 MB batches in 96 MB: a step that holds one, and at most that many READY.
    tight = Contender("auto", dataset(0.6, 80, floats=4_000_000))
    for _ in range(3):
        tight.epoch()
    use = emulation.stats(1)
    print(
        f"16 MB batches, {use.memory_limit >> 20} MB: auto chose {tight.chosen}, at most "
        f"{use.memory_peak / (1 << 20):.0f} MB were in use"
    )


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 3,
        int(sys.argv[2]) if len(sys.argv) > 2 else 200,
        [int(percent) / 100 for percent in sys.argv[3:]] or [0.3, 0.6],
    )
