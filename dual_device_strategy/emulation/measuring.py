"""How much the emulated GPUs worked, and how much memory they hold."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence

from dual_device_strategy.emulation import starting


@dataclasses.dataclass(frozen=True)
class DeviceUse:
    """The use of one emulated GPU over a stretch of time.

    `compute_seconds` is how long the device computed, `copy_seconds` how long its links carried
    data (each direction counts); `busy` and `copy` are their shares of `seconds`.  `bytes_pageable`
    are those of `bytes_in` that came from host memory that is not pinned.  Memory is in bytes: what
    tensors held at the end (live) and at most (peak).
    """

    seconds: float
    compute_seconds: float
    copy_seconds: float
    bytes_in: int
    bytes_out: int
    bytes_pageable: int
    memory_live: int
    memory_peak: int
    memory_limit: int

    @property
    def busy(self) -> float:
        return self.compute_seconds / self.seconds if self.seconds else 0.0

    @property
    def copy(self) -> float:
        return self.copy_seconds / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        return (
            f"busy {self.busy:.1%}, copying {self.copy:.1%}, in {self.bytes_in / 1e6:.2f} MB, "
            f"out {self.bytes_out / 1e6:.2f} MB, memory {self.memory_live / 1e6:.2f} MB live, "
            f"{self.memory_peak / 1e6:.2f} MB at most"
        )


class Measurement(Sequence):
    """The use of each emulated GPU, from the beginning of a measurement to its end, or until now.

    `use[i]` is that of `tf.config.list_physical_devices("GPU")[i]`, whatever was made visible or
    split since start() made them.
    """

    def __init__(self):
        self._library, _ = starting.loaded()
        self._watches = [self._library.begin_watch(gpu) for gpu in range(_gpus())]
        self._before = [self._library.stats(gpu) for gpu in range(_gpus())]
        self._begin = time.perf_counter()
        self._result = None

    def end(self) -> None:
        self._result = self._uses()
        for watch in self._watches:
            self._library.end_watch(watch)

    @property
    def seconds(self) -> float:
        return self[0].seconds

    def __getitem__(self, gpu):
        return (self._result or self._uses())[gpu]

    def __len__(self) -> int:
        return len(self._before)

    def __str__(self) -> str:
        uses = list(self)
        return "\n".join(
            [f"{uses[0].seconds:.3f} s"] + [f"GPU:{gpu} {use}" for gpu, use in enumerate(uses)]
        )

    def _uses(self) -> list[DeviceUse]:
        seconds = time.perf_counter() - self._begin
        uses = []
        for gpu, (before, watch) in enumerate(zip(self._before, self._watches, strict=True)):
            now = self._library.stats(gpu)
            peak = self._library.watched_peak(watch)
            uses.append(_use(seconds, now, before, peak))
        return uses


@contextlib.contextmanager
def measure() -> Iterator[Measurement]:
    """Measures the emulated GPUs' use during a block.

        with emulation.measure() as use:
            train()
        print(use[1].busy, use[1].bytes_in, use[1].memory_peak, use.seconds)

    Devices go on working after a call has returned: end the block with something that waits for the
    last result, such as its numpy(), or the figures are incomplete.
    """
    if not starting.active():
        raise RuntimeError("There are no emulated GPUs to measure: call emulation.start() first.")
    measurement = Measurement()
    try:
        yield measurement
    finally:
        measurement.end()


def stats(gpu: int) -> DeviceUse:
    """The use of an emulated GPU since the emulation was started."""
    if not 0 <= gpu < _gpus():
        raise ValueError(f"There is no emulated GPU {gpu}, there are {_gpus()}")
    library, _ = starting.loaded()
    now = library.stats(gpu)
    return _use(time.perf_counter() - starting.active().started, now, type(now)(), now.memory_peak)


def _gpus() -> int:
    emulation = starting.active()
    return emulation.gpus if emulation else 0


def _use(seconds: float, now, before, memory_peak: int) -> DeviceUse:
    return DeviceUse(
        seconds=seconds,
        compute_seconds=(now.compute_ns - before.compute_ns) / 1e9,
        copy_seconds=(now.copy_ns - before.copy_ns) / 1e9,
        bytes_in=now.bytes_in - before.bytes_in,
        bytes_out=now.bytes_out - before.bytes_out,
        bytes_pageable=now.bytes_pageable - before.bytes_pageable,
        memory_live=now.memory_live,
        memory_peak=memory_peak,
        memory_limit=now.memory_limit,
    )
