"""When a data device asked for its batches, and when it had prepared them; for `slots="auto"`."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import call_on_host

KEPT = 256


class PreparingTimes:
    """Notes of one data device, in variables on the host; they start no work on the device.

    Its batches are prepared one after the other.  So when one is prepared, the newest that was
    asked for is meant.
    """

    def __init__(self, host: str):
        self._count = compat.host_variable(tf.constant(0, tf.int64), host)
        nothing = tf.zeros([KEPT], tf.float64)
        self._asked, self._made = (compat.host_variable(nothing, host) for _ in range(2))

    def noting_asked(self, get_next: Callable) -> Callable:
        """`get_next`, which also notes when it is called; on the host."""

        def noted(iterator, types, shapes):
            now = tf.IndexedSlices(tf.timestamp(), self._count % KEPT)
            with tf.control_dependencies([self._asked.scatter_update(now)]):
                counted = self._count.assign_add(1, read_value=False)
            with tf.control_dependencies([counted]):
                return get_next(iterator, types, shapes)

        return noted

    def note_made(self, made: Sequence[tf.Tensor]) -> None:
        """Notes when the function that makes `made` is done; called on the data device.

        A GPU may still be computing then: its work is only queued.
        """

        def note():
            now = tf.IndexedSlices(tf.timestamp(), (self._count - 1) % KEPT)
            with tf.control_dependencies([self._made.scatter_update(now)]):
                return tf.identity(self._count.handle)

        with tf.control_dependencies(made):
            call_on_host(self._count.device, note)

    def now(self) -> int:
        """How many batches it has asked for so far."""
        return int(self._count)

    def since(self, before: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """When it asked for the batches at `places` after `before`, and had made them, in s."""
        at = (before + places) % KEPT
        return self._asked.numpy()[at], self._made.numpy()[at]
