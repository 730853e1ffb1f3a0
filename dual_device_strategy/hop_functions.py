"""Traced functions of hops.  What many hops have in common is traced once, for all of them.

Only the host's iterator may end the batches.  But a GeneratorDataset takes every OutOfRange of its
function for the end, also one from inside the front end: an iterator or a queue that has no more
elements, a Python function's StopIteration.  `Dataset.map` makes InvalidArgument of those.  So a
variable, the *mark*, says whether the front end is at work.  It is on the front end's own device,
and setting it passes a pointer and starts nothing there.  Behind the batches comes one element
more, whose function (`checker`) looks at the mark and then asks the source, which says that it has
no more.  (The last function of a GeneratorDataset could look as well; but it is called for an
iterator that is dropped, too, and TensorFlow prints a warning of every function that fails.)
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat

RESOURCE = tf.TensorSpec([], tf.resource)
_HANDLE, _NUMBER = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)

OUT_OF_RANGE = (
    "the function given to on_data_device produced OutOfRangeError: an iterator or a queue that it "
    "draws from has no more elements, or a Python function in it raised StopIteration; only the "
    "host's dataset may end the batches"
)


def trace(function: Callable, *signature, **keywords):
    traced = tf.function(function, input_signature=signature, autograph=False, **keywords)
    return traced.get_concrete_function()


def traced_once(make: Callable) -> Callable:
    """Decorates a function that traces one and uses nothing but its arguments, so that it is called
    once for the same ones."""

    @functools.lru_cache
    @functools.wraps(make)
    def made(*arguments):
        with tf.init_scope():  # a function that is being traced now would be kept, too
            return make(*arguments)

    return made


@traced_once
def name_tensor(device: str) -> tf.Tensor:
    """The device's name as a tensor to capture; GPUs have no kernel for string constants."""
    with tf.device(compat.host_of(device)):
        return tf.constant(device)


@traced_once
def number_zero():
    """Begins a GeneratorDataset whose functions need no state: returns 0."""
    return trace(lambda: tf.constant(0, tf.int64))


@traced_once
def number_back():
    """Ends a GeneratorDataset that began with `number_zero`."""
    return trace(lambda number: number, _NUMBER)


@traced_once
def holder():
    """Ends a hop; its arguments are the source's iterator, which is held until then."""
    return trace(lambda *held: tf.constant(0, tf.int64), RESOURCE, RESOURCE)


def finder(source_device: str, notes: int, begin: Callable | None):
    """Begins a hop: finds the source's iterator by its name, after `begin` with the notes."""
    if begin is None:
        return _plain_finder(source_device, notes)
    return _finder(source_device, notes, begin)


def _finder(source_device, notes, begin):
    target, remote_find = name_tensor(source_device), _remote_finder()

    def find(handle, *notes):
        if begin:
            begin(*notes[1:])
        (iterator,) = tf.raw_ops.RemoteCall(
            target=target, args=[handle], Tout=[tf.resource], f=remote_find
        )
        return iterator

    return trace(find, _HANDLE, *[RESOURCE] * notes)


@traced_once
def _plain_finder(source_device, notes):
    return _finder(source_device, notes, None)


def _find_here(handle):
    return tf.raw_ops.IteratorFromStringHandleV2(string_handle=handle)


@traced_once
def _remote_finder():
    return trace(_find_here, _HANDLE)


def checker(source_device: str, types: tuple[tf.DType, ...], failed: Callable | None):
    """What comes behind the last batch, which has components of these types: refuses an OutOfRange
    of the front end, after calling `failed`, and raises the source's end otherwise."""
    if failed is None:
        return _plain_checker(source_device, types)
    return _checker(source_device, types, failed)


def _checker(source_device, types, failed):
    target, remote_end = name_tensor(source_device), _remote_end(types)

    def check(number, handle, mark):
        del number
        with tf.control_dependencies([_refuse_mark(mark, failed)]):
            return tf.raw_ops.RemoteCall(  # raises the end of the sequence
                target=target, args=[handle], Tout=types, f=remote_end
            )

    return trace(check, _NUMBER, _HANDLE, RESOURCE)


@traced_once
def _plain_checker(source_device, types):
    return _checker(source_device, types, None)


@traced_once
def _remote_end(types):
    def get_end(handle):
        return tf.raw_ops.IteratorGetNext(
            iterator=_find_here(handle),
            output_types=types,
            output_shapes=[tf.TensorShape(None)] * len(types),
        )

    return trace(get_end, _HANDLE)


@traced_once
def mark_maker(device: str):
    """Makes a mark on the device."""

    def made_mark() -> tf.Tensor:
        with tf.device(device):
            mark = compat.anonymous_variable(tf.bool)
            with tf.control_dependencies([set_mark(mark, False, after=[])]):
                return tf.identity(mark)

    return trace(made_mark)


def set_mark(mark, at_work: bool, after):
    with tf.control_dependencies(after):
        return tf.raw_ops.AssignVariableOp(resource=mark, value=tf.constant(at_work))


def _refuse_mark(mark, failed):
    at_work = tf.raw_ops.ReadVariableOp(resource=mark, dtype=tf.bool)
    noted = []
    if failed:
        noted = [tf.cond(at_work, lambda: (failed(), True)[1], lambda: False)]
    with tf.control_dependencies(noted):
        return tf.debugging.Assert(tf.logical_not(at_work), [OUT_OF_RANGE])
