"""When a data device asked for its batches, and when it had them: prepared, or copied to it."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import call_on_host

KEPT = 256


class PreparingTimes:
    """For `slots="auto"`: notes of one data device, in variables on the host.

    They start no work on the device.

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
            with tf.control_dependencies([self._note(self._newest())]):
                return tf.identity(self._count.handle)

        with tf.control_dependencies(made):
            call_on_host(self._count.device, note)

    def _newest(self) -> tf.Tensor:
        return self._count - 1

    def _note(self, batch: tf.Tensor) -> tf.Operation:
        return self._made.scatter_update(tf.IndexedSlices(tf.timestamp(), batch % KEPT))

    def now(self) -> int:
        """How many batches it has asked for so far."""
        return int(self._count)

    def since(self, before: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """When it asked for the batches at `places` after `before`, and had made them, in s."""
        at = (before + places) % KEPT
        return self._asked.numpy()[at], self._made.numpy()[at]


class CopyTimes(PreparingTimes):
    """For traces: when a data device asked for the batches that are copied ahead of its front end,
    and when each was there.

    Two copies are under way at once.  They end in their order, because they share a link.
    """

    def __init__(self, host: str):
        super().__init__(host)
        self._ended = compat.host_variable(tf.constant(0, tf.int64), host)

    def _newest(self) -> tf.Tensor:
        return self._ended.read_value()

    def _note(self, batch: tf.Tensor) -> tf.Operation:
        with tf.control_dependencies([super()._note(batch)]):
            return self._ended.assign_add(1, read_value=False)
