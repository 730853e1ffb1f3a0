"""Work that takes a given time."""

import tensorflow as tf

from dual_device_strategy.emulation import starting


def timed(x, ms):
    """Returns `x`, and takes `ms` milliseconds on the device it runs on.

    On an emulated GPU it holds the compute stream for that long, while the caller goes on: what
    comes later on that stream waits. On a CPU device it sleeps. Neither uses a core meanwhile, and
    neither takes memory: the tensors returned share `x`'s.

    Works eagerly, in a tf.function (on every call, for every call in it) and in tf.data functions.
    Like any op, it is left out of a graph that does not use what it returns. Its gradient is the
    identity, and takes no time. Strings are held on the CPU.

    Args:
      x: a tensor, or a nested structure of them, held together once.
      ms: a number from 0 on, or a scalar tensor, so that each step can take a time of its own.
    """
    _, ops = starting.loaded()
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(x)]
    if not leaves:
        raise ValueError(f"timed() needs a tensor to hold, got {x!r}")
    held = ops.timed_in_place(tensors=leaves, ms=tf.cast(ms, tf.float32))
    return tf.nest.pack_sequence_as(x, held)


@tf.RegisterGradient("TimedInPlace")
def _gradient(op, *gradients):
    return [*gradients, None]
