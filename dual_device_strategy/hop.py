"""A hop of a batch: from an iterator on one device to an iterator on the next.

A hop is a GeneratorDataset on its device whose function gets the next element from an iterator on
the device before it, by a remote call.  A prefetch behind it gives it a thread, so that two
neighbouring hops work at the same time.  All of it is C++ TensorFlow and ordinary resources: no
Python runs while batches flow, and an iterator can be used inside a tf.function.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop_functions import (
    RESOURCE,
    checker,
    finder,
    holder,
    mark_maker,
    name_tensor,
    set_mark,
    trace,
)


def get_next(iterator, types, shapes):
    # Not the synchronous op: a remote call runs on the threads that all of TensorFlow shares, and
    # one that blocks there is missing for the other hop and for the step.
    return tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=types, output_shapes=shapes)


class Hop:
    """One hop of a batch: pulls batches from an iterator on `source_device` to `device`.

    It is traced once, here, and used for every iteration; see `hop_functions.py`.  `transform`, a
    function over lists of flat tensors, runs on `device` and makes an element of `element_spec` of
    each.  `get_next` and `at_source` run on the source device; `at_source` makes what travels, flat
    tensors of `moved_spec`, from the flat tensors that were there.  `arrived` is called with what
    came, `failed` when an OutOfRange in `transform` has ended the batches.  `scope` stands in
    TensorFlow's error messages.  `captured` says what this hop uses instead of a tensor that
    `transform` captures.  Each iterator gets `notes` resources on `device` from its maker: `begin`
    is called with them before the first batch, `transform` and `finish` with every batch. `finish`
    makes what the iterator hands out of what was made; it raises no OutOfRange.
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
        finish: Callable | None = None,
        notes: int = 0,
    ):
        types, shapes = compat.flat_types(source_spec), compat.flat_shapes(source_spec)
        moved_spec = source_spec if moved_spec is None else moved_spec

        def get_next_there(iterator):
            flat = get_next(iterator, types, shapes)
            return at_source(flat) if at_source else flat

        remote_next = trace(get_next_there, RESOURCE)
        target = name_tensor(source_device)
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
                made, notes_of_iterator = flat, others
                if transform:
                    mark, *notes_of_iterator = others
                    with tf.control_dependencies([set_mark(mark, True, after=flat)]):
                        made = transform(flat, *notes_of_iterator)
                    set_mark(mark, False, after=made)
                return finish(made, *notes_of_iterator) if finish else made

        self.element_spec = made_spec
        self._device, self.slots, self.warm_up = device, slots, warm_up
        self._host = compat.host_of(device)
        # A hop with a transformation has a note more, the first one: its mark.
        self._new_mark = mark_maker(device) if transform else None
        self._notes = [RESOURCE] * (notes + (1 if transform else 0))
        self._find = finder(source_device, len(self._notes), begin)
        self._next = trace(
            pull,
            RESOURCE,
            *self._notes,
            experimental_attributes={"experimental_ints_on_device": True},
        )
        self._only_pulls = transform is None
        functions = self._find, self._next, holder()
        if transform:
            made_types = tuple(compat.flat_types(made_spec))
            functions = *functions, checker(source_device, made_types, failed)
        self._functions = functions
        # A concrete function, as TensorFlow warns of many traces of one that is not.
        self._captured = tuple(
            [captured(tensor) if captured else tensor for tensor in function.captured_inputs]
            for function in functions
        )
        self._make = trace(
            self._make_dataset,
            tf.TensorSpec([], tf.string),
            RESOURCE,
            *self._notes,
            *(tf.TensorSpec(t.shape, t.dtype) for inputs in self._captured for t in inputs),
        )

    def _make_dataset(self, handle, resource, *others) -> tf.Tensor:
        """Made in a graph, as only there a function has attributes."""
        # Its prefetching thread has nothing else to do; changing it takes longer than the call.
        next_function = compat.on_one_thread(self._next) if self._only_pulls else self._next
        of_find, of_next, of_end = (len(inputs) for inputs in self._captured[:3])
        notes, captured = others[: len(self._notes)], others[len(self._notes) :]
        of_next += of_find
        of_end += of_next
        kinds = {
            "output_types": compat.flat_types(self.element_spec),
            "output_shapes": compat.flat_shapes(self.element_spec),
        }
        with tf.device(self._host):
            batches = tf.raw_ops.GeneratorDataset(
                init_func_other_args=[handle, *notes, *captured[:of_find]],
                next_func_other_args=[*notes, *captured[of_find:of_next]],
                finalize_func_other_args=[resource, *captured[of_next:of_end]],
                init_func=self._find,
                next_func=next_function,
                finalize_func=self._functions[2],
                **kinds,
            )
            if self._only_pulls:
                return batches
            end = tf.raw_ops.MapDataset(
                input_dataset=compat.variant_of(tf.data.Dataset.range(1)),
                other_arguments=[handle, notes[0], *captured[of_end:]],
                f=self._functions[3],
                **kinds,
            )
            return tf.raw_ops.ConcatenateDataset(
                input_dataset=batches, another_dataset=end, **kinds
            )

    def dataset_over(self, source: tf.data.Iterator, *notes: tf.Tensor) -> tf.Tensor:
        if self._new_mark:
            notes = (self._new_mark(), *notes)
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
        with tf.device(self._host):
            dataset = compat.dataset_of(self.dataset_over(source, *notes), self.element_spec)
            if self.slots:
                dataset = dataset.prefetch(self.slots)
            dataset = dataset.with_options(hop_options(self.warm_up))
        return compat.iterator_on(self._device, dataset, again)


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
