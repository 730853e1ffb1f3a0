"""A hop of a batch: from an iterator on one device to an iterator on the next.

A hop is a GeneratorDataset on its device whose function gets the next element from an iterator on
the device before it, by a remote call.  A prefetch behind it gives it a thread, so that two
neighbouring hops work at the same time.  All of it is C++ TensorFlow and ordinary resources: no
Python runs while batches flow, and an iterator can be used inside a tf.function.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat

_RESOURCE = tf.TensorSpec([], tf.resource)

OUT_OF_RANGE = (
    "the function given to on_data_device produced OutOfRangeError: an iterator or a queue that it "
    "draws from has no more elements, or a Python function in it raised StopIteration; only the "
    "host's dataset may end the batches"
)


def get_next(iterator, types, shapes):
    # Not the synchronous op: a remote call runs on the threads that all of TensorFlow shares, and
    # one that blocks there is missing for the other hop and for the step.
    return tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=types, output_shapes=shapes)


class Hop:
    """One hop of a batch: pulls batches from an iterator on `source_device` to `device`.

    It is traced once, here, and used for every iteration.  `transform`, a function over lists of
    flat tensors, runs on `device` and makes an element of `element_spec` of each.  `get_next` and
    `at_source` run on the source device; `at_source` makes what travels, flat tensors of
    `moved_spec`, from the flat tensors that were there.  `arrived` is called with what came,
    `failed` when an OutOfRange in `transform` has ended the batches.  `scope` stands in
    TensorFlow's error messages.  `captured` says what this hop uses instead of a tensor that
    `transform` captures.  With `begin`, each iterator gets a resource on `device` from its maker:
    `begin` is called with it before the first batch, `transform` with every batch.
    """

    def __init__(
        self,
        source_spec,
        source_device: str,
        device: str,
        *,
        scope: str,
        slots: int = 0,
        transform: Callable | None = None,
        element_spec=None,
        at_source: Callable | None = None,
        moved_spec=None,
        get_next: Callable = get_next,
        arrived: Callable | None = None,
        failed: Callable | None = None,
        warm_up: bool = False,
        captured: Callable | None = None,
        begin: Callable | None = None,
    ):
        types, shapes = compat.flat_types(source_spec), compat.flat_shapes(source_spec)
        moved_spec = source_spec if moved_spec is None else moved_spec

        def get_next_there(iterator):
            flat = get_next(iterator, types, shapes)
            return at_source(flat) if at_source else flat

        def find_there(handle):
            return tf.raw_ops.IteratorFromStringHandleV2(string_handle=handle)

        remote_find = trace(find_there, tf.TensorSpec([], tf.string))
        remote_next = trace(get_next_there, _RESOURCE)
        target = name_tensor(source_device)

        def find(handle, *notes):
            if begin:
                begin(*notes)
            (iterator,) = tf.raw_ops.RemoteCall(
                target=target, args=[handle], Tout=[tf.resource], f=remote_find
            )
            return [iterator, _new_mark()] if transform else iterator

        made_spec = moved_spec if element_spec is None else element_spec

        def pull(iterator, *others):
            with tf.name_scope(scope):
                flat = tf.raw_ops.RemoteCall(
                    target=target,
                    args=[iterator, *remote_next.captured_inputs],
                    Tout=compat.flat_types(moved_spec),
                    f=remote_next,
                )
                compat.mark_full_type(flat, moved_spec)
                if arrived:
                    arrived(flat)
                for tensor, shape in zip(flat, compat.flat_shapes(moved_spec), strict=True):
                    tensor.set_shape(shape)
                if not transform:
                    return flat
                mark, *notes_of_iterator = others
                with tf.control_dependencies([_set_mark(mark, True, after=flat)]):
                    made = transform(flat, *notes_of_iterator)
                _set_mark(mark, False, after=made)
                return made

        state = [_RESOURCE] * (2 if transform else 1)  # what `find` returns
        self.element_spec = made_spec
        self._device, self.slots, self.warm_up = device, slots, warm_up
        self._notes = [_RESOURCE] if begin else []
        self._find = trace(find, tf.TensorSpec([], tf.string), *self._notes)
        self._next = trace(
            pull,
            *state,
            *self._notes,
            experimental_attributes={"experimental_ints_on_device": True},
        )
        self._only_pulls = transform is None

        def end(iterator, *others):  # the last of them, the source's iterator, is held until now
            if transform:
                _refuse_mark(others[0], failed)
            return tf.constant(0, tf.int64)

        self._end = trace(end, *state, _RESOURCE)
        # A concrete function, as TensorFlow warns of many traces of one that is not.
        functions = self._find, self._next, self._end
        self._captured = tuple(
            [captured(tensor) if captured else tensor for tensor in function.captured_inputs]
            for function in functions
        )
        self._make = trace(
            self._make_dataset,
            tf.TensorSpec([], tf.string),
            _RESOURCE,
            *self._notes,
            *(tf.TensorSpec(t.shape, t.dtype) for inputs in self._captured for t in inputs),
        )

    def _make_dataset(self, handle, resource, *others) -> tf.Tensor:
        """Made in a graph, as only there a function has attributes."""
        # Its prefetching thread has nothing else to do; changing it takes longer than the call.
        next_function = compat.on_one_thread(self._next) if self._only_pulls else self._next
        of_find, of_next, _ = map(len, self._captured)
        notes, captured = others[: len(self._notes)], others[len(self._notes) :]
        with tf.device(self._device):
            return tf.raw_ops.GeneratorDataset(
                init_func_other_args=[handle, *notes, *captured[:of_find]],
                next_func_other_args=[*notes, *captured[of_find : of_find + of_next]],
                finalize_func_other_args=[resource, *captured[of_find + of_next :]],
                init_func=self._find,
                next_func=next_function,
                finalize_func=self._end,
                output_types=compat.flat_types(self.element_spec),
                output_shapes=compat.flat_shapes(self.element_spec),
            )

    def dataset_over(self, source: tf.data.Iterator, *notes: tf.Tensor) -> tf.Tensor:
        resource = compat.resource_of(source)
        handle = tf.raw_ops.IteratorToStringHandle(resource_handle=resource)
        return self._make(
            handle, resource, *notes, *(t for inputs in self._captured for t in inputs)
        )

    def iterator_over(
        self,
        source: tf.data.Iterator,
        *notes: tf.Tensor,
        again: tf.data.Iterator | None = None,
    ) -> tf.data.Iterator:
        """An iterator on this hop's device; up to `slots` of its batches wait there.

        If `again` is an iterator of this hop, it is returned, and whatever holds it goes on with
        the batches of `source`.
        """
        with tf.device(self._device):
            dataset = compat.dataset_of(self.dataset_over(source, *notes), self.element_spec)
            if self.slots:
                dataset = dataset.prefetch(self.slots)
            dataset = dataset.with_options(hop_options(self.warm_up))
            return compat.made_again(again, dataset) if again else iter(dataset)


# Only the host's iterator may end the batches.  But a GeneratorDataset takes every OutOfRange of
# its function for the end, also one from inside the front end: an iterator or a queue that has no
# more elements, a Python function's StopIteration.  `Dataset.map` makes InvalidArgument of those.
# So a variable says whether the front end is at work.  It is on the front end's own device, and
# setting it passes a pointer and starts nothing there.  At the end, and when the dataset is
# dropped, a GeneratorDataset calls a last function; what that raises is what the consumer sees.


def _new_mark() -> tf.Tensor:
    mark = compat.anonymous_variable(tf.bool)
    _set_mark(mark, False, after=[])
    return mark


def _set_mark(mark, at_work: bool, after):
    with tf.control_dependencies(after):
        return tf.raw_ops.AssignVariableOp(resource=mark, value=tf.constant(at_work))


def _refuse_mark(mark, failed: Callable | None) -> None:
    at_work = tf.raw_ops.ReadVariableOp(resource=mark, dtype=tf.bool)
    noted = []
    if failed:
        noted = [tf.cond(at_work, lambda: (failed(), True)[1], lambda: False)]
    with tf.control_dependencies(noted):
        tf.debugging.Assert(tf.logical_not(at_work), [OUT_OF_RANGE])


def name_tensor(device: str) -> tf.Tensor:
    """The device's name as a tensor to capture; GPUs have no kernel for string constants."""
    with tf.init_scope(), tf.device(compat.host_of(device)):
        return tf.constant(device)


def trace(function: Callable, *signature, **keywords):
    traced = tf.function(function, input_signature=signature, autograph=False, **keywords)
    return traced.get_concrete_function()


def components(element) -> list[tf.Tensor]:
    """The tensors of an element, ragged and sparse ones taken apart."""
    return [t for t in tf.nest.flatten(element, expand_composites=True) if t is not None]


def component_specs(spec) -> tuple[tf.TypeSpec, ...]:
    return tuple(tf.nest.flatten(spec, expand_composites=True))


def hop_options(warm_up: bool) -> tf.data.Options:
    """A hop has one thread of its own, and no buffer but the slots."""
    options = tf.data.Options()
    options.experimental_warm_start = warm_up
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return options
