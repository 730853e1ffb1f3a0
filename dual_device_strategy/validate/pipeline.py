"""Section 5: a short simulated training, to see that all parts work at the same time."""

import contextlib
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, data_scope, emulation, on_data_device
from dual_device_strategy.devices import Device, Devices
from dual_device_strategy.validate.report import Report

HOST_MS, DATA_MS, MODEL_MS = 10, 20, 20
STEPS = 40
WARM_UP = 5
# 0 means taking turns, 1 perfect overlap.  With parts of these lengths, overlap of two parts at a
# time, but never of all three, reaches two thirds.
LEAST_OVERLAP = 0.7
ROUNDS = 3
_BATCH_SHAPE = (32, 8192)


@dataclasses.dataclass(frozen=True)
class Round:
    """One round: ms per batch of each part alone and of all together, waiting and busy shares."""

    host_ms: float
    data_ms: float
    model_ms: float
    step_ms: float
    waiting: float
    busy: list[float]

    @property
    def slowest(self) -> float:
        return max(self.host_ms, self.data_ms, self.model_ms)

    @property
    def overlap(self) -> float:
        in_turns = self.host_ms + self.data_ms + self.model_ms
        return (in_turns - self.step_ms) / (in_turns - self.slowest)


def check(report: Report, devices: Devices) -> None:
    strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)
    _check_slots(report, strategy)
    prepare, train = work_on(devices.data), work_on(devices.model)
    rounds = []
    # Another program may have had the processor in one round; it seldom has it in three.
    while len(rounds) < ROUNDS and (not rounds or rounds[-1].overlap < LEAST_OVERLAP):
        rounds.append(_measure(strategy, prepare, train))
    best = max(rounds, key=lambda round: round.overlap)
    report.check(
        best.overlap >= LEAST_OVERLAP,
        f"{best.step_ms:.1f} ms a step; alone, the host takes {best.host_ms:.1f}, the data device "
        f"{best.data_ms:.1f}, the model device {best.model_ms:.1f}: overlap {best.overlap:.0%}, "
        f"{best.step_ms / best.slowest:.2f} x the slowest part",
        remedy=(
            f"at least {LEAST_OVERLAP:.0%} is expected, and this was the best of {ROUNDS} rounds: "
            "run again when no other program uses these devices or the CPU"
        ),
        rounds=[dataclasses.asdict(round) for round in rounds],
        overlap=best.overlap,
    )
    report.note(f"{best.waiting:.0%} of the time waiting for data", waiting=best.waiting)
    if best.busy:
        shares = [
            f"{device.role} device {best.busy[device.physical]:.0%}"
            for device in (devices.data, devices.model)
            if device.kind == "GPU"
        ]
        report.note(f"busy: {', '.join(shares)}")


def _measure(strategy, prepare, train) -> Round:
    with strategy.scope():
        weight = tf.Variable(1.0)

    @tf.function
    def step(batch):
        return tf.reduce_mean(train(batch, MODEL_MS)) * weight

    def batches(host_ms):
        host = tf.data.Dataset.range(STEPS + WARM_UP).map(lambda i: _made_by_host(i, host_ms))
        front_end = on_data_device(lambda batch: prepare(batch, DATA_MS))
        dataset = strategy.experimental_distribute_dataset(host.prefetch(1).apply(front_end))
        return iter(dataset)

    def train_on(batch):
        return float(strategy.run(step, args=(batch,)))

    host_only = tf.data.Dataset.range(STEPS).map(lambda i: _made_by_host(i, HOST_MS))
    host_ms, _ = _paced(iter(host_only), lambda batch: None)
    data_ms, _ = _paced(batches(0), lambda batch: batch[0, 0].numpy())
    batch = next(batches(0))
    model_ms, _ = _paced(itertools.repeat(batch, STEPS + WARM_UP), train_on)
    with _busy_shares() as busy:
        step_ms, waiting = _paced(batches(HOST_MS), train_on)
    return Round(
        host_ms=host_ms,
        data_ms=data_ms,
        model_ms=model_ms,
        step_ms=step_ms,
        waiting=waiting,
        busy=busy,
    )


def work_on(device: Device) -> Callable[[tf.Tensor, float], tf.Tensor]:
    """A function (x, ms) that returns x after keeping the device busy for `ms` milliseconds."""
    if device.kind == "CPU" or emulation.active():
        return emulation.timed
    return multiplying(device.logical)


def multiplying(device: str) -> Callable[[tf.Tensor, float], tf.Tensor]:
    """Like `work_on`, with matrix products, whose speed on the device is measured first."""
    with tf.device(device):
        matrix = tf.roll(tf.eye(1024), shift=1, axis=0)  # its powers stay as small as it is

    @tf.function
    def product(times):
        return tf.while_loop(
            lambda i, _: i < times, lambda i, m: (i + 1, tf.matmul(m, matrix)), (0, matrix)
        )[1]

    def seconds(times):
        started = time.perf_counter()
        with tf.device(device):
            product(tf.constant(times))[0, 0].numpy()
        return time.perf_counter() - started

    times = 1
    seconds(times)
    while seconds(times) < 0.05:
        times *= 2
    per_ms = times / (1000 * statistics.median(seconds(times) for _ in range(5)))

    def work(x, ms):
        # An unused product would be left out of the graph; this much is lost in x's rounding.
        return x + 1e-30 * product(tf.constant(max(1, round(ms * per_ms))))[0, 0]

    return work


def _check_slots(report, strategy):
    slots = strategy.extended.slots
    with strategy.scope(), data_scope():
        prepared = tf.Variable(0, dtype=tf.int64)

    def count(batch):
        prepared.assign_add(1)
        return batch

    dataset = tf.data.Dataset.range(8 * slots).apply(on_data_device(count))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    held = next(iterator)
    used = _settled(prepared, expected=slots)
    report.check(
        used == slots,
        f"{used} of {slots} slots in use while a step holds batch {int(held)}",
        remedy="the strategy bounds and fills its slots by itself: report this with --json output",
        slots=used,
    )


def _settled(counter, expected):
    """The counter's value once it has stood still for a while.

    It may also stand still on a busy machine, so the value that is expected has more time to come.
    """
    seen, patience = [], time.monotonic() + 5
    while (
        len(seen) < 5
        or len(set(seen[-5:])) > 1
        or (seen[-1] < expected and time.monotonic() < patience)
    ):
        time.sleep(0.05)
        seen.append(int(counter.numpy()))
    return seen[-1]


def _made_by_host(index, ms):
    def make(index):
        time.sleep(ms / 1000)
        return np.full(_BATCH_SHAPE, index, np.float32)

    batch = tf.numpy_function(make, [index], tf.float32)
    batch.set_shape(_BATCH_SHAPE)
    return batch


def _paced(batches, work):
    """Median milliseconds from one batch to the next, and the share spent waiting for one."""
    paces, waits = [], []
    before = time.perf_counter()
    for batch in batches:
        received = time.perf_counter()
        work(batch)
        after = time.perf_counter()
        waits.append(received - before)
        paces.append(after - before)
        before = after
    paces, waits = paces[WARM_UP:], waits[WARM_UP:]
    return 1000 * statistics.median(paces), sum(waits) / sum(paces)


@contextlib.contextmanager
def _busy_shares():
    """Busy share per physical GPU during the block, known afterwards, where it can be measured."""
    shares = []
    if not emulation.active():
        yield shares
        return
    with emulation.measure() as use:
        yield shares
    shares.extend(gpu.busy for gpu in use)
