"""The way of a batch: host -> data device -> model device, one slot at a time.

    dataset              a tf.data pipeline on the data device's host
    Stage, data device   PREPARING: copied to the data device and through the front end
    Stage, model device  READY: copied to the model device
    iterator             TRAINING: what the step holds

             batch 0    batch 1    batch 2    batch 3
    time 0   preparing
    time 1   ready      preparing
    time 2   training   ready      preparing
    time 3              training   ready      preparing

Each stage is a GeneratorDataset on its device whose function gets the next element from an
iterator on the device before it, by a remote call.  A prefetch behind it is the thread that lets
two neighbouring stages work at the same time.  All of it is C++ TensorFlow and ordinary resources:
no Python runs while batches flow, and an iterator can be used inside a tf.function.

Why three slots: TensorFlow's device-to-device copy waits for the work already queued on the
receiving device's compute stream, so a copy runs beside a step only if a READY batch already
feeds the step.
"""

import itertools
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.devices import usable_cores
from dual_device_strategy.out_of_memory import PREPARING, READY, scope_name
from dual_device_strategy.progress import Progress

_RESOURCE = tf.TensorSpec([], tf.resource)
_numbers = itertools.count()  # one for each `Staging`; an id() comes back after the object is gone

OUT_OF_RANGE = (
    "the function given to on_data_device produced OutOfRangeError: an iterator or a queue that it "
    "draws from has no more elements, or a Python function in it raised StopIteration; only the "
    "host's dataset may end the batches"
)


def _get_next(iterator, types, shapes):
    # Not the synchronous op: what is called remotely runs on the threads that all of TensorFlow
    # shares, and one that blocks there is missed by the other stage and by the step.
    return tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=types, output_shapes=shapes)


class Stage:
    """One hop: what pulls batches from an iterator on `source_device` to `device`.

    It is traced once, here, and used for every iteration.  `transform`, a function over lists of
    flat tensors, runs on `device` and makes an element of `element_spec` of each.  With `unpack`,
    ragged and sparse tensors travel as their component tensors: TensorFlow's kernels would rebuild
    them from a variant in host memory.  `get_next` runs on the source device, `arrived` is called
    with what came, `failed` when an OutOfRange in `transform` has ended the batches; `name` stands
    in TensorFlow's error messages, with the size of what it makes.
    """

    def __init__(
        self,
        source_spec,
        source_device: str,
        device: str,
        *,
        name: str,
        slots: int,
        transform: Callable | None = None,
        element_spec=None,
        unpack: bool = False,
        get_next: Callable = _get_next,
        arrived: Callable | None = None,
        failed: Callable | None = None,
        warm_up: bool = False,
    ):
        types, shapes = compat.flat_types(source_spec), compat.flat_shapes(source_spec)
        moved_spec = component_specs(source_spec) if unpack else source_spec

        def get_next_there(iterator):
            flat = get_next(iterator, types, shapes)
            return components(compat.from_flat(source_spec, flat)) if unpack else flat

        def find_there(handle):
            return tf.raw_ops.IteratorFromStringHandleV2(
                string_handle=handle, output_types=types, output_shapes=shapes
            )

        remote_find = _trace(find_there, tf.TensorSpec([], tf.string))
        remote_next = _trace(get_next_there, _RESOURCE)
        # There is no kernel for a string constant on a GPU, but one can be captured.
        with tf.init_scope(), tf.device(compat.host_of(device)):
            target = tf.constant(source_device)

        def find(handle):
            (iterator,) = tf.raw_ops.RemoteCall(
                target=target, args=[handle], Tout=[tf.resource], f=remote_find
            )
            return [iterator, _new_mark()] if transform else iterator

        made_spec = moved_spec if element_spec is None else element_spec
        scope = scope_name(name, component_specs(made_spec))

        def pull(iterator, mark=None):
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
                with tf.control_dependencies([_set_mark(mark, True, after=flat)]):
                    made = transform(flat)
                _set_mark(mark, False, after=made)
                return made

        state = [_RESOURCE] * (2 if transform else 1)  # what `find` returns
        self.element_spec = made_spec
        self._device, self.slots, self._warm_up = device, slots, warm_up
        self._find = _trace(find, tf.TensorSpec([], tf.string))
        self._next = _trace(
            pull, *state, experimental_attributes={"experimental_ints_on_device": True}
        )
        self._only_pulls = transform is None

        def end(iterator, *others):  # the last of them, the source's iterator, is held until now
            if transform:
                _refuse_mark(others[0], failed)
            return tf.constant(0, tf.int64)

        self._end = _trace(end, *state, _RESOURCE)
        # A concrete function, as TensorFlow warns of many traces of one that is not.
        captured = self._find.captured_inputs, self._next.captured_inputs, self._end.captured_inputs
        self._captured = captured
        self._make = _trace(
            self._make_dataset,
            tf.TensorSpec([], tf.string),
            _RESOURCE,
            *(tf.TensorSpec(t.shape, t.dtype) for inputs in captured for t in inputs),
        )

    def _make_dataset(self, handle, resource, *captured) -> tf.Tensor:
        """Made in a graph, as only there a function has attributes."""
        # Its prefetching thread has nothing else to do; changing it takes longer than the call.
        next_function = compat.on_one_thread(self._next) if self._only_pulls else self._next
        of_find, of_next, _ = map(len, self._captured)
        with tf.device(self._device):
            return tf.raw_ops.GeneratorDataset(
                init_func_other_args=[handle, *captured[:of_find]],
                next_func_other_args=captured[of_find : of_find + of_next],
                finalize_func_other_args=[resource, *captured[of_find + of_next :]],
                init_func=self._find,
                next_func=next_function,
                finalize_func=self._end,
                output_types=compat.flat_types(self.element_spec),
                output_shapes=compat.flat_shapes(self.element_spec),
            )

    def dataset_over(self, source: tf.data.Iterator) -> tf.Tensor:
        resource = compat.resource_of(source)
        handle = tf.raw_ops.IteratorToStringHandle(resource_handle=resource)
        return self._make(handle, resource, *(t for inputs in self._captured for t in inputs))

    def iterator_over(self, source: tf.data.Iterator) -> tf.data.Iterator:
        """An iterator on this stage's device; up to `slots` of its batches wait there."""
        with tf.device(self._device):
            dataset = _Generator(self, source)
            if self.slots:
                dataset = dataset.prefetch(self.slots)
            return iter(dataset.with_options(_stage_options(self._warm_up)))


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
    told = []
    if failed:
        told = [tf.cond(at_work, lambda: (failed(), True)[1], lambda: False)]
    with tf.control_dependencies(told):
        tf.debugging.Assert(tf.logical_not(at_work), [OUT_OF_RANGE])


class _Generator(tf.data.Dataset):
    """The dataset of one stage, over one iterator of the stage before."""

    def __init__(self, stage: Stage, source: tf.data.Iterator):
        self._stage = stage
        super().__init__(stage.dataset_over(source))

    def _inputs(self):
        return []  # the source is on another device; TensorFlow must not rewrite across that

    @property
    def element_spec(self):
        return self._stage.element_spec


def _trace(function: Callable, *signature, **keywords):
    traced = tf.function(function, input_signature=signature, autograph=False, **keywords)
    return traced.get_concrete_function()


def components(element) -> list[tf.Tensor]:
    """The tensors of an element, ragged and sparse ones taken apart."""
    return [t for t in tf.nest.flatten(element, expand_composites=True) if t is not None]


def component_specs(spec) -> tuple[tf.TypeSpec, ...]:
    return tuple(tf.nest.flatten(spec, expand_composites=True))


class Staging:
    """The slots between a host dataset and a step."""

    def __init__(
        self,
        host_spec,
        front_end: Callable | None,
        front_end_spec,
        devices: tuple[str, str],
        slots: tuple[int, int],
        progress: Progress | None = None,
        warm_up: bool = False,
    ):
        """`slots`: how many batches may wait on the first and on the second of the `devices`."""
        (data_device, target_device), (prepared_slots, ready_slots) = devices, slots
        self.number = next(_numbers)
        self.host_spec = host_spec
        self._host_device = compat.host_of(data_device)
        self._host_slots, self._stages = 0, []
        if data_device != self._host_device or warm_up:
            self._stages.append(
                Stage(
                    host_spec,
                    self._host_device,
                    data_device,
                    name=PREPARING,
                    slots=prepared_slots,
                    transform=front_end,
                    element_spec=front_end_spec,
                    get_next=progress.get_next_counted if progress else _get_next,
                    failed=progress.note_end if warm_up else None,
                    warm_up=warm_up,
                )
            )
        else:
            self._host_slots = prepared_slots
        self._stages.append(
            Stage(
                front_end_spec,
                data_device,
                target_device,
                name=READY,
                slots=ready_slots,
                unpack=True,
                get_next=progress.get_next_counted if progress and not self._stages else _get_next,
                arrived=progress.count_arrival if progress else None,
                warm_up=warm_up,
            )
        )

    @property
    def ready_slots(self) -> int:
        """How many batches of iterators made from now on may wait on the second device."""
        return self._stages[-1].slots

    @ready_slots.setter
    def ready_slots(self, count: int) -> None:
        self._stages[-1].slots = count

    def iterator_over(self, host: tf.data.Dataset) -> tf.data.Iterator:
        """`host`'s batches, through the front end, as components on the target device."""
        if compat.variant_of(host).device != self._host_device:
            # A function's arguments and results are on the default device.
            host = compat.moved(host, self._host_device)
        with tf.device(self._host_device):
            if self._host_slots:
                host = host.prefetch(self._host_slots)
            iterator = iter(host.with_options(_host_options(host.options())))
        for stage in self._stages:
            iterator = stage.iterator_over(iterator)
        return iterator


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
        options.threading.private_threadpool_size = usable_cores()
    return options
