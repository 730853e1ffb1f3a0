"""`on_data_device`: the part of a tf.data pipeline that runs on the data device."""

from collections.abc import Callable, Iterator

import tensorflow as tf

from dual_device_strategy import compat


def on_data_device(fn: Callable) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """A transformation for `Dataset.apply` whose function runs on the data device.

        dataset = dataset.batch(32).apply(on_data_device(extract_features))

    `fn` is called as `Dataset.map` calls it: a tuple element becomes its arguments, and it may
    capture variables and lookup tables and use random ops.  It is traced once, when applied.
    Under any other strategy, or none, this is an ordinary `map` on the host.

    What may follow it in the pipeline:

    * `map`: runs on the data device too, in the same slot.  Keras adds one for `class_weight`.
    * `take`, `skip`, `repeat`: choose which batches; done on the host, before the front end.
    * `prefetch`: done on the host, before the front end; behind it, the slots are the buffer.
    * `with_options`: holds for the host pipeline.
    * another `on_data_device`: runs on the data device, in the same slot.

    Anything else (`batch`, `shuffle`, `cache`, ...) is refused when the dataset is distributed,
    because it would have to bring the batches back to the host.
    """

    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        mapped = dataset.map(fn, name="on_data_device")
        mapped.runs_on_data_device = True
        graph = tf.compat.v1.get_default_graph()
        while graph is not None:  # so that a dataset with this hidden in its function is known
            graph.runs_on_data_device = True
            graph = getattr(graph, "outer_graph", None)
        return mapped

    return apply


# What may stand behind on_data_device(), besides maps, and how the host does it before.
_BEFORE_THE_FRONT_END = {
    "_OptionsDataset": lambda host, op: host.with_options(op.options()),
    "_PrefetchDataset": lambda host, op: host.prefetch(compat.buffer_size_of(op)),
    "_TakeDataset": lambda host, op: host.take(compat.count_of(op)),
    "_SkipDataset": lambda host, op: host.skip(compat.count_of(op)),
    "_RepeatDataset": lambda host, op: host.repeat(compat.count_of(op)),
}
_MAPS = ("_MapDataset", "_ParallelMapDataset")


def split(dataset: tf.data.Dataset, data_device: str):
    """The host's part of `dataset`, the data device's (a function or None), the element spec.

    Where the data device is the host itself there is nothing to split.
    """
    if data_device == compat.host_of(data_device):
        return dataset, None, dataset.element_spec
    _refuse_hidden(dataset)
    behind = []
    node = dataset
    while _has_front_end(node):
        inputs = compat.inputs_of(node)
        kind = type(node).__name__
        if len(inputs) != 1 or not (kind in _MAPS or kind in _BEFORE_THE_FRONT_END):
            raise ValueError(_refusal(node))
        behind.append(node)
        (node,) = inputs
    if not behind:
        return dataset, None, dataset.element_spec
    host, functions = node, []
    for op in reversed(behind):
        kind = type(op).__name__
        if kind in _MAPS:
            functions.append(compat.traced_map_function(op))
        else:
            host = _BEFORE_THE_FRONT_END[kind](host, op)

    def front_end(flat):
        for function in functions:
            flat = function(*flat)
        return flat

    return host, front_end, dataset.element_spec


def _nodes(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """`dataset` and all that it is made from."""
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(compat.inputs_of(node))


def _has_front_end(dataset: tf.data.Dataset) -> bool:
    return any(getattr(node, "runs_on_data_device", False) for node in _nodes(dataset))


def _refuse_hidden(dataset: tf.data.Dataset) -> None:
    for node in _nodes(dataset):
        if any(getattr(graph, "runs_on_data_device", False) for graph in compat.graphs_of(node)):
            raise ValueError(
                f"on_data_device() was applied inside the function of {_name(node)}, which runs "
                "on the host; apply it to the dataset that is distributed instead"
            )


def _name(dataset: tf.data.Dataset) -> str:
    return type(dataset).__name__.strip("_").removesuffix("Dataset")


def _refusal(dataset: tf.data.Dataset) -> str:
    name = _name(dataset)
    return (
        f"the dataset has a {name} operation behind on_data_device(), which would have to run on "
        f"the host; put it before: dataset.{name.lower()}(...).apply(on_data_device(fn)). "
        "Behind on_data_device() there may be map, take, skip, repeat, prefetch, with_options "
        "and on_data_device"
    )
