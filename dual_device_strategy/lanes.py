"""Lanes: where prepared batches wait on their device until they are copied.

Two copies are under way at once, so each must know which batch is its own.  A box would do, but
then its handle would be an argument of a remote call.  TensorFlow 2.21 keeps the arguments of a
call that was cancelled before it began; the handle owns the box, so the batch would stay until the
process ends.  So the copy gets the name of an iterator, and a name owns nothing.

A lane is a variable with room for one batch, and an iterator that takes it out.  Batches go into
the lanes in turns, as soon as they are prepared; what travels on is the name of a lane.  There are
two lanes more than batches that may wait: one batch is being prepared, and tf.data's parallel map
may begin a copy when the one before the last has not begun to take its batch.
"""

from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop import hop_options
from dual_device_strategy.hop_functions import number_back, number_zero, trace

NAME = tf.TensorSpec([], tf.string)
_RESOURCE = tf.TensorSpec([], tf.resource)
_PLACE = [tf.resource, tf.string, tf.resource]  # a variable, the name of its iterator, the iterator
_ON_DEVICE = {"experimental_ints_on_device": True}


class Lanes:
    """The lanes of one distributed dataset on `device`, for batches of `specs`.

    All functions are traced here; `new` makes the lanes of one iterator, in which `waiting` batches
    may be.  `takers` is the number of copies that each take their own part of a batch, all of the
    same `specs`.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec], device: str, waiting: int, takers: int = 1):
        self.specs, self._device, self.takers = tuple(specs), device, takers
        self._count = (waiting + 2) * takers
        self._types = [each.dtype for each in specs]
        self._shapes = [each.shape for each in specs]
        begun = tf.TensorSpec([], tf.int64)
        self._take = trace(self._taken, begun, _RESOURCE, experimental_attributes=_ON_DEVICE)
        self.contents = trace(self._contents, NAME)
        self.new = trace(self._made)

    def put(self, turns: tf.Tensor, flat: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Puts a batch into the lane whose turn it is, and returns its name, one for each taker.

        To be called on the lanes' device; `turns` is what `new` returned.
        """
        size = len(self.specs)
        batches = [
            tf.raw_ops.OptionalFromValue(components=flat[at : at + size])
            for at in range(0, len(flat), size)
        ]
        with tf.control_dependencies(batches):
            places = tf.raw_ops.OptionalGetValue(
                optional=tf.raw_ops.ReadVariableOp(resource=turns, dtype=tf.variant),
                output_types=_PLACE * self._count,
                output_shapes=[[]] * (len(_PLACE) * self._count),
            )
        now, later = places[: len(_PLACE) * self.takers], places[len(_PLACE) * self.takers :]
        following = tf.raw_ops.OptionalFromValue(components=[*later, *now])
        done = [tf.raw_ops.AssignVariableOp(resource=turns, value=following)]
        for lane, batch in zip(now[:: len(_PLACE)], batches, strict=True):
            done.append(tf.raw_ops.AssignVariableOp(resource=lane, value=batch))
        with tf.control_dependencies(done):
            return [tf.identity(name) for name in now[1 :: len(_PLACE)]]

    def _taken(self, begun, lane):
        del begun
        batch = tf.raw_ops.ReadVariableOp(resource=lane, dtype=tf.variant)
        with tf.control_dependencies([batch]):
            emptied = tf.raw_ops.AssignVariableOp(resource=lane, value=tf.raw_ops.OptionalNone())
        with tf.control_dependencies([emptied]):
            return tf.raw_ops.OptionalGetValue(
                optional=batch, output_types=self._types, output_shapes=self._shapes
            )

    def _contents(self, name):
        """The batch in the lane of that name, on this device; it is there, so nothing waits."""
        lane = tf.raw_ops.IteratorFromStringHandleV2(string_handle=name)
        return tf.raw_ops.IteratorGetNextSync(
            iterator=lane, output_types=self._types, output_shapes=self._shapes
        )

    def get_next(self, prepared, types, shapes):
        """What is in the lane that comes next from `prepared`, an iterator over names."""
        (name,) = tf.raw_ops.IteratorGetNext(
            iterator=prepared, output_types=types, output_shapes=shapes
        )
        return self.contents(name)

    def _made(self):
        """New lanes, all empty: the variable that has them in the order of their turns."""
        with tf.device(self._device):
            places = []
            for _ in range(self._count):
                lane = _variable(tf.raw_ops.OptionalNone())
                iterator = compat.resource_of(self._iterator_over(lane))
                name = tf.raw_ops.IteratorToStringHandle(resource_handle=iterator)
                places += [lane, name, iterator]
            return _variable(tf.raw_ops.OptionalFromValue(components=places))

    def _iterator_over(self, lane) -> tf.data.Iterator:
        variant = tf.raw_ops.GeneratorDataset(
            init_func_other_args=[],
            next_func_other_args=[lane, *self._take.captured_inputs],
            finalize_func_other_args=[],
            init_func=number_zero(),
            next_func=compat.on_one_thread(self._take),
            finalize_func=number_back(),
            output_types=self._types,
            output_shapes=self._shapes,
        )
        return iter(compat.dataset_of(variant, self.specs).with_options(hop_options(False)))


def _variable(value: tf.Tensor) -> tf.Tensor:
    """A variable with `value`, on the current device; it is gone with its last handle."""
    handle = compat.anonymous_variable(tf.variant)
    placed = tf.raw_ops.AssignVariableOp(resource=handle, value=value)
    with tf.control_dependencies([placed]):
        return tf.identity(handle)
