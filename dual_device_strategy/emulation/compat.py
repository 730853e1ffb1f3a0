"""Private TensorFlow of the emulated GPUs; see `dual_device_strategy/compat.py`."""

from tensorflow.python.distribute import cross_device_ops, mirrored_strategy
from tensorflow.python.framework import load_library


def load_pluggable_device_library(path: str) -> None:
    load_library.load_pluggable_device_library(path)


def mirror_without_nccl() -> None:
    """Makes MirroredStrategy's default on GPUs, which is NCCL, reduction on one of them.

    Not TensorFlow's ring: its second use in a process fails on a name the first has taken.
    """
    extended = mirrored_strategy.MirroredExtended
    original = extended._make_collective_ops_with_fallbacks

    def make_collective_ops(self):
        collective_ops = original(self)
        if all("gpu" in device.lower() for device in self._devices):
            return cross_device_ops.ReductionToOneDevice()
        return collective_ops

    extended._make_collective_ops_with_fallbacks = make_collective_ops
