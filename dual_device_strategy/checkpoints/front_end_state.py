"""The variables that a front end writes to, as they were before each of the latest batches.

A front end works ahead of the loop: when a batch is consumed, a `tf.random.Generator` in the front
end has drawn for the next ones already.  So the values before each batch are kept beside the
batches, in a variable on the data device.  They are kept by reference; TensorFlow copies a value
only when the front end changes it.
"""

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop_functions import trace

_NOT_YET = -1  # instead of a count: values were given, and the front end has not begun


class FrontEndState:
    """Keeps those values for one distributed dataset; `written` are the variables' handles.

    The values are in shelves, one for each iterator: how many batches were begun, then the values
    before the newest of them, before the one before, and so on.
    """

    def __init__(self, written: list[tf.Tensor], device: str, places: int):
        self._written, self._device, self._places = written, device, places
        self.dtypes = [compat.variable_dtype(handle) for handle in written]
        specs = [tf.TensorSpec(None, dtype) for dtype in self.dtypes]
        self._new_shelf = trace(self._make_shelf, tf.TensorSpec([], tf.int64), *specs)

    def _read(self) -> list[tf.Tensor]:
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            for handle, dtype in zip(self._written, self.dtypes, strict=True)
        ]

    def _make_shelf(self, begun, *values):
        with tf.device(self._device):
            shelf = compat.anonymous_variable(tf.variant)
            kept = [tf.identity(begun), *[tf.identity(value) for value in values] * self._places]
            placed = tf.raw_ops.AssignVariableOp(
                resource=shelf, value=tf.raw_ops.OptionalFromValue(components=kept)
            )
            with tf.control_dependencies([placed]):
                return tf.identity(shelf)

    def new_shelf(self, given: list[tf.Tensor] | None) -> tf.Tensor:
        """A shelf for one iterator; with `given` values, the front end begins with them."""
        begun = tf.constant(0 if given is None else _NOT_YET, tf.int64)
        return self._new_shelf(begun, *(self._read() if given is None else given))

    def begin(self, shelf) -> None:
        """Sets the variables to the given values, if there are any.

        It does so when the first batch is prepared, not when a checkpoint is restored.  The
        checkpoint may have the variables as well, with the values at the save, ahead of the loop.
        """
        begun, *kept = self._kept_on(shelf)

        def set_all():
            kept_now = [tf.zeros_like(begun), *kept]
            with tf.control_dependencies(self._assign(kept[: len(self._written)])):
                tf.raw_ops.AssignVariableOp(
                    resource=shelf, value=tf.raw_ops.OptionalFromValue(components=kept_now)
                )
            return True

        tf.cond(begun < 0, set_all, lambda: False)

    def begin_if_not_begun(self, shelf) -> None:
        """For an iterator that had no batch left for this device: what follows begins there."""
        with tf.device(self._device):
            self.begin(shelf)

    def recorded(self, front_end):
        """`front_end`, which keeps the values on the shelf that it is given before it begins."""

        def transform(flat, shelf):
            begun, *kept = self._kept_on(shelf)
            now = self._read()
            kept = [begun + 1, *now, *kept[: -len(now)]]
            placed = tf.raw_ops.AssignVariableOp(
                resource=shelf, value=tf.raw_ops.OptionalFromValue(components=kept)
            )
            with tf.control_dependencies([placed]):
                return front_end(flat)

        return transform

    def _kept_on(self, shelf) -> list[tf.Tensor]:
        return tf.raw_ops.OptionalGetValue(
            optional=tf.raw_ops.ReadVariableOp(resource=shelf, dtype=tf.variant),
            output_types=[tf.int64, *self.dtypes * self._places],
            output_shapes=[tf.TensorShape(None)] * (1 + len(self.dtypes) * self._places),
        )

    def values_before(self, index: int, shelf: tf.Tensor) -> list[tf.Tensor]:
        """The values with which batch `index`, the first that was not consumed, begins or began.

        The front end may begin it meanwhile.  So the values are read before the shelf, which says
        whether it has.
        """
        count = len(self._written)
        with tf.device(self._device):
            begun, *kept = self._kept_on(shelf)
            if int(begun) == _NOT_YET:
                return kept[:count]
            now = self._read()
            begun, *kept = self._kept_on(shelf)
        back = int(begun) - 1 - index
        return now if back < 0 else kept[back * count : (back + 1) * count]

    def _assign(self, values: list[tf.Tensor]) -> list[tf.Operation]:
        return [
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            for handle, value in zip(self._written, values, strict=True)
        ]
