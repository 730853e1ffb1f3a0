"""Starting the emulation, before TensorFlow starts its runtime."""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.emulation import building, controls, steering
from dual_device_strategy.emulation import compat as emulation_compat

MAX_GPUS = 8
_MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Emulation:
    """The emulation that was started: the memory of the devices then, and their links."""

    memory_mb: tuple[int, ...]
    gbps: float
    latency_us: float
    pageable_gbps: float
    peer_access: bool
    started: float  # on time.perf_counter()'s clock

    @property
    def gpus(self) -> int:
        return len(self.memory_mb)


_started: Emulation | None = None


@functools.cache
def loaded() -> tuple[controls.Controls, object]:
    """The library's controls and its TensorFlow ops, which need no emulated device."""
    path = building.library()
    # First, because TensorFlow wraps the ops that are registered while it loads a library.
    ops = tf.load_op_library(str(path))
    return controls.Controls(path), ops


def active() -> Emulation | None:
    """What start() started in this process, or None."""
    return _started


def start(
    gpus: int = 2,
    memory_mb: int | Sequence[int] = 4096,
    gbps: float = 16.0,
    latency_us: float = 10.0,
    *,
    pageable_gbps: float = 8.0,
    peer_access: bool = True,
) -> Emulation:
    """Gives this process emulated GPUs, which TensorFlow lists as its devices of type "GPU".

    Call it once, before anything starts TensorFlow's runtime (the first op does, or the first list
    of logical devices).

    Args:
      gpus: how many, 1 to 8.
      memory_mb: the memory of each in MiB, or a list with one figure per GPU.
      gbps: the bandwidth of each GPU's link to the host, in 10^9 bytes per second and direction.
        A transfer between two GPUs crosses both their links.
      latency_us: microseconds that every transfer takes beside.
      pageable_gbps: how fast a thread of the host copies batches that are not in pinned memory to
        where the link can read them, which comes before their transfer.
      peer_access: whether the GPUs reach each other's memory. If not, what goes from one to another
        crosses their links one after the other, by way of host memory.

    Raises:
      ValueError: for figures that do not describe a device.
      RuntimeError: if it is too late, if the emulation runs already, if the machine has real GPUs
        in TensorFlow's sight, or if the library cannot be built here.
    """
    global _started
    limits = _limits(gpus, memory_mb)
    for name, value, fine in (
        ("gbps", gbps, gbps > 0),
        ("latency_us", latency_us, latency_us >= 0),
        ("pageable_gbps", pageable_gbps, pageable_gbps > 0),
    ):
        if not fine or not math.isfinite(value):
            raise ValueError(f"{name} must be a positive number, got {name}={value}")
    if _started:
        raise RuntimeError(
            f"The emulation runs already, with {_started.gpus} GPUs: start it once per process."
        )
    if compat.runtime_started():
        raise RuntimeError(
            "TensorFlow's runtime runs already and takes no more devices: call emulation.start() "
            "before the first op and before listing logical devices."
        )
    if real := tf.config.list_physical_devices("GPU"):
        raise RuntimeError(
            f"This machine has {len(real)} real GPU(s) in TensorFlow's sight, and emulated ones "
            "cannot be added to them: hide them with CUDA_VISIBLE_DEVICES=-1, or use them."
        )
    library, _ = loaded()
    library.configure(
        [mb * _MEGABYTE for mb in limits],
        gbps=gbps,
        latency_us=latency_us,
        pageable_gbps=pageable_gbps,
        peer_access=peer_access,
    )
    emulation_compat.load_pluggable_device_library(str(building.library()))
    if library.register_with_tensorflow() == 0:
        raise RuntimeError("TensorFlow took none of the kernels for the emulated GPUs.")
    steering.steer(gpus)
    _started = Emulation(
        memory_mb=limits,
        gbps=gbps,
        latency_us=latency_us,
        pageable_gbps=pageable_gbps,
        peer_access=peer_access,
        started=time.perf_counter(),
    )
    logging.warning(
        "%d emulated GPUs (memory %s MB, links of %g GB/s and %g us): overlap, stalls, memory and "
        "placement are as on such a machine, the speed of computing is not.",
        gpus,
        ", ".join(map(str, limits)),
        gbps,
        latency_us,
    )
    return _started


def start_from_environment() -> Emulation | None:
    """Starts the emulation if EMULATED_GPUS asks for it: for programs that cannot be edited.

    EMULATED_GPUS is the number of GPUs (0, empty or unset: none). EMULATED_GPUS_MEMORY_MB ("2048"
    or "2048,1024"), EMULATED_GPUS_GBPS, EMULATED_GPUS_LATENCY_US, EMULATED_GPUS_PAGEABLE_GBPS and
    EMULATED_GPUS_PEER_ACCESS (1 or 0) are start()'s other arguments.
    Does nothing if the emulation runs already.
    """
    if _started or os.environ.get("EMULATED_GPUS", "") in ("", "0"):
        return _started
    arguments = {"gpus": _figure("EMULATED_GPUS", int)}
    if os.environ.get("EMULATED_GPUS_MEMORY_MB"):
        memory = _figure(
            "EMULATED_GPUS_MEMORY_MB", lambda text: [int(part) for part in text.split(",")]
        )
        arguments["memory_mb"] = memory if len(memory) > 1 else memory[0]
    for argument in ("gbps", "latency_us", "pageable_gbps"):
        name = f"EMULATED_GPUS_{argument.upper()}"
        if os.environ.get(name):
            arguments[argument] = _figure(name, float)
    if os.environ.get("EMULATED_GPUS_PEER_ACCESS"):
        arguments["peer_access"] = bool(_figure("EMULATED_GPUS_PEER_ACCESS", int))
    return start(**arguments)


def set_memory_limit(gpu: int, memory_mb: int) -> None:
    """Changes the memory of an emulated GPU, after start() and before TensorFlow's runtime runs."""
    if not _started or not 0 <= gpu < _started.gpus:
        have = f"GPUs 0 to {_started.gpus - 1}" if _started else "none: call start() first"
        raise ValueError(f"There is no emulated GPU {gpu}, there are {have}")
    if not _is_count(memory_mb):
        raise ValueError(f"memory_mb must be a positive integer, got memory_mb={memory_mb!r}")
    if compat.runtime_started():
        raise RuntimeError(
            "TensorFlow's runtime runs already, and the memory of its devices is settled: call "
            "emulation.set_memory_limit() before the first op, or start() with another memory_mb."
        )
    loaded()[0].set_memory_limit(gpu, memory_mb * _MEGABYTE)


def _limits(gpus: int, memory_mb: int | Sequence[int]) -> tuple[int, ...]:
    if not _is_count(gpus) or gpus > MAX_GPUS:
        raise ValueError(f"There can be 1 to {MAX_GPUS} emulated GPUs, got gpus={gpus!r}")
    limits = tuple(memory_mb) if isinstance(memory_mb, Sequence) else (memory_mb,) * gpus
    if len(limits) != gpus:
        raise ValueError(
            f"memory_mb must be one figure, or one for each of the {gpus} GPUs, got "
            f"{len(limits)}: memory_mb={memory_mb!r}"
        )
    if not all(map(_is_count, limits)):
        raise ValueError(f"memory_mb must be of positive integers, got memory_mb={memory_mb!r}")
    return limits


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _figure(name: str, parse):
    text = os.environ[name]
    try:
        return parse(text)
    except ValueError:
        raise ValueError(f"{name} in the environment is not a figure: {text!r}") from None
