"""Time per step in every kind of loop, with copies of several lengths, on the emulated pair.

    python tests/benchmarks/loops.py [--rounds=3] [--slots=4] [--copies=0.2,5,15] [--steps=40]
    python tests/benchmarks/loops.py --grid   # one round of that, then jitter.py: 9 minutes
    python tests/benchmarks/loops.py --host_time [--rounds=3] [--copies=0.2,5,15]

A step of 20 ms, a front end of 4 ms, batches of 2 MB over links whose rate makes the copy as long
as asked.  Each kind of loop is run in turns with our strategy, with one batch that stays on the
model device, and with batches of tf.data's prefetch_to_device, which have no front end.  What is
timed is the steady state: each loop first runs WARM steps, whose last loss is read, because a loop
that was not run for a while finds all its slots full.  `fit` with a batch on the device is fed with
numbers.  Medians of the rounds in ms, and ours over the other two.  The rate of the links belongs
to the emulation, so each length of a copy is a process of its own.

`--host_time` shows what the host does between two steps if the loss is read on every step: the
medians of next(), of starting the step, and of reading the loss less the 20 ms of the step, each
with the time on the processor of Python's thread in brackets.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import keras
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

STEP, FRONT_END, FLOATS, WARM = 20.0, 4.0, 500_000, 10
DATA, MODEL = "GPU:1", "GPU:0"


def host_dataset() -> tf.data.Dataset:
    with tf.device("CPU:0"):
        example = tf.ones([1, FLOATS])
    numbers = tf.data.Dataset.range(10**9)
    return numbers.map(lambda i: (example, tf.reshape(tf.cast(i, tf.float32), [1, 1])))


def front_end(x, y):
    return emulation.timed((x, y), ms=FRONT_END)


def train(x, y):
    del x
    return emulation.timed(y, ms=STEP)


class TimedModel(keras.Model):
    """A model whose training step takes STEP ms."""

    def build(self, input_shape):
        self.weight = self.add_weight(name="weight", shape=(), initializer="zeros")

    def call(self, x):
        return self.weight + x[:, :1]

    def train_step(self, data):
        self.weight.assign_add(train(*data)[0, 0] * 0.0)
        return {"loss": self.weight}


class ModelWithItsBatch(TimedModel):
    """Trains with a batch that is on the model device, whatever `fit` brings."""

    def __init__(self, batch):
        super().__init__()
        self._batch = batch

    def train_step(self, data):
        del data
        return super().train_step(self._batch)


class _EpochTimes(keras.callbacks.Callback):
    """The seconds of each epoch, without what comes before and after them."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self._begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._begin)


class _SameBatch:
    """A batch that is on the model device already."""

    def __init__(self):
        with tf.device(MODEL):
            self._batch = tf.ones([1, FLOATS]), tf.ones([1, 1])

    def __next__(self):
        return self._batch


def sources(slots: int):
    """name -> (strategy, what `next` takes batches from, what `fit` takes batches from)."""
    ours = DataModelSplitStrategy(DATA, MODEL, slots=slots)
    plain = tf.distribute.OneDeviceStrategy(MODEL)
    staged = ours.experimental_distribute_dataset(
        host_dataset().prefetch(2).apply(on_data_device(front_end))
    )
    fed = host_dataset().apply(tf.data.experimental.prefetch_to_device(f"/{MODEL}", 2))
    with tf.device(MODEL):
        fed_iterator = iter(fed)
    return {
        "ours": (ours, iter(staged), host_dataset().prefetch(2).apply(on_data_device(front_end))),
        "on the device": (plain, _SameBatch(), tf.data.Dataset.range(10**9).batch(1)),
        "fed by prefetch": (plain, fed_iterator, host_dataset().prefetch(2)),
    }


def loops(strategy, batches, fit_dataset, steps: int):
    """kind of loop -> function that runs `steps` steps and returns the seconds they took."""
    run = tf.function(lambda batch: strategy.run(train, args=batch))
    on_device = isinstance(batches, _SameBatch)

    def timed(loop):
        def seconds():
            loop(WARM)
            begin = time.perf_counter()
            loop(steps)
            return time.perf_counter() - begin

        return seconds

    def reading_every(count):
        def loop(steps):
            for number in range(steps):
                loss = run(next(batches))
                if (number + 1) % count == 0 or number + 1 == steps:
                    loss.numpy()

        return loop

    kept = next(batches) if on_device else None

    @tf.function
    def in_graph(steps):
        loss = tf.zeros([1, 1])
        for _ in tf.range(steps):
            loss = strategy.run(train, args=kept if on_device else next(batches))
        return loss

    def whole_function(steps):
        with tf.device(MODEL):
            in_graph(tf.constant(steps)).numpy()

    kinds = {
        "read on every step": timed(reading_every(1)),
        "read every tenth": timed(reading_every(10)),
        "in one function": timed(whole_function),
    }
    for count in (1, 10):
        with strategy.scope():
            model = ModelWithItsBatch(kept) if on_device else TimedModel()
            model.build(None)
            model.compile(steps_per_execution=count)

        def fit(model=model):
            epochs = _EpochTimes()
            model.fit(fit_dataset, epochs=3, steps_per_epoch=steps, verbose=0, callbacks=[epochs])
            return statistics.median(epochs.seconds[1:])

        kinds["fit" if count == 1 else f"fit, {count} steps per execution"] = fit
    return kinds


def measure(slots: int, rounds: int, steps: int):
    """{kind of loop: {source: median ms a step}}; all take turns."""
    made = {name: loops(*source, steps=steps) for name, source in sources(slots).items()}
    times = {}
    for number in range(rounds + 1):  # the first one traces
        for kind in made["ours"]:
            for name, kinds in made.items():
                took = 1e3 * kinds[kind]() / steps
                if number:
                    times.setdefault(kind, {}).setdefault(name, []).append(took)
    return {
        kind: {name: statistics.median(values) for name, values in by_source.items()}
        for kind, by_source in times.items()
    }


def host_times(slots: int, rounds: int, steps: int) -> dict[str, dict[str, tuple[float, float]]]:
    """source -> what is done between two steps -> ms, and ms on the processor; medians."""
    parts = "next", "starting", "reading"
    made = {}
    for name, (strategy, batches, _) in sources(slots).items():
        run = tf.function(lambda batch, strategy=strategy: strategy.run(train, args=batch))
        made[name] = run, batches, {part: [] for part in parts}
    for _ in range(rounds):
        for run, batches, times in made.values():
            for number in range(WARM + steps):
                clocks = [(time.perf_counter(), time.thread_time())]
                batch = next(batches)
                clocks.append((time.perf_counter(), time.thread_time()))
                loss = run(batch)
                clocks.append((time.perf_counter(), time.thread_time()))
                loss.numpy()
                clocks.append((time.perf_counter(), time.thread_time()))
                if number >= WARM:
                    for part, begin, end in zip(parts, clocks, clocks[1:], strict=False):
                        times[part].append([1e3 * (b - a) for a, b in zip(begin, end, strict=True)])
    found = {}
    for name, (_, _, times) in made.items():
        found[name] = {
            part: tuple(map(statistics.median, zip(*each, strict=True)))
            for part, each in times.items()
        }
        wall, on_processor = found[name]["reading"]
        found[name]["reading"] = wall - STEP, on_processor
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--slots", default="4")
    parser.add_argument("--copies", default="0.2,5,15")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--host_time", action="store_true")
    options = parser.parse_args()
    if options.grid:
        begin = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--rounds=1"], check=True)
        subprocess.run([sys.executable, Path(__file__).with_name("jitter.py")], check=True)
        print(f"{time.perf_counter() - begin:.0f} s")
        return
    copies = [float(copy) for copy in options.copies.split(",")]
    if len(copies) > 1:
        for copy in copies:
            flags = [f"--rounds={options.rounds}", f"--steps={options.steps}"]
            flags += [f"--slots={options.slots}", f"--copies={copy}"]
            flags += ["--host_time"] * options.host_time
            subprocess.run([sys.executable, __file__, *flags], check=True)
        return
    emulation.start(gpus=2, memory_mb=1024, gbps=4e-6 * FLOATS / copies[0])
    for slots in map(int, options.slots.split(",")):
        if options.host_time:
            for name, times in host_times(slots, options.rounds, options.steps).items():
                cells = ", ".join(f"{p} {wall:.2f} ({cpu:.2f})" for p, (wall, cpu) in times.items())
                print(f"copy {copies[0]} ms, {slots} slots, {name}: {cells}", flush=True)
            continue
        for kind, by_source in measure(slots, options.rounds, options.steps).items():
            ours = by_source["ours"]
            others = "; ".join(
                f"{name} {took:.2f} ({ours / took:.3f})"
                for name, took in by_source.items()
                if name != "ours"
            )
            print(f"copy {copies[0]} ms, {slots} slots, {kind}: {ours:.2f}; {others}", flush=True)


if __name__ == "__main__":
    main()
