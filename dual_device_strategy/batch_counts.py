"""Counts of batches on their way: for warming up, for the monitor, for slots and shares."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat


@dataclasses.dataclass(frozen=True)
class BatchCounts:
    """Counts of one dataset's batches on their way, in variables on the host."""

    started: tf.Variable  # batches asked of the host pipeline
    ended: tf.Variable  # whether the host pipeline has reached its end
    arrived: tf.Variable  # batches that reached the model device
    # When a batch arrived, in seconds since the epoch; batch i is at place i % 256, so these are
    # the latest 256.
    times: tf.Variable
    host_seconds: tf.Variable  # how long the data device has waited for the host pipeline
    # Whether `started` and `ended` are set.  It costs time on the host's cores while a step is
    # being started, about 0.1 ms a batch on the emulated pair, so it is off by default.
    sees_end: bool

    @classmethod
    def on(cls, host: str, sees_end: bool = False) -> "BatchCounts":
        zero = tf.constant(0, tf.int64)
        return cls(
            started=compat.host_variable(zero, host),
            ended=compat.host_variable(False, host),
            arrived=compat.host_variable(zero, host),
            times=compat.host_variable(tf.zeros([256], tf.float64), host),
            host_seconds=compat.host_variable(tf.constant(0, tf.float64), host),
            sees_end=sees_end,
        )

    def get_next_counted(self, iterator, types, shapes) -> list[tf.Tensor]:
        """The host iterator's next flat element; notes how long it took, and its end.

        It uses as few ops as possible.
        """
        asked = tf.timestamp()
        first = [asked]
        if self.sees_end:
            first.append(self.started.assign_add(1, read_value=False))
        with tf.control_dependencies(first):
            if not self.sees_end:
                flat = tf.raw_ops.IteratorGetNext(
                    iterator=iterator, output_types=types, output_shapes=shapes
                )
                self._note_host_wait(asked, flat)
                return flat
            optional = tf.raw_ops.IteratorGetNextAsOptional(
                iterator=iterator, output_types=types, output_shapes=shapes
            )
        self._note_host_wait(asked, [optional])
        has_value = tf.raw_ops.OptionalHasValue(optional=optional)
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

    def _note_host_wait(self, asked, got):
        with tf.control_dependencies(got):
            self.host_seconds.assign_add(tf.timestamp() - asked, read_value=False)

    def count_arrival(self) -> None:
        """Counts a batch that has arrived; to be called on the host.

        If two copies end within about 50 us, one of their times may be lost, but not the count.
        """
        noted = self.times.scatter_update(tf.IndexedSlices(tf.timestamp(), self.arrived % 256))
        with tf.control_dependencies([noted]):
            self.arrived.assign_add(1, read_value=False)

    def count_arrival_of(self, flat: list[tf.Tensor]) -> None:
        """Counts when `flat` is there, that is, when the call that brought it is done.

        It uses no op on the tensors themselves.  Their device would run such an op after the
        running step, before the step's result is read.
        """

        def count():
            self.count_arrival()
            return self.arrived.handle  # it must return something, and this is not copied

        with tf.control_dependencies(flat):
            call_on_host(self.arrived.device, count)

    def note_end(self) -> None:
        """Notes that no more batches will come, although the host pipeline has not said so."""

        def note():
            self.ended.assign(True, read_value=False)
            return self.ended.handle

        call_on_host(self.arrived.device, note)

    def now(self) -> tuple[int, int]:
        """How many batches the host pipeline was asked for so far, and how many have arrived."""
        return int(self.started), self.arrived_now()

    def arrivals(self, since: tuple[int, int]) -> Callable[[], int]:
        """A function that returns how many batches have arrived since `now()` returned that."""
        return lambda: self.arrived_now() - since[1]

    def arrived_now(self) -> int:
        # This runs between two steps; int(variable) would take half as long again.
        return int(tf.raw_ops.ReadVariableOp(resource=self.arrived.handle, dtype=tf.int64))

    def wait_until(
        self, ready: int, since: tuple[int, int], ahead: int = 0, patience: float = 2.0
    ) -> None:
        """Returns when `ready` batches have arrived since `before`, or all that there are.

        A batch that failed occupies a slot but never arrives; its consumer gets the error.  So once
        the host was asked for one batch more than fit, waiting ends within `patience` seconds;
        `ahead` more are copied from the host before.
        """
        started_before, arrived_before = since
        deadline = None
        while True:
            started, ended = int(self.started) - started_before, bool(self.ended)
            wanted = min(ready, started - 1) if ended else ready
            if int(self.arrived) - arrived_before >= wanted:
                return
            if ended or started > ready + ahead:
                deadline = deadline or time.monotonic() + patience
                if time.monotonic() > deadline:
                    return
            time.sleep(0.001)


def period(times: np.ndarray, turns: int) -> float | None:
    """The median time between arrivals in ms; None if there are too few.

    `times` are in seconds; `turns` batches may arrive at once.  The median, because a loop may
    stop for a while to evaluate or to save.
    """
    if len(times) <= 2 * turns:
        return None
    return 1e3 * float(np.median(times[turns:] - times[:-turns])) / turns


def call_on_host(device: str, function: Callable) -> None:
    """Calls a function that returns a resource on `device`, the host.

    It is called remotely, as a generator's function has only one device.
    """
    with tf.init_scope(), tf.device(compat.host_of(device)):
        target = tf.constant(device)
    traced = tf.function(function, autograph=False).get_concrete_function()
    tf.raw_ops.RemoteCall(target=target, args=traced.captured_inputs, Tout=[tf.resource], f=traced)
