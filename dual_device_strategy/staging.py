"""The way of a batch: host -> data device -> model device, one slot at a time.

    dataset              a tf.data pipeline on the data device's host
    Pull, data device    PREPARING: copied to the data device and through the front end
    prefetch(1)
    Pull, model device   READY: copied to the model device
    prefetch(ready)
    iterator             TRAINING: what the step holds

             batch 0    batch 1    batch 2    batch 3
    time 0   preparing
    time 1   ready      preparing
    time 2   training   ready      preparing
    time 3              training   ready      preparing

Each Pull is a GeneratorDataset on its device whose function gets the next element from an
iterator on the device before it, by a remote call.  Each prefetch is the thread that lets two
neighbouring stages work at the same time.  All of it is C++ TensorFlow and ordinary resources:
no Python runs while batches flow, and an iterator can be used inside a tf.function.

Why three slots: TensorFlow's device-to-device copy waits for the work already queued on the
receiving device's compute stream, so a copy runs beside a step only if a READY batch already
feeds the step.
"""

import os
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.out_of_memory import PREPARING, READY
from dual_device_strategy.progress import Progress

_ITERATOR = tf.TensorSpec([], tf.resource)


def _get_next(iterator, types, shapes):
    # The synchronous op spares two changes of thread.  It may block its thread because that is
    # the stage's own (see `_stage_options`).
    return tf.raw_ops.IteratorGetNextSync(
        iterator=iterator, output_types=types, output_shapes=shapes
    )


class Pull(tf.data.Dataset):
    """The elements of `source`, a dataset on `source_device`, pulled to the current device.

    `transform`, a function over lists of flat tensors, runs on the current device and makes an
    element of `element_spec` of each.  With `unpack`, ragged and sparse tensors travel as their
    component tensors: TensorFlow's kernels would rebuild them from a variant in host memory.
    `get_next` runs on the source device, `arrived` is called with what came; `name` stands in
    TensorFlow's error messages.
    """

    def __init__(
        self,
        source: tf.data.Dataset,
        source_device: str,
        *,
        transform: Callable | None = None,
        element_spec=None,
        unpack: bool = False,
        name: str,
        get_next: Callable = _get_next,
        arrived: Callable | None = None,
    ):
        spec = source.element_spec
        types, shapes = compat.flat_types(spec), compat.flat_shapes(spec)
        moved_spec = component_specs(spec) if unpack else spec
        # There is no kernel for a string constant on a GPU, but one can be captured.
        with tf.device(compat.host_of(source_device)):
            target = tf.constant(source_device)
        wrapped = tf.raw_ops.WrapDatasetVariant(input_handle=compat.variant_of(source))

        def start():
            iterator = tf.raw_ops.AnonymousIteratorV3(output_types=types, output_shapes=shapes)
            dataset = tf.raw_ops.UnwrapDatasetVariant(input_handle=wrapped)
            made = tf.raw_ops.MakeIterator(dataset=dataset, iterator=iterator)
            with tf.control_dependencies([made]):
                return [tf.identity(iterator)]

        def get_next_there(iterator):
            flat = get_next(iterator, types, shapes)
            return components(compat.from_flat(spec, flat)) if unpack else flat

        remote_start, remote_next = _trace(start), _trace(get_next_there, _ITERATOR)

        def pull(iterator):
            with tf.name_scope(name):
                return pull_in_scope(iterator)

        def pull_in_scope(iterator):
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
            return transform(flat) if transform else flat

        def remote_iterator():
            return tf.raw_ops.RemoteCall(
                target=target,
                args=remote_start.captured_inputs,
                Tout=[tf.resource],
                f=remote_start,
            )

        start_here = _trace(remote_iterator)
        next_here = _trace(
            pull, _ITERATOR, experimental_attributes={"experimental_ints_on_device": True}
        )
        # Nothing to do at the end: the iterator on the other device goes with its last handle.
        end_here = _trace(lambda iterator: tf.constant(0, tf.int64), _ITERATOR)
        self._source = source
        self._element_spec = moved_spec if element_spec is None else element_spec
        super().__init__(
            tf.raw_ops.GeneratorDataset(
                init_func_other_args=start_here.captured_inputs,
                next_func_other_args=next_here.captured_inputs,
                finalize_func_other_args=end_here.captured_inputs,
                init_func=start_here,
                next_func=next_here,
                finalize_func=end_here,
                output_types=compat.flat_types(self._element_spec),
                output_shapes=compat.flat_shapes(self._element_spec),
            )
        )

    def _inputs(self):
        return []  # `source` lives on another device; TensorFlow must not rewrite across that

    @property
    def element_spec(self):
        return self._element_spec


def _trace(function: Callable, *signature, **keywords):
    traced = tf.function(function, input_signature=signature, autograph=False, **keywords)
    return traced.get_concrete_function()


def components(element) -> list[tf.Tensor]:
    """The tensors of an element, ragged and sparse ones taken apart."""
    return [t for t in tf.nest.flatten(element, expand_composites=True) if t is not None]


def component_specs(spec) -> tuple[tf.TypeSpec, ...]:
    return tuple(tf.nest.flatten(spec, expand_composites=True))


def stage(
    host: tf.data.Dataset,
    front_end: Callable | None,
    front_end_spec,
    devices: tuple[str, str],
    slots: tuple[int, int],
    progress: Progress | None = None,
    warm_up: bool = False,
) -> tf.data.Dataset:
    """`host`'s batches, through `front_end` on the first device, as components on the second.

    `slots` says how many batches may wait on the first and on the second device.
    """
    (data_device, target_device), (prepared_slots, ready_slots) = devices, slots
    host_device = compat.host_of(data_device)
    with tf.device(host_device):
        prepared = host.with_options(_host_options(host.options()))
    with tf.device(data_device):
        if data_device != host_device or warm_up:
            prepared = Pull(
                prepared,
                host_device,
                transform=front_end,
                element_spec=front_end_spec,
                name=PREPARING,
                get_next=progress.get_next_counted if progress else _get_next,
            ).with_options(_stage_options(warm_up))
        if prepared_slots:
            prepared = prepared.prefetch(prepared_slots)
    with tf.device(target_device):
        staged = Pull(
            prepared,
            data_device,
            unpack=True,
            name=READY,
            arrived=progress.count_arrival if progress else None,
        )
        if ready_slots:
            staged = staged.prefetch(ready_slots)
        return staged.with_options(_stage_options(warm_up))


def _stage_options(warm_up: bool) -> tf.data.Options:
    """A stage has one thread of its own, and no buffer but the slots."""
    options = tf.data.Options()
    options.experimental_warm_start = warm_up
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return options


def _host_options(given: tf.data.Options) -> tf.data.Options:
    """Threads of its own for the host pipeline, so that it never waits for those of a stage."""
    options = tf.data.Options()
    if not given.threading.private_threadpool_size:
        options.threading.private_threadpool_size = len(os.sched_getaffinity(0))
    return options
