"""Boxes: batches that stay on a device while handles of them travel.

A box is a variable on the batch's device that holds the batch's tensors.  Its handle is a scalar in
host memory, so an ordinary tf.data pipeline on the host can hold, order and pass on batches that
never leave their devices.  A box has no name; it is freed with its last handle.

Boxing and unboxing pass pointers: no bytes are copied, and no work is queued on the device.
"""

from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import compat


def boxed(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """The handle of a new box with `tensors`, on the device of the function that calls this."""
    contents = tf.raw_ops.OptionalFromValue(components=tensors)
    handle = compat.anonymous_variable(tf.variant)
    filled = tf.raw_ops.AssignVariableOp(resource=handle, value=contents)
    with tf.control_dependencies([filled]):
        return tf.identity(handle)


def unboxed(handle: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    """The tensors of a box, on the box's own device."""
    contents = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.variant)
    return tf.raw_ops.OptionalGetValue(
        optional=contents,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )


def sealed(handle: tf.Tensor) -> tf.Tensor:
    """A handle that any device of a tf.function may use, not only the handle's own.

    In a graph, TensorFlow places an op where its resources come from.  So a handle cannot go from
    an iterator on the host to the device of its box.  Sealed in an optional it can: only the seal
    is copied.
    """
    return tf.raw_ops.OptionalFromValue(components=[handle])


def unsealed(seal: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    """The tensors of a sealed box; call it on the box's own device."""
    (handle,) = tf.raw_ops.OptionalGetValue(
        optional=seal, output_types=[tf.resource], output_shapes=[[]]
    )
    return unboxed(handle, specs)
