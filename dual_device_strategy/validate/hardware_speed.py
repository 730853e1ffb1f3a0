"""How fast the pair trains, in every kind of loop, for an hour, and up to the end of its memory."""

import contextlib
import statistics
import time

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.compare.contenders import OURS, Setting
from dual_device_strategy.compare.rounds import compare_at
from dual_device_strategy.devices import Devices
from dual_device_strategy.devices.use import DeviceSampler, total_memory
from dual_device_strategy.out_of_memory import exhausted_device
from dual_device_strategy.validate.hardware_report import HardwareReport
from dual_device_strategy.workload import Workload

_EMULATED_PART_MS = (2.0, 12.0, 16.0)
_BATCH = 16
_MEMORY_STEPS = 20
_STEADY = 1.05


def check(report: HardwareReport, devices: Devices, budget) -> None:
    for batch_size in budget.batch_sizes:
        _speed(report, devices, budget, batch_size)
    _loops(report, devices, budget)
    _long_run(report, devices, budget)
    _memory_limit(report, devices)  # the last: TensorFlow keeps what it has taken


def _workload(batch_size):
    return Workload(
        batch_size=batch_size, part_ms=_EMULATED_PART_MS if emulation.active() else None
    )


def _speed(report, devices, budget, batch_size):
    expected = "a step is at most 1.05 x the slowest part, and no other way is faster"
    with report.check(f"Batches of {batch_size}", expected) as finding:
        sampler = DeviceSampler([devices.data.logical, devices.model.logical], period=0.2)
        compared = compare_at(
            _workload(batch_size),
            Setting(devices.data.logical, devices.model.logical),
            steps=budget.steps,
            rounds=budget.rounds,
            without=set(),
        )
        with _sampled(sampler):
            _once_more(batch_size, devices, budget)
        ours = next(row for row in compared.rows if row.name == OURS)
        rows = [*compared.alone.values(), *compared.rows]
        if ours.problem:
            return finding.found(f"the strategy's loop failed: {ours.problem}", False)
        busy = {device: use.busy for device, use in sampler.summary().items()}
        finding.found(
            f"{ours.step_ms:.1f} ms a step, {ours.step_ms / compared.limit_ms:.2f} x the slowest "
            f"part, {ours.step_ms / compared.best_ms:.2f} x the fastest way; variation "
            f"{ours.variation:.1%}; busy {_shares(busy)}",
            ours.step_ms <= _STEADY * max(compared.limit_ms, compared.best_ms),
            ms={row.name: row.step_ms for row in rows},
            variation={row.name: row.variation for row in rows},
            problems={row.name: row.problem for row in rows if row.problem},
            memory_mb={row.name: row.memory_mb for row in rows},
            busy=busy,
        )


def _once_more(batch_size, devices, budget):
    """The strategy's own loop once more, to sample the devices while nothing else runs."""
    distributed, step = _training(batch_size, devices)
    iterator = iter(distributed)
    for _ in range(4 * budget.steps):
        step(next(iterator)).numpy()


def _training(batch_size, devices):
    """The endless batches of the workload under the strategy, and a step over one."""
    workload = _workload(batch_size)
    strategy = DataModelSplitStrategy(devices)
    with strategy.scope():
        train = workload.train_step()
    dataset = workload.host().apply(on_data_device(workload.front_end))
    step = tf.function(lambda batch: strategy.run(train, args=(batch,)))
    return strategy.experimental_distribute_dataset(dataset), step


def _loops(report, devices, budget):
    expected = "no kind of loop is slower than 1.1 x the fastest"
    with report.check("Kinds of loops", expected) as finding:
        distributed, step = _training(_BATCH, devices)
        iterator = iter(distributed)

        @tf.function
        def ten(iterator):
            total = 0.0  # of all losses: what nobody uses would be left out
            for _ in range(10):
                total += step(next(iterator))
            return total

        def read_every(count):
            for _ in range(count):
                loss = step(next(iterator))
            loss.numpy()

        loops = {
            "read on every step": lambda: [read_every(1) for _ in range(10)],
            "read on every tenth": lambda: read_every(10),
            "ten in one function": lambda: ten(iterator).numpy(),
        }
        for loop in loops.values():
            loop()  # traced
        ms = {name: [] for name in loops}
        for _ in range(max(1, budget.steps // 10) * budget.rounds):
            for name, loop in loops.items():
                ms[name].append(_timed(loop) / 10)
        medians = {name: statistics.median(times) for name, times in ms.items()}
        medians["fit"] = _fit_ms(devices, budget.steps * budget.rounds)
        listed = ", ".join(f"{name} {each:.1f}" for name, each in medians.items())
        finding.found(
            f"ms a step: {listed}", max(medians.values()) <= 1.1 * min(medians.values()), ms=medians
        )


def _fit_ms(devices, steps):
    import keras

    workload = _workload(_BATCH)
    strategy = DataModelSplitStrategy(devices)
    with strategy.scope():
        train = workload.train_step()

        class Fitted(keras.Model):
            def train_step(self, batch):
                return {"loss": train(batch)}

        model = Fitted()
        model.built = True  # its variables are those of the step
        model.compile(jit_compile=False)
    dataset = workload.host().apply(on_data_device(workload.front_end))
    model.fit(dataset, steps_per_epoch=10, verbose=0)  # traced
    return _timed(lambda: model.fit(dataset, steps_per_epoch=10 * steps, verbose=0)) / (10 * steps)


def _long_run(report, devices, budget):
    expected = "the last tenth is as fast as the first, and holds as much memory"
    with report.check(f"A run of {budget.minutes:g} minutes", expected) as finding:
        distributed, step = _training(_BATCH, devices)
        iterator = iter(distributed)
        for _ in range(5):
            step(next(iterator)).numpy()
        names = [devices.data.logical, devices.model.logical]
        sampler = DeviceSampler(names, period=min(1.0, 60 * budget.minutes / 10))
        times, held = [], []
        end = time.monotonic() + 60 * budget.minutes
        with _sampled(sampler):
            while time.monotonic() < end:
                times.append(_timed(lambda: step(next(iterator)).numpy()))
                if len(times) % 10 == 1:
                    held.append(sum(_held(name) for name in names))
        tenth = max(1, len(times) // 10)
        first, last = (statistics.median(part) for part in (times[:tenth], times[-tenth:]))
        busy = {name: use.busy for name, use in sampler.summary().items()}
        memory = [max(part) >> 20 for part in (held[: len(held) // 2 + 1], held[len(held) // 2 :])]
        finding.found(
            f"{len(times)} steps; first tenth {first:.2f} ms, last {last:.2f} ms a step; variation "
            f"{statistics.pstdev(times) / statistics.fmean(times):.1%}, slowest "
            f"{max(times):.1f} ms; busy {_shares(busy)}; at most {memory[0]} MB held in the first "
            f"half, {memory[1]} MB in the second",
            last <= _STEADY * first and memory[1] <= _STEADY * memory[0] + 1,
            steps=len(times),
            ms=[statistics.median(times[i : i + tenth]) for i in range(0, len(times), tenth)],
            slowest_ms=max(times),
            busy=busy,
            memory_mb=memory,
        )


def _memory_limit(report, devices):
    expected = "tensors fill the memory that the device has, and what is one too many is refused"
    with report.check("Memory of the model device", expected) as finding:
        device = devices.model.logical
        total = total_memory(device)
        if total is None:
            return finding.found("the allocator's limit is unknown")
        held = []
        try:
            with tf.device(device):
                for _ in range(_MEMORY_STEPS + 2):
                    held.append(tf.zeros([total // _MEMORY_STEPS], tf.uint8))
                    held[-1][:1].numpy()
        except tf.errors.ResourceExhaustedError as error:
            refused = exhausted_device(error) is not None
        else:
            refused = False
        share = len(held) / _MEMORY_STEPS
        finding.found(
            f"{devices.model.memory}: {share:.0%} of {total >> 20} MB held, then "
            + ("refused by name" if refused else "nothing was refused by name"),
            refused and 0.7 <= share <= 1,
            limit_mb=total >> 20,
            held_share=share,
        )


@contextlib.contextmanager
def _sampled(sampler):
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()


def _held(device):
    return tf.config.experimental.get_memory_info(device)["current"]


def _shares(busy):
    return ", ".join(
        f"{device} {'unknown' if share is None else format(share, '.0%')}"
        for device, share in busy.items()
    )


def _timed(work):
    begin = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begin)
