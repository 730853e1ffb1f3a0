"""Work that takes a given time on a device."""

import contextlib
import itertools
import numbers

import tensorflow as tf

from dual_device_strategy.emulation import starting

_LONGEST_MS = 1_000_000
_calls = itertools.count(1)


def timed(x, ms):
    """Returns `x`, and takes `ms` milliseconds on the device it runs on.

    On an emulated GPU it holds the compute stream for that long, while the caller goes on; later
    work on that stream waits. On a CPU device it sleeps. Neither uses a core meanwhile, and neither
    takes memory: the tensors returned share that of `x`.

    Works eagerly, in a tf.function (on every call, for every call in it) and in tf.data functions.
    Like any op, it is left out of a graph that does not use what it returns. Its gradient is the
    identity, and takes no time. Strings are held on the CPU.

    Args:
      x: a tensor, or a nested structure of them, held together once.
      ms: a number from 0 on, or a scalar tensor, so that each step can take a time of its own
        without another trace. A tensor's value is read in the op's turn; below 0 it counts as 0.
    """
    _, ops = starting.loaded()
    host_us, device_ms = [], []
    if isinstance(ms, numbers.Real):
        if not 0 <= ms < _LONGEST_MS:
            raise ValueError(f"ms must be from 0 to {_LONGEST_MS}, got ms={ms}")
        # An int32 made in a function lives in host memory on GPUs as well; else this says so.
        with tf.device("/CPU:0") if tf.executing_eagerly() else contextlib.nullcontext():
            host_us.append(tf.constant(round(ms * 1000), tf.int32))
    else:
        device_ms.append(tf.cast(ms, tf.float32))
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(x)]
    if not leaves:
        raise ValueError(f"timed() needs a tensor to hold, got {x!r}")
    # Each call traced is one of its own; the eager ones share their kernel.
    call = 0 if tf.executing_eagerly() else next(_calls)
    held = ops.timed_in_place(tensors=leaves, host_us=host_us, device_ms=device_ms, call=call)
    return tf.nest.pack_sequence_as(x, held)


@tf.RegisterGradient("TimedInPlace")
def _gradient(op, *gradients):
    return [*gradients, *[None] * (len(op.inputs) - len(gradients))]
