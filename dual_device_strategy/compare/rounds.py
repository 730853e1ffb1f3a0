"""Alternating rounds of all contenders, at one batch size after the other."""

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy.compare.contenders import (
    Setting,
    contenders,
    front_end_core_ms,
    parts_alone,
)
from dual_device_strategy.devices import short_name
from dual_device_strategy.out_of_memory import exhausted_device
from dual_device_strategy.workload import REFERENCE_BATCH, Workload

WARM = 5


@dataclasses.dataclass
class Row:
    """The measurements of one contender at one batch size; no times if it does not fit.

    `memory_mb` is the peak on the data and the model device, None if unknown.
    """

    name: str
    batch_size: int
    part_ms: tuple[float, ...] | None
    times: list[float] = dataclasses.field(default_factory=list)
    memory_mb: dict[str, float | None] = dataclasses.field(default_factory=dict)
    problem: str = ""

    @property
    def step_ms(self) -> float | None:
        return statistics.median(self.times) if self.times else None

    @property
    def variation(self) -> float | None:
        if not self.times:
            return None
        return statistics.pstdev(self.times) / statistics.fmean(self.times)


@dataclasses.dataclass
class Comparison:
    """All contenders at one batch size, and each part alone in the same run."""

    batch_size: int
    part_ms: tuple[float, ...] | None
    rows: list[Row]
    alone: dict[str, Row]
    host_core_ms: float | None = None  # how long the front end keeps a core of the host busy

    @property
    def case(self) -> str:
        """The times that the parts were given, in words; empty where they do real work."""
        if not self.part_ms:
            return ""
        scale = REFERENCE_BATCH / self.batch_size
        times = [round(ms * scale, 6) for ms in self.part_ms]
        return "host {:g}, front end {:g}, step {:g} ms for a batch of {}".format(
            *times, REFERENCE_BATCH
        )

    def step_ms(self, name: str) -> float | None:
        return next((row.step_ms for row in self.rows if row.name == name), None)

    @property
    def limit_ms(self) -> float | None:
        times = [row.step_ms for row in self.alone.values() if row.step_ms]
        return max(times) if times else None

    @property
    def best_ms(self) -> float | None:
        return min((row.step_ms for row in self.rows if row.step_ms), default=None)


def compare_at(
    workload: Workload, setting: Setting, steps: int, rounds: int, without: set[str]
) -> Comparison:
    """Runs everything but the contenders named in `without`, in alternating rounds."""
    makers = {
        name: make for name, make in contenders(workload, setting).items() if name not in without
    }
    alone = parts_alone(workload, setting)
    scaled = workload.scaled_ms() if workload.part_ms else None
    rows = {name: Row(name, workload.batch_size, scaled) for name in (*alone, *makers)}
    devices = {"data": setting.data_device, "model": setting.model_device}
    for _ in range(rounds):
        for name, make in {**alone, **makers}.items():
            if not rows[name].problem:
                _run(rows[name], make, steps, devices)
    return Comparison(
        batch_size=workload.batch_size,
        part_ms=scaled,
        rows=[rows[name] for name in makers],
        alone={name: rows[name] for name in alone},
        host_core_ms=front_end_core_ms(workload, setting),
    )


def _times(loop, steps):
    next_batch, step = loop
    times = []
    for i in range(steps + WARM):
        begin = time.perf_counter()
        step(next_batch()).numpy()
        if i >= WARM:
            times.append(1e3 * (time.perf_counter() - begin))
    return times


def _run(row: Row, make: Callable, steps: int, devices: dict[str, str]) -> None:
    """One round.  Each loop is made anew, so that it has the memory of both devices to itself."""
    for device in devices.values():
        if "GPU" in device:
            tf.config.experimental.reset_memory_stats(short_name(device))
    try:
        loop = make()
        row.times.extend(_times(loop, steps))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        row.problem = "does not fit" if exhausted_device(error) else text
    for role, peak in _peaks(devices).items():
        row.memory_mb[role] = max(filter(None, (peak, row.memory_mb.get(role))), default=None)
    if row.problem:
        row.times.clear()
        row.memory_mb.clear()
    loop = None  # before the next one is made
    gc.collect()


def _peaks(devices):
    peaks = {}
    for role, device in devices.items():
        if "GPU" in device:
            peak = tf.config.experimental.get_memory_info(short_name(device))["peak"]
            peaks[role] = peak / (1 << 20)
    return peaks
