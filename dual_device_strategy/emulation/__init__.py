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
a GPU would compute. (Assigning a variable only passes a pointer, and waits for nothing.) Give the
parts of a program their times with timed().

Where it differs from hardware, all of it:

    here                                         on hardware
    -----------------------------------------    -------------------------------------------------
    An ordinary op takes the host's time and     A kernel takes the GPU's, and the caller goes on.
    holds its caller until it is done.
    All links are alike; a transfer of up to     Links differ. A card with one copy engine a
    64 KB goes between the packets of others.    direction makes a short transfer wait.
    peer_access=False: what goes between GPUs    The driver sends it in pieces, which overlap: up
    crosses both links one after the other.      to twice as fast as that.
    From pageable host memory: its thread is     The same for what TensorFlow's allocator made. For
    held for bytes / pageable_gbps, then the     NumPy's arrays the driver does it, and may wait
    transfer begins.                             for the stream; up to 64 KB it holds nobody.
    To pageable host memory: as to pinned.       The caller is held until the bytes are there.
    Pinned memory is any memory, marked.         Locked in RAM; a system may limit it.
    Memory does not fragment; growth and         Both do as TensorFlow says. Limits and splits
    set_memory_growth change nothing.            hold here and there.
    Memory that is exhausted is waited for       TensorFlow waits for ten seconds.
    for one second.
    Convolutions stay channels-last. All other   Where it pays they become channels-first.
    graph optimizers run, on Keras's fit, too.
    cuDNN is missing: Keras's LSTM and GRU do    Keras chooses cuDNN's; tf.raw_ops.CudnnRNN runs.
    not choose it; by name it is refused.
    NCCL is missing: MirroredStrategy reduces    NCCL.
    on one device; by name it is refused.
    XLA is missing: Keras's compile() does not   Keras chooses XLA, jit_compile=True compiles.
    choose it; jit_compile=True is refused.
    No unified memory, no MIG, no other program  All of them.
    on the device.

`python -m dual_device_strategy.validate --on_hardware --report=FILE` tries what of this matters to
a training on two real GPUs. XLA is also tested on logical CPUs.
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
