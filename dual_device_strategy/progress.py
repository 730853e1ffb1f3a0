"""Counting batches on their way, for warming up and for whoever watches the slots."""

import dataclasses
import time
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat


@dataclasses.dataclass(frozen=True)
class Stopwatch:
    """Adds up, inside a function on the host, how long something took."""

    begun: tf.Variable
    total: tf.Variable

    @classmethod
    def on(cls, host: str) -> "Stopwatch":
        zero = tf.constant(0, tf.float64)
        return cls(compat.host_variable(zero, host), compat.host_variable(zero, host))

    def start(self) -> tf.Operation:
        return self.begun.assign(tf.timestamp(), read_value=False)

    def stop(self) -> tf.Operation:
        return self.total.assign_add(tf.timestamp() - self.begun, read_value=False)


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the stages of one dataset count, in variables on the host."""

    started: tf.Variable  # batches asked of the host pipeline
    ended: tf.Variable  # whether the host pipeline has said that it has no more
    arrived: tf.Variable  # batches that reached the model device
    # Of the latest 256: when a batch was asked of the host pipeline and when one arrived, in
    # seconds since the epoch, the i-th at place i % 256.
    asked: tf.Variable
    times: tf.Variable
    host: Stopwatch  # the data stage's waiting for the host pipeline

    @classmethod
    def on(cls, host: str) -> "Progress":
        zero = tf.constant(0, tf.int64)
        return cls(
            compat.host_variable(zero, host),
            compat.host_variable(False, host),
            compat.host_variable(zero, host),
            compat.host_variable(tf.zeros([256], tf.float64), host),
            compat.host_variable(tf.zeros([256], tf.float64), host),
            Stopwatch.on(host),
        )

    def get_next_counted(self, iterator, types, shapes) -> list[tf.Tensor]:
        """The host iterator's next flat element; notes that it was asked, and its end."""
        started = self.started + 1
        now = tf.IndexedSlices(tf.timestamp(), (started - 1) % 256)
        noted = self.asked.scatter_update(now)
        with tf.control_dependencies([self.started.assign(started), noted, self.host.start()]):
            optional = tf.raw_ops.IteratorGetNextAsOptional(
                iterator=iterator, output_types=types, output_shapes=shapes
            )
        has_value = tf.raw_ops.OptionalHasValue(optional=optional)
        with tf.control_dependencies([optional]):
            self.host.stop()
        with tf.control_dependencies([self.ended.assign(tf.logical_not(has_value))]):
            return tf.cond(
                has_value,
                lambda: tf.raw_ops.OptionalGetValue(
                    optional=optional, output_types=types, output_shapes=shapes
                ),
                lambda: tf.raw_ops.IteratorGetNext(  # raises the end of the sequence
                    iterator=iterator, output_types=types, output_shapes=shapes
                ),
            )

    def count_arrival(self, flat: list[tf.Tensor]) -> None:
        """Counts when `flat` is there.

        The count hangs on a tensor that is in host memory wherever its source is (a shape, not
        yet known to be a constant): anything from device memory would wait for the running step.
        """
        @tf.function  # a call of its own, because a generator's function has only one device
        def count(sign):
            with tf.device(self.arrived.device):
                arrived = self.arrived + tf.cast(sign, tf.int64)
                with tf.control_dependencies([arrived]):
                    now = tf.timestamp()
                self.times.scatter_update(tf.IndexedSlices(now, (arrived - 1) % 256))
                self.arrived.assign(arrived)

        count(sign_of(flat))

    def arrivals(self) -> Callable[[], int]:
        """Tells how many batches have arrived since this was called."""
        before = int(self.arrived)
        return lambda: int(self.arrived) - before

    def wait_until(self, ready: int, patience: float = 2.0) -> None:
        """Returns when so many batches are READY, or all there are.

        A batch that failed occupies a slot but never arrives; its error is for whoever takes it.
        So when the host was asked for one more than fit, waiting ends after `patience` seconds.
        """
        arrived_before, started_before = int(self.arrived), int(self.started)
        deadline = None
        while True:
            started, ended = int(self.started) - started_before, bool(self.ended)
            wanted = min(ready, started - 1) if ended else ready
            if int(self.arrived) - arrived_before >= wanted:
                return
            if ended or started > ready:
                deadline = deadline or time.monotonic() + patience
                if time.monotonic() > deadline:
                    return
            time.sleep(0.001)


def sign_of(flat: list[tf.Tensor]) -> tf.Tensor:
    """A scalar in host memory that is there when the tensors are.

    Not a shape: TensorFlow writes a constant where it knows one, which is there at once.
    """
    optional = tf.raw_ops.OptionalFromValue(components=flat)
    return tf.raw_ops.OptionalHasValue(optional=optional)
