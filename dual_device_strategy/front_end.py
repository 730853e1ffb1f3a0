"""`on_data_device`: the part of a tf.data pipeline that runs on the data device."""

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from dual_device_strategy import compat

_NAME = "on_data_device"
# Where on_data_device() was applied in this process. Only then may one be hidden in a dataset that
# came through a function, and looking for it takes half a minute for a gigabyte of tensors.
_applied = {"eagerly": False, "in a function": False}
_thread = threading.local()


def on_data_device(fn: Callable) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """A transformation for `Dataset.apply` whose function runs on the data device.

        dataset = dataset.batch(32).apply(on_data_device(extract_features))

    `fn` is called as `Dataset.map` calls it: a tuple element becomes its arguments, and it may
    capture variables and lookup tables and use random ops.  It is traced once, when applied.
    Under any other strategy, or none, this is an ordinary `map` on the host.

    What may follow it in the pipeline:

    * `map`: runs on the data device too, in the same slot.  Keras adds one for `class_weight`.
    * `take`, `skip`, `repeat`: choose which batches; done on the host, before the front end.
    * `prefetch`: done on the host, before the front end; after it, the slots are the buffer.
    * `with_options`: applies to the host pipeline.
    * `tf.data.experimental.assert_cardinality`: sets the cardinality, and is not checked, as under
      TensorFlow's strategies.
    * another `on_data_device`: runs on the data device, in the same slot.

    Anything else (`batch`, `shuffle`, `cache`, ...) is refused when the dataset is distributed,
    because it would have to bring the batches back to the host.  Also refused are `skip` after a
    function with state that affects other batches (seeded random ops, `tf.random.Generator`,
    variables it assigns to), and a dataset that went through a `tf.function` with this already
    applied.

    Only the host's dataset may end the batches.  An OutOfRange inside `fn` (an iterator of its
    own that has no more elements, a StopIteration in a `tf.numpy_function`) becomes an
    InvalidArgumentError, as in `Dataset.map`.  Unlike there, the iterator has then ended.
    """

    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        with _tracing():
            mapped = dataset.map(fn, name=_NAME)
        mapped.runs_on_data_device = True
        _applied["eagerly" if tf.executing_eagerly() else "in a function"] = True
        graph = tf.compat.v1.get_default_graph()
        while graph is not None:  # so that a dataset with this hidden in its function is known
            graph.runs_on_data_device = True
            graph = getattr(graph, "outer_graph", None)
        return mapped

    return apply


@contextlib.contextmanager
def _tracing():
    before, _thread.traces = is_being_traced(), True
    try:
        yield
    finally:
        _thread.traces = before


def is_being_traced() -> bool:
    """Whether this thread traces a front end."""
    return getattr(_thread, "traces", False)


# The operations allowed after on_data_device(), besides maps, and how the host does them before it.
_BEFORE_THE_FRONT_END = {
    "with_options": lambda host, op: host.with_options(op.options()),
    "prefetch": lambda host, op: host.prefetch(compat.buffer_size_of(op)),
    "take": lambda host, op: host.take(compat.count_of(op)),
    "skip": lambda host, op: host.skip(compat.count_of(op)),
    "repeat": lambda host, op: host.repeat(compat.count_of(op)),
    "assert_cardinality": lambda host, op: host.apply(
        tf.data.experimental.assert_cardinality(op.cardinality())
    ),
}


def split(dataset: tf.data.Dataset, data_device: str):
    """The host's part of `dataset`, the front end (a function or None), and the element spec.

    If the data device is the host itself, there is nothing to split.
    """
    if data_device == compat.host_of(data_device):
        return dataset, None, dataset.element_spec
    _refuse_hidden(dataset)
    behind = []
    node = dataset
    while _has_front_end(node):
        inputs = compat.inputs_of(node)
        kind = compat.operation_of(node)
        if len(inputs) != 1 or not (kind == "map" or kind in _BEFORE_THE_FRONT_END):
            raise ValueError(_refusal(node))
        behind.append(node)
        (node,) = inputs
    if not behind:
        return dataset, None, dataset.element_spec
    host, functions = node, []
    for op in reversed(behind):
        kind = compat.operation_of(op)
        if kind == "map":
            functions.append(compat.traced_map_function(op))
        else:
            if kind == "skip":
                _refuse_skip(functions)
            host = _BEFORE_THE_FRONT_END[kind](host, op)

    return host, FrontEnd(tuple(functions)), dataset.element_spec


@dataclasses.dataclass(frozen=True)
class FrontEnd:
    """The functions that run on the data device, one after the other, over flat tensors."""

    functions: tuple

    @property
    def written(self) -> list[tf.Tensor]:
        """The handles of the variables that it assigns to, generators' states among them."""
        handles = {
            id(handle): handle
            for function in self.functions
            for handle in compat.written_resources(function)
        }
        return [handle for handle in handles.values() if compat.variable_dtype(handle)]

    def __call__(self, flat):
        for function in self.functions:
            flat = function(*flat)
        return flat


def traced_for(part: tf.data.Dataset, dataset: tf.data.Dataset, data_device: str):
    """The front end of `dataset`, traced for `part`, whose elements are parts of its batches.

    Returns the function (or None), and the spec of its results.
    """
    if data_device == compat.host_of(data_device):
        return None, part.element_spec
    functions, node = [], dataset
    while _has_front_end(node):
        if compat.operation_of(node) == "map":
            functions.append(compat.python_map_function(node))
        (node,) = compat.inputs_of(node)
    for function in reversed(functions):
        part = part.apply(on_data_device(function))
    _, front_end, spec = split(part, data_device)
    return front_end, spec


# Ops with state that a function may use for skipped batches or not: nobody sees the difference.
_HARMLESS = {
    "Assert",
    "Case",
    "CheckNumerics",
    "CheckNumericsV2",
    "If",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "PartitionedCall",
    "Placeholder",
    "PrintV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "StatefulPartitionedCall",
    "TimedInPlace",  # of the emulated GPUs
    "VarIsInitializedOp",
    "While",
}


def _refuse_skip(functions) -> None:
    """Refuses `skip` after a function with state; elsewhere skipped batches change that state."""
    for function in functions:
        for op in compat.ops_of(function):
            if changes_state(op):
                raise ValueError(
                    f"the dataset has a skip operation behind on_data_device(), whose function "
                    f"has the stateful op {op.type} ({op.name}): batches are skipped before the "
                    "function sees them, so it would go on with another state than under other "
                    "strategies; write dataset.skip(...).apply(on_data_device(fn)), with skip "
                    "before it, or use stateless random ops"
                )


def changes_state(op: tf.Operation) -> bool:
    """Whether running the op affects other batches."""
    return op.type not in _HARMLESS and compat.is_stateful(op) and not _unseeded(op)


def _unseeded(op) -> bool:
    """Whether it draws different numbers in every run, so no particular ones can be expected."""
    attributes = op.node_def.attr
    return "seed2" in attributes and not attributes["seed"].i and not attributes["seed2"].i


def _nodes(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """`dataset` and every dataset that went into it."""
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(compat.inputs_of(node))


# As TensorFlow's sharding by files looks for them.
_READERS = re.compile("ArrayRecord|FixedLengthRecord|RecordIO|SSTable|TextLine|TFRecord")


def reads_files(dataset: tf.data.Dataset) -> bool:
    """Whether TensorFlow would find files in `dataset` to shard it by."""
    for node in _nodes(dataset):
        if _READERS.search(type(node).__name__):
            return True
        for graph in compat.graphs_of(node):
            names = {op.type for op in compat.ops_of_graph(graph)}
            if any(_READERS.match(name) and "Dataset" in name for name in names):
                return True
    return False


def _has_front_end(dataset: tf.data.Dataset) -> bool:
    return any(getattr(node, "runs_on_data_device", False) for node in _nodes(dataset))


def _refuse_hidden(dataset: tf.data.Dataset) -> None:
    for node in _nodes(dataset):
        if any(getattr(graph, "runs_on_data_device", False) for graph in compat.graphs_of(node)):
            raise ValueError(
                "on_data_device() was applied inside the function of "
                f"{compat.operation_of(node)}, which runs on the host; apply it to the dataset "
                "that is distributed instead"
            )
        # A function's result has what was applied in it, an argument what was applied anywhere.
        if compat.came_through_a_function(node) and (
            _applied["in a function"] or (_applied["eagerly"] and not tf.executing_eagerly())
        ):
            _refuse_lost(compat.serialized(node))


def _refuse_lost(serialized: tf.Tensor) -> None:
    """Refuses a dataset that came through a tf.function with a front end hidden inside it.

    TensorFlow knows only the C++ object of such a dataset.
    """
    message = (
        "the dataset came through a tf.function, as its result or its argument, with "
        "on_data_device() already applied, and can no longer be divided; apply on_data_device() "
        "to what the function returns, or distribute the dataset outside of the function"
    )
    if tf.executing_eagerly():
        if _NAME.encode() in serialized.numpy():
            raise ValueError(message)
        return
    # \C is any byte, also one that is no text.
    lost = tf.strings.regex_full_match(serialized, rf"\C*{_NAME}\C*")
    tf.debugging.Assert(tf.logical_not(lost), [message])


# Where "dataset.NAME(...)" is not what made the dataset.
_REMEDIES = {
    "copy_to_device": "leave it out: the strategy brings the batches to the model device",
    "directed_interleave": (
        "apply on_data_device to what sample_from_datasets or choose_from_datasets returns"
    ),
    "zip": "apply on_data_device to what enumerate() or tf.data.Dataset.zip returns",
}


def _refusal(dataset: tf.data.Dataset) -> str:
    name = compat.operation_of(dataset)
    how = f"put it before: dataset.{name}(...).apply(on_data_device(fn))"
    remedy = _REMEDIES.get(name, how if hasattr(tf.data.Dataset, name) else "apply it before")
    return (
        f"the dataset has a {name} operation behind on_data_device(), which would have to run on "
        f"the host; {remedy}. Behind on_data_device() there may be map, take, skip, repeat, "
        "prefetch, assert_cardinality, with_options and on_data_device"
    )
