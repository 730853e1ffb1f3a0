"""Configuring the data device and the model device, before TensorFlow starts."""

import dataclasses
import os
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat, emulation
from dual_device_strategy.devices import choosing

# If set, it decides whether memory grows on every GPU of the process, over the program's choice.
GROWTH_VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"


@dataclasses.dataclass(frozen=True)
class Device:
    """One of the two devices: what it is, and its name in this program.

    Attributes:
      role: "data" or "model".
      logical: the name in this program, such as "GPU:1".
      physical: the index in `tf.config.list_physical_devices` of its kind, which `data_gpu` and
        `model_gpu` count by.
      name: the name of the hardware, or of what stands in for it.
      memory: the memory policy in words.
    """

    role: str
    logical: str
    physical: int
    name: str
    memory: str

    @property
    def kind(self) -> str:
        return self.logical.split(":")[0]

    def __str__(self) -> str:
        return (
            f"{self.role} device {self.logical} "
            f"(physical {self.kind} {self.physical}, {self.name}, {self.memory})"
        )


@dataclasses.dataclass(frozen=True)
class Devices:
    """The two devices that `configure_devices` set up, and the reason for choosing them.

    Use them with `DataModelSplitStrategy(devices.data_device, devices.model_device)`.  Where lists
    were asked for, both are tuples, for `MirroredDataModelSplitStrategy`.
    `str(devices)` is one line for a log.
    """

    data: Device | tuple[Device, ...]
    model: Device | tuple[Device, ...]
    reason: str

    @property
    def several(self) -> bool:
        """Whether lists were asked for."""
        return isinstance(self.data, tuple)

    @property
    def data_device(self) -> str | tuple[str, ...]:
        return tuple(d.logical for d in self.data) if self.several else self.data.logical

    @property
    def model_device(self) -> str | tuple[str, ...]:
        return tuple(d.logical for d in self.model) if self.several else self.model.logical

    def __str__(self) -> str:
        devices = [*self.data, *self.model] if self.several else [self.data, self.model]
        return "; ".join(map(str, [*devices, self.reason]))


def configure_devices(
    data_gpu: int | Sequence[int] | None = None,
    model_gpu: int | Sequence[int] | None = None,
    *,
    data_gpu_memory_mb: int | None = None,
    model_gpu_memory_mb: int | None = None,
) -> Devices:
    """Chooses the two devices and configures them; call it first in a program.

        devices = configure_devices(data_gpu=1, model_gpu=0)
        strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)

    `data_gpu` and `model_gpu` are physical indices, as in `tf.config.list_physical_devices("GPU")`
    (which counts only what CUDA_VISIBLE_DEVICES leaves).  `devices.data_device` and
    `devices.model_device`, which the strategy takes, are the logical names those GPUs get in this
    program.  The two differ because only the chosen GPUs become visible, and TensorFlow numbers
    the visible ones from 0, in physical order: `configure_devices(data_gpu=3, model_gpu=2)` on a
    machine of four makes physical GPU 3 "GPU:1" and physical GPU 2 "GPU:0".

    Without indices, two GPUs are chosen: of more than two, the pair with the best link where
    nvidia-ml-py knows the links (NVLink, then the same PCIe switch, then the same socket), else
    the first two.  The card with more memory trains; of equal ones the faster; where they are
    alike, or unknown, the lower index, which is TensorFlow's default device GPU:0.  With one GPU,
    data is prepared on the host CPU; with none, there are two logical CPUs.  The reason is logged.

    Lists of indices set up several devices of each kind, and the result has tuples:
    `configure_devices(data_gpu=[6, 7], model_gpu=[0, 1, 2, 3])`.  A GPU in both lists is to train
    a share of the rows as well.  A limit then holds for every GPU of its list.

    Memory grows as needed, unless a limit in megabytes is given for a device.  TensorFlow drops
    memory growth from all GPUs once one has a limit, unless TF_FORCE_GPU_ALLOW_GROWTH is set in the
    environment.  So with one limit, this function sets it, and memory grows on both GPUs, on one of
    them up to its limit.  With limits on both, each takes its limit at the start.  On emulated GPUs
    the limits are the emulation's, and memory grows up to them.

    Returns:
      The two devices, which are also logged in one line.

    Raises:
      ValueError: for indices or limits that do not fit the GPUs that exist.
      RuntimeError: when TensorFlow's runtime has started already, or a GPU was configured by
        another call.  Nothing has been changed when an error is raised.
    """
    gpus = tf.config.list_physical_devices("GPU")
    limits = {"data": data_gpu_memory_mb, "model": model_gpu_memory_mb}
    for role, limit in limits.items():
        if limit is not None and limit < 1:
            raise ValueError(
                f"{role}_gpu_memory_mb={limit} is not an amount of memory: give megabytes, such as "
                f"{role}_gpu_memory_mb=2048, or leave it out to let memory grow."
            )
    if isinstance(data_gpu, Sequence) or isinstance(model_gpu, Sequence):
        return _configure_several(data_gpu, model_gpu, limits, gpus)
    if data_gpu is None and model_gpu is None:
        pair, reason = choosing.choose(gpus)
    else:
        pair, reason = choosing.check(data_gpu, model_gpu, gpus), "as asked"
    for role, index in zip(limits, pair, strict=True):
        if limits[role] is not None and index is None:
            raise ValueError(
                f"{role}_gpu_memory_mb={limits[role]} was given, but the {role} device is a CPU "
                f"({reason}) and TensorFlow limits memory on GPUs only: leave the limit out."
            )
    _check_not_configured(data_gpu, model_gpu, [gpus[i] for i in pair if i is not None])

    if pair == (None, None):
        _split_host_cpu()
    else:
        _set_visible_and_memory(gpus, pair, tuple(limits.values()))
    devices = Devices(
        *(_describe(role, gpus, pair, limits[role]) for role in ("data", "model")), reason
    )
    logging.info("%s", devices)
    return devices


def _configure_several(data_gpu, model_gpu, limits, gpus) -> Devices:
    lists = choosing.check_several(data_gpu, model_gpu, gpus)
    asked = [*lists[0], *lists[1]]
    _check_not_configured(data_gpu, model_gpu, [gpus[i] for i in sorted(set(asked))])
    of_each = [limits["data"]] * len(lists[0]) + [limits["model"]] * len(lists[1])
    # Of a GPU in both lists, the model's limit counts.
    _set_visible_and_memory(gpus, tuple(asked), tuple(of_each))
    devices = Devices(
        *(
            tuple(
                _describe_gpu(role, gpus, visible=asked, index=index, limit=limits[role])
                for index in indices
            )
            for role, indices in zip(limits, lists, strict=True)
        ),
        "as asked",
    )
    logging.info("%s", devices)
    return devices


def gpu_name(gpu: tf.config.PhysicalDevice) -> str:
    """The name of the hardware."""
    if emulation.active():
        return "emulated GPU"
    return tf.config.experimental.get_device_details(gpu).get("device_name", "unnamed GPU")


def _check_not_configured(data_gpu, model_gpu, chosen):
    if compat.runtime_started():
        raise RuntimeError(
            f"configure_devices({choosing.named(data_gpu, model_gpu)}) came after "
            "TensorFlow's runtime had started, and devices are fixed from then on: the first "
            "tensor, variable, dataset, Keras layer or tf.config.list_logical_devices() starts "
            "it, so call configure_devices before any of them, first in the program."
        )
    for gpu in chosen:
        if tf.config.get_logical_device_configuration(gpu) is not None:
            raise RuntimeError(
                f"{gpu.name} has a logical device configuration already, and TensorFlow cannot "
                "take it back: configure_devices sets memory itself, so call it once and leave "
                "out tf.config.set_logical_device_configuration for GPUs."
            )


def _split_host_cpu():
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) < 2:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )


def _set_visible_and_memory(gpus, pair, limits):
    limit_of = {
        index: limit for index, limit in zip(pair, limits, strict=True) if index is not None
    }
    tf.config.set_visible_devices([gpus[index] for index in sorted(limit_of)], "GPU")
    for index, limit in limit_of.items():
        if limit is None or emulation.active():
            tf.config.experimental.set_memory_growth(gpus[index], True)
        else:
            configuration = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
            tf.config.set_logical_device_configuration(gpus[index], [configuration])
        if limit is not None and emulation.active():
            emulation.set_memory_limit(index, limit)
    # TensorFlow forgets the growth asked for above as soon as any device, even a CPU, has a logical
    # configuration; the variable is the documented way to keep it.
    split = any(
        tf.config.get_logical_device_configuration(device) is not None
        for device in tf.config.list_physical_devices()
    )
    if split and None in limit_of.values():
        os.environ.setdefault(GROWTH_VARIABLE, "true")


def _describe(role, gpus, pair, limit):
    index = pair[role == "model"]
    if index is None:
        if pair == (None, None):
            logical = f"CPU:{int(role == 'model')}"
            return _cpu(role, logical, "logical CPU")
        return _cpu(role, "CPU:0", "host CPU")
    return _describe_gpu(
        role, gpus, visible=[i for i in pair if i is not None], index=index, limit=limit
    )


def _describe_gpu(role, gpus, *, visible, index, limit):
    # TensorFlow numbers the visible GPUs in physical order, whichever was named first.
    logical = f"GPU:{sorted(set(visible)).index(index)}"
    grows = os.environ.get(GROWTH_VARIABLE) != "false"
    if limit is None:
        memory = "memory grows" if grows else f"all memory, by {GROWTH_VARIABLE}=false"
    else:
        memory = f"memory limited to {limit} MB"
    return Device(
        role=role,
        logical=logical,
        physical=index,
        name=gpu_name(gpus[index]),
        memory=memory,
    )


def _cpu(role, logical, name):
    return Device(role=role, logical=logical, physical=0, name=name, memory="host memory")
