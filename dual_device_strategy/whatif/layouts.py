"""Layouts: which devices of a machine prepare, which train, and how long a step then takes.

>>> work = Work(front_end=20, step=60, front_end_fixed=5, step_fixed=5, rows=24)
>>> for layout in layouts(work, devices=2):
...     print(f"{layout.step_ms:.1f} ms  {layout.name}")
47.5 ms  1 prepares, 2 train: 17:7 rows
50.0 ms  2 do both, front end in the step
65.0 ms  1 prepares, 1 trains
90.0 ms  1 device, front end in the step

Everything is computed from the times of a whole batch on one device.  The assumptions: a front end
and a step take a fixed time and a time proportional to their rows; devices are alike; a device does
one thing at a time, and its links carry data meanwhile; slots hide jitter (`predict` has jitter).
"""

import dataclasses
import math
from collections.abc import Collection

PREPARING, TRAINING, LINKS, HOST = "the data devices", "the model devices", "the links", "the host"


def need_numbers(
    settings, *, from_one: Collection[str] = (), above_zero: Collection[str] = ()
) -> None:
    """Refuses fields of a dataclass that are negative, too small or not finite."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        least, positive = int(field.name in from_one), field.name in above_zero
        if not math.isfinite(value) or value < least or (positive and not value):
            limit = "above 0" if positive else f"from {least} on"
            raise ValueError(f"{field.name}={value} must be a number {limit}")


def ring_ms(members: int, megabytes: float, gb_per_s: float, latency_us: float = 0.0) -> float:
    """A ring all-reduce: every member sends and receives a part in 2 (members - 1) rounds."""
    if members == 1 or not megabytes:
        return 0.0
    return 2 * (members - 1) * (megabytes / members / gb_per_s + 1e-3 * latency_us)


@dataclasses.dataclass(frozen=True)
class Work:
    """The times of a whole batch, in milliseconds.

    Attributes:
      host: the host pipeline of a machine.
      copy: from the host to a device.
      front_end: the front end on one device, without its fixed cost.
      transfer: a prepared batch over the link of one device.
      step: the training step on one device, without its fixed cost.
      front_end_fixed: the cost of each launch of the front end, independent of its rows.
      step_fixed: the same for the step.
      gap: the time between two steps in a loop that reads the result of each.
      gap_ahead: that time in a loop that runs ahead: nothing with one replica; several replicas
        are started one after the other, and wait for each other.
      rows: the rows of a whole batch.
      gradient_mb: the megabytes that devices add up after each step.
      link_gbps: the links between the devices of a machine, in gigabytes a second.
      copies_ahead: whether a batch is copied from the host while the front end works on the batch
        before, as with six slots or more, and not before each front end.
    """

    host: float = 0.0
    copy: float = 0.0
    front_end: float = 0.0
    transfer: float = 0.0
    step: float = 0.0
    front_end_fixed: float = 0.0
    step_fixed: float = 0.0
    gap: float = 0.0
    gap_ahead: float = 0.0
    rows: int = 24
    gradient_mb: float = 0.0
    link_gbps: float = 12.0
    copies_ahead: bool = False

    def __post_init__(self):
        need_numbers(self, from_one=["rows"], above_zero=["link_gbps"])

    def preparing(self) -> float:
        """The whole batch on one data device that only prepares."""
        front_end = self.front_end_fixed + self.front_end
        return max(self.copy, front_end) if self.copies_ahead else self.copy + front_end

    def training(self, rows: int) -> float:
        """The step over this many rows on one device."""
        return self.step_fixed + self.step * rows / self.rows if rows else 0.0

    def all_reduce(self, devices: int) -> float:
        """Adding up the gradients of devices in a ring."""
        return ring_ms(devices, self.gradient_mb, self.link_gbps)


@dataclasses.dataclass(frozen=True)
class Layout:
    """One way to use the devices.

    Attributes:
      name: in words.
      preparing: how many devices prepare whole batches, in turns; 0 if the front end is in the
        step.
      rows: the rows of each training device; data devices that train too come last.
      parts: the time of each part for a batch, by name.
      gap: the time added to a step if the loop reads on every step.
      gap_ahead: the same in a loop that runs ahead.
    """

    name: str
    preparing: int
    rows: tuple[int, ...]
    devices: int
    parts: dict[str, float]
    gap: float
    gap_ahead: float = 0.0

    @property
    def step_ms(self) -> float:
        """The time of a step in a loop that reads the result of every step."""
        return self._with(self.gap)

    @property
    def without_host(self) -> "Layout":
        """The same if the host took no time."""
        parts = {part: ms for part, ms in self.parts.items() if part != HOST}
        return dataclasses.replace(self, parts=parts)

    @property
    def ahead_ms(self) -> float:
        """The time of a step in a loop that runs ahead of its devices, reading now and then."""
        return self._with(self.gap_ahead)

    def _with(self, gap):
        later = {TRAINING: gap, PREPARING: gap if self.shared else 0.0}
        return max(ms + later.get(part, 0.0) for part, ms in self.parts.items())

    @property
    def limit(self) -> str:
        """The longest part."""
        return max(self.parts, key=self.parts.get)

    @property
    def shared(self) -> bool:
        """Whether data devices train as well."""
        return bool(self.preparing) and self.preparing + len(self.rows) > self.devices

    @property
    def shares(self) -> tuple[float, ...]:
        """For `MirroredDataModelSplitStrategy(shares=...)`."""
        return tuple(round(rows / sum(self.rows), 4) for rows in self.rows)

    @property
    def flags(self) -> str:
        """Flags of the commands, with the first devices training and the last ones preparing."""
        count = len(self.rows)
        model = ",".join(map(str, range(count)))
        if not self.preparing and count == 1:
            return "OneDeviceStrategy"
        if not self.preparing:
            data = self.devices - 1
            return f"MirroredStrategy; or --data_gpu={data} --model_gpu={model} --shares=auto"
        data = ",".join(str(self.devices - 1 - i) for i in range(self.preparing))
        shares = f" --shares={','.join(f'{share:g}' for share in self.shares)}"
        return f"--data_gpu={data} --model_gpu={model}{shares if self.shared else ''}"


def layouts(work: Work, devices: int) -> list[Layout]:
    """Every layout of up to `devices` devices that leaves each a row, the fastest first."""
    if devices < 1:
        raise ValueError(f"at least one device is needed, got devices={devices}")
    found = [_in_step(work, 1)]
    if 1 < devices <= work.rows:
        found.append(_in_step(work, devices))
    for preparing in range(1, devices):
        if devices - preparing <= work.rows:
            found.append(_split(work, preparing, devices))
        if devices <= work.rows:
            found.append(best_shares(work, preparing, devices))
    # Where the host is the limit of several, the one that would be faster with a faster host.
    return sorted(found, key=lambda layout: (layout.step_ms, layout.without_host.step_ms))


def fed_by_one(work: Work) -> int | None:
    """How many model devices one data device keeps at work; None if it has nothing to do.

    They train a batch of all rows together; the data device prepares it.
    """
    if not work.preparing():
        return None
    most = work.rows
    for devices in range(1, most + 1):
        if work.training(_most(work.rows, devices)) < work.preparing():
            return devices - 1
    return most


def _in_step(work, devices):
    """The front end in the step: all devices do both, each on its rows."""
    rows = _even(work.rows, devices)
    share = rows[0] / work.rows
    doing = work.front_end_fixed + work.front_end * share + work.training(rows[0])
    count = f"{devices} do both" if devices > 1 else "1 device"
    return Layout(
        name=f"{count}, front end in the step",
        preparing=0,
        rows=rows,
        devices=devices,
        parts={
            HOST: work.host,
            LINKS: work.copy * share,
            TRAINING: doing + work.all_reduce(devices),
        },
        gap=work.gap,
        gap_ahead=work.gap_ahead if len(rows) > 1 else 0.0,
    )


def _split(work, preparing, devices):
    training = devices - preparing
    rows = _even(work.rows, training)
    return Layout(
        name=f"{_verb(preparing, 'prepare')}, {_verb(training, 'train')}",
        preparing=preparing,
        rows=rows,
        devices=devices,
        parts={
            HOST: work.host,
            PREPARING: work.preparing() / preparing,
            LINKS: work.transfer / min(preparing, training),
            TRAINING: work.training(rows[0]) + work.all_reduce(training),
        },
        gap=work.gap,
        gap_ahead=work.gap_ahead if len(rows) > 1 else 0.0,
    )


def best_shares(work: Work, preparing: int, devices: int) -> Layout:
    """The data devices train some rows as well: as many as make all take the same time.

    `devices` train, the last `preparing` of them prepare too.  With several data devices one of
    them prepares in every step, and all wait for it when the gradients are added up.  A data device
    that trains much gains little from copies ahead, so none are counted.
    """
    in_turns = dataclasses.replace(work, copies_ahead=False).preparing()
    best = None
    for few in range(1, work.rows // devices + 1):
        others = _even(work.rows - preparing * few, devices - preparing)
        layout = Layout(
            name=f"{_verb(preparing, 'prepare')}, {devices} train: "
            f"{':'.join(map(str, (*others, *[few] * preparing)))} rows",
            preparing=preparing,
            rows=(*others, *[few] * preparing),
            devices=devices,
            parts={
                HOST: work.host,
                PREPARING: in_turns + work.training(few) + work.all_reduce(devices),
                LINKS: work.transfer * (1 - few / work.rows) / preparing,
                TRAINING: work.training(others[0]) + work.all_reduce(devices),
            },
            gap=work.gap,
            gap_ahead=work.gap_ahead,
        )
        if best is None or layout.step_ms < best.step_ms:
            best = layout
    return best


def _even(rows, devices):
    """As even as whole rows can be, the largest first."""
    return tuple(rows // devices + (i < rows % devices) for i in range(devices))


def _most(rows, devices):
    return math.ceil(rows / devices)


def _verb(count, verb):
    return f"{count} {verb}{'s' if count == 1 else ''}"
