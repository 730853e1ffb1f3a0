"""Time per step with several data devices and model devices, and with shares, on emulated GPUs.

    python tests/benchmarks/scale.py replicas [--front=40 --step=90]   N = 1 to 4 model devices
    python tests/benchmarks/scale.py data_devices [--front=160 --step=60]   one and two, N = 4
    python tests/benchmarks/scale.py shares [--front=20 --step=60 --fixed=5 --copy=0.2]   two GPUs
    python tests/benchmarks/scale.py table [--only=4,80,0,0.2 --loops=read,end --log]   twenty such

Batches of 24 rows and 1.6 MB; means in ms of `--steps` steps.  With `replicas` and `data_devices`
the loss is read on every step, and the front end and the step take as long as given, whatever the
rows; the ratio is to the longer of them, and the bytes into and out of the data device are those of
a step over those of a batch.

With `shares` and `table` both take their time for a whole batch, less for fewer rows, and each
launch `--fixed` more; a batch takes `--copy` ms from one device to another.  A mirrored strategy
has the front end in its step.  `shares="auto"` has some epochs to choose first.  Then all take
turns in each of the `--loops`: the loss read on every step, on every tenth, on the last one only
("end"), steps in one tf.function, and Keras' `fit`.  The ratio is to the fastest of split and
mirrored; one device takes the time of both parts of the split, one after the other.
"""

import argparse
import multiprocessing
import time

import keras
import tensorflow as tf
from absl import logging

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
        ms = fixed + ms * (x.shape[0] or tf.cast(tf.shape(x)[0], tf.float32)) / ROWS
    return emulation.timed(x, ms)


def made_step(strategy, ms, fixed=None):
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

    return step


def step_time(strategy, dataset, ms, steps):
    """The mean time of a step, and what each GPU did meanwhile."""
    step = made_step(strategy, ms)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    for _ in range(8):
        float(step(next(iterator)))
    with emulation.measure() as use:
        # The mean: with two data devices two batches may come together, and then none for long.
        mean = timed_steps(step, iterator, steps, read=True)
    return mean, use


def timed_steps(step, iterator, steps, read):
    """The mean time of a step; the loss is read on each of them, on every `read`th, or at the end.

    With "function" the steps are in one.
    """
    if read == "function":
        return timed_function(step, iterator, steps)
    every = {True: 1, False: steps}.get(read, read)
    begin = time.perf_counter()
    for number in range(1, steps + 1):
        loss = step(next(iterator))
        if not number % every:
            float(loss)
    float(loss)
    return 1e3 * (time.perf_counter() - begin) / steps


def timed_function(step, iterator, steps):
    def all_steps(iterator, steps):
        loss = 0.0
        for _ in tf.range(steps):
            loss = step(next(iterator))
        return loss

    if step not in _functions:
        _functions[step] = tf.function(all_steps)
        float(_functions[step](iterator, tf.constant(2)))
    begin = time.perf_counter()
    float(_functions[step](iterator, tf.constant(steps)))
    return 1e3 * (time.perf_counter() - begin) / steps


class Fit(keras.callbacks.Callback):
    """Keras' `fit` with such a step; it reads the loss on each of them."""

    def __init__(self, strategy, ms, fixed):
        super().__init__()

        class Work(keras.Model):
            def train_step(self, x):
                x = timed(x, ms, fixed)
                gradient = tf.reduce_sum(x[:, 0]) / ROWS
                total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
                self.weight.assign_sub(0.1 * total)
                return {"loss": gradient}

        with strategy.scope():
            self.work = Work()
            self.work.weight = self.work.add_weight(shape=(), initializer="ones")
            self.work.built = True
            self.work.compile()

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())

    def steps(self, dataset, steps):
        """The mean time of those after the first six."""
        self.ends = []
        self.work.fit(dataset, steps_per_epoch=steps + 6, verbose=0, callbacks=[self])
        return 1e3 * (self.ends[-1] - self.ends[5]) / steps


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


CELLS = [(0, 40), (4, 80), (20, 60), (20, 40), (30, 20)]
DRAINING = 12  # steps without the batches that were prepared while others had their turns
TO_CHOOSE = 24  # steps of an epoch that shares="auto" looks back at
LOOPS = {"read": True, "tenth": 10, "end": False, "function": "function", "fit": "fit"}
_functions = {}


def shares(front, step, fixed, copy, steps, loops=("read", "end"), rounds=2):
    """One case: what each takes, and the ratio of shares="auto" to the faster of the others."""
    emulation.start(gpus=2, gbps=BATCH_BYTES / copy / 1e6)
    staged = batches().apply(on_data_device(lambda x: timed(x, front, fixed)))
    sides, fits = {}, {}

    def add(name, strategy, dataset, ms, fixed_ms):
        one_step = made_step(strategy, ms, fixed_ms)
        distributed = strategy.experimental_distribute_dataset(dataset)
        sides[name] = strategy, one_step, distributed, iter(distributed)
        if "fit" in loops:
            fits[name] = Fit(strategy, ms, fixed_ms), dataset

    add("split", DataModelSplitStrategy("GPU:1", "GPU:0"), staged, step, fixed)
    mirrored = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
    add("mirrored", mirrored, batches(), front + step, 2 * fixed)
    strategy = MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0", "GPU:1"], shares="auto")
    add("auto", strategy, staged, step, fixed)
    _, one_step, distributed, iterator = sides["auto"]
    while not strategy.share_choice.settled:
        timed_steps(one_step, iterator, TO_CHOOSE, read=True)
        iterator = iter(distributed)
    sides["auto"] = strategy, one_step, distributed, iterator
    plan = strategy.share_choice.plan
    rows = ":".join(map(str, plan.rows)) + (" each its own" if plan.all_prepare else "")
    case = f"F={front:g} S={step:g} fixed {fixed:g} copy {copy:g}"
    for loop in loops:
        times = {name: [] for name in sides}
        for _ in range(rounds):
            for name, (_, one_step, _, iterator) in sides.items():
                if loop == "fit":
                    fit, dataset = fits[name]
                    times[name].append(fit.steps(dataset, steps))
                    continue
                timed_steps(one_step, iterator, DRAINING, read=True)
                times[name].append(timed_steps(one_step, iterator, steps, LOOPS[loop]))
        means = {name: min(each) for name, each in times.items()}
        ratio = means["auto"] / min(means["split"], means["mirrored"])
        print(
            f"{case} {loop:8s}  split {means['split']:5.1f}  mirrored "
            f"{means['mirrored']:5.1f}  auto {means['auto']:5.1f} ms  {ratio:5.3f}  rows {rows}",
            flush=True,
        )


def table(only, steps, loops):
    """All cases; each in a process, as the link's rate is the emulation's."""
    cells = [(*each, fixed, copy) for copy in (0.2, 5) for fixed in (0, 5) for each in CELLS]
    if only:
        cells = [tuple(map(float, only.split(",")))]
    for cell in cells:
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=shares, args=(*cell, steps, loops))
        process.start()
        process.join()


DEFAULTS = {
    "replicas": (40, 90),
    "data_devices": (160, 60),
    "shares": (20, 60),
    "table": (None, None),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["replicas", "data_devices", "shares", "table"])
    parser.add_argument("--front", type=float)
    parser.add_argument("--step", type=float)
    parser.add_argument("--fixed", type=float, default=0.0)
    parser.add_argument("--copy", type=float, default=0.2)
    parser.add_argument("--only", help="front,step,fixed,copy of one case of the table")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--loops", default="read,end", help=f"of {', '.join(LOOPS)}")
    parser.add_argument("--log", action="store_true", help="what shares=auto tries, and why")
    given = parser.parse_args()
    loops = given.loops.split(",")
    if unknown := set(loops) - set(LOOPS):
        parser.error(f"--loops: there is no {min(unknown)}; there are {', '.join(LOOPS)}")
    if given.log:
        logging.set_verbosity(logging.INFO)
    # 0 is a time as well.
    front, step = (
        default if asked is None else asked
        for asked, default in zip((given.front, given.step), DEFAULTS[given.what], strict=True)
    )
    if given.what == "replicas":
        whole(front, step, given.steps or 40, [1], [1, 2, 3, 4])
    elif given.what == "data_devices":
        whole(front, step, given.steps or 40, [1, 2], [4])
    elif given.what == "shares":
        shares(front, step, given.fixed, given.copy, given.steps or 20, loops)
    else:
        table(given.only, given.steps or 20, loops)


if __name__ == "__main__":
    main()
