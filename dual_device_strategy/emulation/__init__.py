"""Emulated GPUs: any TensorFlow program sees /GPU:0 and /GPU:1 on a machine without GPUs.

    from dual_device_strategy import emulation

    emulation.start(gpus=2, memory_mb=[2048, 1024], gbps=16)  # before TensorFlow's runtime runs
    with emulation.measure() as use:
        with tf.device("/GPU:1"):
            y = emulation.timed(tf.ones([1000]), ms=20)  # keeps GPU:1 computing for 20 ms
        y.numpy()
    print(use[1].busy, use[1].bytes_in, use[1].memory_peak)

What the figures mean. Each device has its own memory with a limit, streams that run beside the host
and each other, and links whose transfers take as long as their bandwidth and latency imply.
So overlap, stalls, memory and placement are what a machine with such devices would show.

What they do not mean. Ordinary ops compute, with the results of TensorFlow's CPU kernels, on the
host's cores and in the host's time, and hold the thread that calls them: no figure says how fast
a GPU would compute. Give the parts of a program their times with timed().

Not emulated: cuDNN, NCCL and XLA. Keras and MirroredStrategy, which choose them when they see GPUs,
are steered to what they use without; asked for by name (tf.raw_ops.CudnnRNN, NcclAllReduce,
tf.function(jit_compile=True)) they fail with a sentence. Nor channels-first convolutions, unified
memory, and the fragmentation of device memory, of which a device takes what its tensors take:
set_memory_growth changes nothing. The limits and splits of set_logical_device_configuration hold.
"""

from dual_device_strategy.emulation.measuring import DeviceUse, Measurement, measure, stats
from dual_device_strategy.emulation.starting import (
    Emulation,
    active,
    set_memory_limit,
    start,
    start_from_environment,
)
from dual_device_strategy.emulation.timing import timed

__all__ = [
    "DeviceUse",
    "Emulation",
    "Measurement",
    "active",
    "measure",
    "set_memory_limit",
    "start",
    "start_from_environment",
    "stats",
    "timed",
]
