"""Lanes: where prepared batches wait on their device until they are copied.

Two copies are under way at once, so each must know which batch is its own.  A box would do, but
then its handle would be an argument of a remote call.  TensorFlow 2.21 keeps the arguments of a
call that was cancelled before it began; the handle owns the box, so the batch would stay until the
process ends.  So the copy gets the name of an iterator, and a name owns nothing.

A lane is a variable with room for one batch, and an iterator that takes it out.  Batches go into
the lanes in turns.  There is one lane more than copies, because tf.data's parallel map may begin a
call before the last call but one has taken its batch.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop import component_specs, components, hop_options, trace

NAME = tf.TensorSpec([], tf.string)
_RESOURCE = tf.TensorSpec([], tf.resource)
_PLACE = [tf.resource, tf.string]  # the variable of a lane, the name of its iterator
_ON_DEVICE = {"experimental_ints_on_device": True}


class Lanes:
    """The lanes of one distributed dataset on `device`, for batches of `spec`.

    All functions are traced here; each iteration has `count` lanes of its own.
    """

    def __init__(self, spec, device: str, count: int, get_next: Callable):
        self._device, self._count, self._get_next = device, count, get_next
        self._spec, self.specs = spec, component_specs(spec)
        self._types = [each.dtype for each in self.specs]
        self._start = trace(lambda: tf.constant(0, tf.int64))
        self._end = trace(lambda begun, *held: begun, tf.TensorSpec([], tf.int64))
        begun = tf.TensorSpec([], tf.int64)
        self._take = trace(self._taken, begun, _RESOURCE, experimental_attributes=_ON_DEVICE)
        self._put = trace(self._filled, begun, *[_RESOURCE] * 2, experimental_attributes=_ON_DEVICE)
        self._hold = trace(
            lambda begun, *held: begun,
            begun,
            *[_RESOURCE] * count,  # the iterators of the lanes
        )
        self.contents = trace(self._contents, NAME)

    def _taken(self, begun, lane):
        del begun
        batch = tf.raw_ops.ReadVariableOp(resource=lane, dtype=tf.variant)
        with tf.control_dependencies([batch]):
            emptied = tf.raw_ops.AssignVariableOp(resource=lane, value=tf.raw_ops.OptionalNone())
        with tf.control_dependencies([emptied]):
            return tf.raw_ops.OptionalGetValue(
                optional=batch,
                output_types=self._types,
                output_shapes=[each.shape for each in self.specs],
            )

    def _filled(self, begun, prepared, turns):
        """Puts the next batch into the lane whose turn it is, and returns the lane's name."""
        del begun
        types, shapes = compat.flat_types(self._spec), compat.flat_shapes(self._spec)
        flat = self._get_next(prepared, types, shapes)
        batch = tf.raw_ops.OptionalFromValue(
            components=components(compat.from_flat(self._spec, flat))
        )
        with tf.control_dependencies([batch]):
            lane, name, *others = tf.raw_ops.OptionalGetValue(
                optional=tf.raw_ops.ReadVariableOp(resource=turns, dtype=tf.variant),
                output_types=_PLACE * self._count,
                output_shapes=[[]] * (len(_PLACE) * self._count),
            )
        following = tf.raw_ops.OptionalFromValue(components=[*others, lane, name])
        turned = tf.raw_ops.AssignVariableOp(resource=turns, value=following)
        put = tf.raw_ops.AssignVariableOp(resource=lane, value=batch)
        with tf.control_dependencies([turned, put]):
            return tf.identity(name)

    def _contents(self, name):
        """The batch in the lane of that name, on this device."""
        lane = tf.raw_ops.IteratorFromStringHandleV2(string_handle=name)
        return tf.raw_ops.IteratorGetNext(
            iterator=lane,
            output_types=self._types,
            output_shapes=[each.shape for each in self.specs],
        )

    def iterator_over(self, prepared: tf.data.Iterator) -> tf.data.Iterator:
        """An iterator on the device: takes the next batch to a lane, and gives the lane's name."""
        with tf.device(self._device):
            places, iterators = [], []
            for _ in range(self._count):
                lane = _variable(tf.raw_ops.OptionalNone())
                iterator = self._iterator(self._take, [lane], self._end, held=[], spec=self.specs)
                resource = compat.resource_of(iterator)
                places += [lane, tf.raw_ops.IteratorToStringHandle(resource_handle=resource)]
                iterators.append(resource)
            turns = _variable(tf.raw_ops.OptionalFromValue(components=places))
            source = compat.resource_of(prepared)
            return self._iterator(self._put, [source, turns], self._hold, held=iterators, spec=NAME)

    def _iterator(self, following, arguments, end, *, held, spec) -> tf.data.Iterator:
        variant = tf.raw_ops.GeneratorDataset(
            init_func_other_args=self._start.captured_inputs,
            next_func_other_args=[*arguments, *following.captured_inputs],
            finalize_func_other_args=held,
            init_func=self._start,
            next_func=following,
            finalize_func=end,
            output_types=compat.flat_types(spec),
            output_shapes=compat.flat_shapes(spec),
        )
        return iter(compat.dataset_of(variant, spec).with_options(hop_options(False)))


def _variable(value: tf.Tensor) -> tf.Tensor:
    """A variable with `value`, on the current device; it is gone with its last handle."""
    handle = compat.anonymous_variable(tf.variant)
    placed = tf.raw_ops.AssignVariableOp(resource=handle, value=value)
    with tf.control_dependencies([placed] if placed else []):
        return tf.identity(handle)
