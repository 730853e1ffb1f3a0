"""Notes of when a batch was where, taken inside the functions that make and prepare batches."""

import itertools

import tensorflow as tf

from dual_device_strategy.hop_functions import trace

Moment = int
HOST_BEGIN, HOST_END, BEGUN, PREPARED = range(4)
_KINDS = [tf.int64, tf.int64, tf.float64]  # a moment, a batch, a time
_numbers = itertools.count()


class Notes:
    """Notes that moments of batches have come, from graphs on any device.

    They are in a queue on the host that is found by its name.  A graph on a GPU that captured its
    handle would call the host from the host: to go on after the call, the GPU's part waits for
    something to be copied to it, behind a batch that is on its way.
    """

    def __init__(self, host: str):
        self._host, self._name = host, f"notes_{next(_numbers)}"
        with tf.device(host):
            self._kept = self._queue()
            self._target = tf.constant(host)

    def _queue(self):
        return tf.raw_ops.FIFOQueueV2(component_types=_KINDS, shared_name=self._name)

    def here(self, moment: Moment, batch: tf.Tensor, tensors: list[tf.Tensor]) -> tf.Operation:
        """Notes on the host that these tensors are there."""
        with tf.control_dependencies(tensors):
            note = [tf.constant(moment, tf.int64), batch, tf.timestamp()]
            return tf.raw_ops.QueueEnqueueV2(handle=self._queue(), components=note)

    def once_there(self, moment: Moment, batch: tf.Tensor, tensors: list[tf.Tensor]) -> tf.Tensor:
        """Notes when these tensors are there, by bringing a number from one of them to the host."""

        def note(batch, _):
            with tf.control_dependencies([self.here(moment, batch, [])]):
                return tf.constant("")  # something it has to return, and this is not copied

        traced = trace(note, tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32))
        (done,) = tf.raw_ops.RemoteCall(
            target=self._target, args=[batch, _number_of(tensors)], Tout=[tf.string], f=traced
        )
        return done

    def all(self) -> dict[Moment, dict[int, float]]:
        found = {moment: {} for moment in (HOST_BEGIN, HOST_END, BEGUN, PREPARED)}
        with tf.device(self._host):
            for _ in range(int(tf.raw_ops.QueueSizeV2(handle=self._kept))):
                moment, batch, when = tf.raw_ops.QueueDequeueV2(
                    handle=self._kept, component_types=_KINDS
                )
                found[int(moment)][int(batch)] = float(when)
        return found


def _number_of(tensors):
    """A number that is there as soon as the tensors are; 0 if all of them are empty."""
    numbers = [t for t in tensors if t.dtype.is_floating or t.dtype.is_integer]
    kept = [tensor for tensor in numbers if tensor.shape.num_elements() != 0]
    with tf.control_dependencies(tensors):
        if not kept:
            return tf.zeros([])
        return tf.cast(tf.reduce_sum(tf.reshape(kept[-1], [-1])[:1]), tf.float32)
