"""How busy the devices are and how much memory they hold, sampled in the background.

Real GPUs are asked through nvidia-ml-py for their utilisation and through TensorFlow for what its
tensors hold; emulated ones have counters for both.  A CPU device has no figures of its own.

A driver's utilisation only says that some kernel ran, not that the device could do no more: to
see whether training waits, look at the wait share of `dual_device_strategy.monitor`.
"""

import dataclasses
import os
import statistics
import threading
import time
from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import compat, topology
from dual_device_strategy.devices.names import kind_and_index, physical_gpu


@dataclasses.dataclass(frozen=True)
class Sample:
    """The use of one device at a moment, or over a time; None if unknown.

    Attributes:
      busy: share of the time since the previous sample in which the device computed.
      memory: bytes that tensors hold.
      peak: the most bytes that tensors have held so far.
      card: bytes in use on the whole card, by all programs.
    """

    busy: float | None = None
    memory: int | None = None
    peak: int | None = None
    card: int | None = None


class DeviceSampler:
    """A background thread that samples devices every `period` seconds.

    It runs from `start()` to `stop()`; then, or meanwhile, `summary()` has the figures.  `absent`
    gives, by device, the reason why there is nothing to sample.
    """

    def __init__(self, devices: Sequence[str], period: float = 0.5):
        self.devices = list(dict.fromkeys(devices))
        self.period = period
        self.samples: dict[str, list[tuple[float, Sample]]] = {name: [] for name in self.devices}
        self.absent: dict[str, str] = {}
        self._sources = {}
        for name in self.devices:
            source = _source(name)
            if isinstance(source, str):
                self.absent[name] = source
            else:
                self._sources[name] = source
        self._stopped = threading.Event()
        self._thread = None

    def start(self) -> None:
        before = {name: len(samples) for name, samples in self.samples.items()}
        self.sample()  # so that the first share does not include the time before the start
        for name, samples in self.samples.items():
            del samples[before[name] :]
        self._stopped.clear()
        if self._sources and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="device use", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self.sample()

    def sample(self) -> dict[str, Sample]:
        """Takes a sample of each device that has figures, and returns them by device."""
        now = time.monotonic()
        uses = {}
        for name, source in list(self._sources.items()):
            try:
                uses[name] = source()
            except (RuntimeError, topology.UnknownTopologyError) as error:
                self.absent[name] = f"{error}"
                del self._sources[name]
                continue
            self.samples[name].append((now, uses[name]))
        return uses

    def summary(self, since: float = 0.0) -> dict[str, Sample]:
        """By device: mean busy share, last memory and largest peak of the samples since a time."""
        result = {}
        for name, samples in self.samples.items():
            uses = [use for when, use in list(samples) if when >= since]
            busy = [use.busy for use in uses if use.busy is not None]
            result[name] = Sample(
                busy=statistics.fmean(busy) if busy else None,
                memory=uses[-1].memory if uses else None,
                peak=max((use.peak for use in uses if use.peak is not None), default=None),
                card=max((use.card for use in uses if use.card is not None), default=None),
            )
        return result

    def busy(self, name: str, samples: int = 5) -> float | None:
        """Mean busy share of a device over its latest samples; None if unknown."""
        shares = [use.busy for _, use in self.samples.get(name, [])[-samples:]]
        shares = [share for share in shares if share is not None]
        return statistics.fmean(shares) if shares else None

    def _run(self):
        while not self._stopped.wait(self.period):
            self.sample()


def free_memory(device: str) -> int | None:
    """Bytes of a GPU's memory that this program has never used so far; None if unknown.

    What the card has free says little: without memory growth TensorFlow's allocator takes nearly
    all of it at the start, and hands it out later.
    """
    kind, index = kind_and_index(device)
    if kind != "GPU":
        return None
    if emulation.active():
        use = emulation.stats(physical_gpu(index))
        return use.memory_limit - use.memory_peak
    limit = compat.allocator_limit(device)
    try:
        peak = tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
    except ValueError:  # an allocator without statistics
        return None
    return None if limit is None else max(0, limit - peak)


def total_memory(device: str) -> int | None:
    """Bytes of a GPU's memory that this program may use; None if unknown."""
    kind, index = kind_and_index(device)
    if kind != "GPU":
        return None
    if emulation.active():
        return emulation.stats(physical_gpu(index)).memory_limit
    return compat.allocator_limit(device)


def usable_cores() -> int:
    """The cores of the host that this process may use; all of them if the system does not say."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def _source(device):
    """A function that samples the device, or the reason why there is none."""
    kind, index = kind_and_index(device)
    if kind != "GPU":
        return "a CPU device has no figures of its use"
    physical = physical_gpu(index)
    if emulation.active():
        return _Emulated(physical)
    try:
        driver_index = topology.read_topology().gpus[physical].driver_index
    except (topology.UnknownTopologyError, IndexError) as unknown:
        return f"{unknown}"
    return _Driver(f"GPU:{index}", driver_index)


class _Emulated:
    def __init__(self, gpu):
        self._gpu = gpu
        self._before = emulation.stats(gpu)
        self._busy = None

    def __call__(self) -> Sample:
        now, before = emulation.stats(self._gpu), self._before
        seconds = now.seconds - before.seconds
        if seconds >= 0.1:  # a shorter time would show only some of a step
            self._busy = (now.compute_seconds - before.compute_seconds) / seconds
            self._before = now
        return Sample(self._busy, now.memory_live, now.memory_peak, now.memory_live)


class _Driver:
    def __init__(self, device, driver_index):
        import pynvml  # it is installed: the topology was just read with it

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._device = device
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(driver_index)

    def __call__(self) -> Sample:
        try:
            card = self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100
        except self._nvml.NVMLError as error:
            raise RuntimeError(f"the NVIDIA driver did not answer: {error}") from None
        try:
            held = tf.config.experimental.get_memory_info(self._device)
        except ValueError:  # an allocator without statistics
            return Sample(busy, card, card, card)
        return Sample(busy, held["current"], held["peak"], card)
