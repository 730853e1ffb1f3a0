"""Alternating rounds of all contenders, at one batch size after the other."""

import dataclasses
import gc
import statistics
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy.compare.contenders import Setting, contenders, parts_alone
from dual_device_strategy.compare.host_cores import front_end_core_ms
from dual_device_strategy.devices import short_name
from dual_device_strategy.out_of_memory import exhausted_device
from dual_device_strategy.readings import Reading, step_times
from dual_device_strategy.whatif import Work
from dual_device_strategy.workload import REFERENCE_BATCH, Workload

WARM = 5
BOTH = (Reading.EVERY_STEP, Reading.EVERY_TENTH)


@dataclasses.dataclass
class Row:
    """The measurements of one contender at one batch size; no times if it does not fit.

    `times` are those of a loop that reads its loss as `Comparison.readings` says first, `others`
    those of the other readings.  `memory_mb` is the largest peak of the data devices and of the
    devices that train, None if unknown.
    """

    name: str
    batch_size: int
    part_ms: tuple[float, ...] | None
    times: list[float] = dataclasses.field(default_factory=list)
    others: dict[Reading, list[float]] = dataclasses.field(default_factory=dict)
    memory_mb: dict[str, float | None] = dataclasses.field(default_factory=dict)
    problem: str = ""
    detail: str = ""  # what else is to be known of it

    @property
    def step_ms(self) -> float | None:
        return statistics.median(self.times) if self.times else None

    def other_ms(self, reading: Reading) -> float | None:
        times = self.others.get(reading)
        return statistics.median(times) if times else None

    @property
    def variation(self) -> float | None:
        if not self.times:
            return None
        return statistics.pstdev(self.times) / statistics.fmean(self.times)


@dataclasses.dataclass
class Comparison:
    """All contenders at one batch size, and each part alone in the same run.

    `divided` says on how many devices a part runs in ours; the limit counts on that.
    """

    batch_size: int
    part_ms: tuple[float, ...] | None
    rows: list[Row]
    alone: dict[str, Row]
    host_core_ms: float | None = None  # how long the front end keeps a core of the host busy
    readings: Sequence[Reading] = (Reading.EVERY_STEP,)
    divided: dict[str, int] = dataclasses.field(default_factory=dict)
    fixed_ms: tuple[float, float] = (0.0, 0.0)

    @property
    def case(self) -> str:
        """The times that the parts were given, in words; empty where they do real work."""
        if not self.part_ms:
            return ""
        scale = REFERENCE_BATCH / self.batch_size
        fixed = (0.0, *self.fixed_ms)
        both = zip(self.part_ms, fixed, strict=True)
        times = [(ms - of_launch) * scale for ms, of_launch in both]
        said = "host {:.4g}, front end {:.4g}, step {:.4g} ms for a batch of {}".format(
            *times, REFERENCE_BATCH
        )
        if any(fixed):
            said += ", and {:g} and {:g} ms for each launch".format(*self.fixed_ms)
        return said

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def step_ms(self, name: str) -> float | None:
        row = self.row(name)
        return row and row.step_ms

    @property
    def limit_ms(self) -> float | None:
        times = [
            row.step_ms / self.divided.get(name, 1)
            for name, row in self.alone.items()
            if row.step_ms
        ]
        return max(times) if times else None

    @property
    def best_ms(self) -> float | None:
        return min((row.step_ms for row in self.rows if row.step_ms), default=None)


def compare_at(
    workload: Workload,
    setting: Setting,
    *,
    steps: int,
    rounds: int,
    without: set[str],
    readings: Sequence[Reading] = BOTH,
) -> Comparison:
    """Runs everything but the contenders named in `without`, in alternating rounds."""
    alone = parts_alone(workload, setting)
    scaled = workload.scaled_ms() if workload.part_ms else None
    rows: dict[str, Row] = {}
    details: dict[str, str] = {}
    made = contenders(workload, setting, lambda: _work(workload, rows), details)
    makers = {name: make for name, make in made.items() if name not in without}
    rows |= {name: Row(name, workload.batch_size, scaled) for name in (*alone, *makers)}
    devices = {"data": setting.data_devices, "model": setting.model_devices}
    for _ in range(rounds):
        for name, make in {**alone, **makers}.items():
            if not rows[name].problem:
                _run(
                    rows[name],
                    make,
                    steps,
                    devices=devices,
                    readings=readings[:1] if name in alone else readings,
                )
    for name, detail in details.items():
        rows[name].detail = detail
    return Comparison(
        batch_size=workload.batch_size,
        part_ms=scaled,
        rows=[rows[name] for name in makers],
        alone={name: rows[name] for name in alone},
        host_core_ms=front_end_core_ms(workload, setting.host_slowdown),
        readings=tuple(readings),
        fixed_ms=workload.fixed_ms,
        divided={"front end": len(devices["data"]), "step": len(devices["model"])},
    )


def _work(workload: Workload, rows: dict[str, Row]) -> Work:
    """What the parts take, as they were given or else as they were measured."""
    fixed = workload.fixed_ms if workload.part_ms else (0.0, 0.0)
    times = rows["front end"].part_ms or [None, rows["front end"].step_ms, rows["step"].step_ms]
    if not all(times[1:]) and not workload.part_ms:
        raise ValueError("its shares follow from front end and step alone, which do not fit")
    return Work(
        front_end=max(0.0, times[1] - fixed[0]),
        step=max(0.0, times[2] - fixed[1]),
        front_end_fixed=fixed[0],
        step_fixed=fixed[1],
        rows=workload.batch_size,
    )


def _run(
    row: Row, make: Callable, steps: int, *, devices: dict, readings: Sequence[Reading]
) -> None:
    """One round.  Each loop is made anew, so that it has the memory of all devices to itself."""
    for device in {device for several in devices.values() for device in several}:
        if "GPU" in device:
            tf.config.experimental.reset_memory_stats(short_name(device))
    try:
        loop = make()
        for number, reading in enumerate(readings):
            times = step_times(*loop, steps=steps, reading=reading, warm=WARM)
            (row.others.setdefault(reading, []) if number else row.times).extend(times)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        row.problem = "does not fit" if exhausted_device(error) else text
    for role, peak in _peaks(devices).items():
        row.memory_mb[role] = max(filter(None, (peak, row.memory_mb.get(role))), default=None)
    if row.problem:
        row.times.clear()
        row.others.clear()
        row.memory_mb.clear()
    loop = None  # before the next one is made
    gc.collect()


def _peaks(devices):
    peaks = {}
    for role, several in devices.items():
        of_role = [
            tf.config.experimental.get_memory_info(short_name(device))["peak"] / (1 << 20)
            for device in several
            if "GPU" in device
        ]
        if of_role:
            peaks[role] = max(of_role)
    return peaks
