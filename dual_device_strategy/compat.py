"""Private TensorFlow: what a new release could move.

`tensorflow.python` is imported here and in the files of the same name in the rooms that need more
(checkpoints, devices, emulation, machines, replicas).  Besides, derived classes use what they
inherit:

* `distributed.py`, from DistributedDataset and DistributedIterator: `_cardinality`,
  `_cloned_datasets`, `_element_spec`, `_enable_get_next_as_optional`, `_input_workers`,
  `_iterators`, `_options`, `_original_dataset`, `_strategy`; it overrides `_component_specs`,
  `_from_components`, `_serialize`, `_type_spec`, `_with_tensor_ranks_only` and
  `_without_tensor_names` of their type specs.
* `strategy.py`, from OneDeviceExtended: `_container_strategy`, `_device`, `_input_device`; it
  overrides `_create_variable`, `_distribute_datasets_from_function`,
  `_experimental_distribute_dataset` and `_input_workers_with_options`.
* `machines/strategy.py`, from CollectiveAllReduceExtended: `_input_workers`, `_make_input_context`,
  `_get_variable_creator_initial_value`; it overrides `_initialize_local_devices`, `_reduce_to`,
  `_create_variable` and what distributes datasets.
* `replicas/`, from the same: `_built`, `_create_cloned_datasets_...`, `_input_context`,
  `_make_rebatch_fn`, `_num_replicas_in_sync`, `_replica_order`; from MirroredStrategy:
  `_collective_key_base`; from MirroredExtended: `_devices`, `_num_replicas_in_sync`, and that
  `_create_variable` takes its devices from what it is colocated with.
* `hop.py`, from Dataset: it overrides `_inputs`.
"""

import re
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.python.autograph.operators import py_builtins
from tensorflow.python.data.ops import dataset_ops, optional_ops
from tensorflow.python.data.util import structure
from tensorflow.python.distribute import (
    device_util,
    distribute_lib,
    input_lib,
    input_ops,
    input_util,
    one_device_strategy,
)
from tensorflow.python.eager import context
from tensorflow.python.framework import (
    auto_control_deps_utils,
    composite_tensor,
    function_def_to_graph,
    type_utils,
)
from tensorflow.python.ops import gen_dataset_ops, resource_variable_ops
from tensorflow.python.types import distribute as distribute_types

CompositeTensor = composite_tensor.CompositeTensor
DistributedDataset = input_lib.DistributedDataset
DistributedDatasetSpec = input_lib.DistributedDatasetSpec
DistributedIterable = distribute_types.Iterable
DistributedIterator = input_lib.DistributedIterator
DistributedIteratorSpec = input_lib.DistributedIteratorSpec
InputWorkers = input_lib.InputWorkers
OneDeviceExtended = one_device_strategy.OneDeviceExtended
enter_or_assert_strategy = distribute_lib.enter_or_assert_strategy
host_of = device_util.get_host_for_device
stop_collecting_graphs = context.disable_graph_collection
strategy_and_replica_context = distribute_lib.get_strategy_and_replica_context
resolve_device = device_util.resolve
auto_shard = input_ops.auto_shard_dataset
flat_types = structure.get_flat_tensor_types
flat_shapes = structure.get_flat_tensor_shapes
from_flat = structure.from_compatible_tensor_list
to_flat = structure.to_tensor_list
optional_of = optional_ops._OptionalImpl
register_zip = py_builtins.zip_registry.register  # (a kind of objects, what AutoGraph calls)


def mark_full_type(tensors: Sequence[tf.Tensor], spec) -> None:
    """Tells a RemoteCall what is in its variants, so that strings in them stay in host memory."""
    full_type = type_utils.fulltype_list_to_product(type_utils.fulltypes_for_flat_tensors(spec))
    for tensor in tensors:
        tensor.op.experimental_set_type(full_type)


def on_one_thread(function: tf.types.experimental.ConcreteFunction) -> tf.compat.v1.NameAttrList:
    """`function`, as an op's attribute in a graph; the thread that runs it does not change.

    TensorFlow has an executor for that.  It waits for asynchronous ops, knows no control flow,
    and forwards no buffers.
    """
    function.add_to_graph(tf.compat.v1.get_default_graph())
    called = tf.compat.v1.NameAttrList(name=function.name)
    called.attr["_executor"].s = b"SINGLE_THREADED_EXECUTOR"
    return called


def host_variable(value, device: str) -> tf.Variable:
    """A variable on `device`, even inside a strategy's scope."""
    with tf.init_scope(), tf.device(device):
        return resource_variable_ops.ResourceVariable(value, trainable=False)


def anonymous_variable(dtype: tf.DType) -> tf.Tensor:
    """The handle of a new variable on the current device, which is gone with its last handle."""
    name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"  # ResourceHandle::ANONYMOUS_NAME
    return tf.raw_ops.VarHandleOp(dtype=dtype, shape=[], shared_name=name)


def variable_dtype(handle: tf.Tensor) -> tf.DType | None:
    """The type of a variable's value; None if the resource is not a variable."""
    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    known = data is not None and data.is_set and len(data.shape_and_type) == 1
    return tf.as_dtype(data.shape_and_type[0].dtype) if known else None


def written_resources(function: tf.types.experimental.ConcreteFunction) -> list[tf.Tensor]:
    """The resources from outside that a traced function does more to than read."""
    graph = function.graph
    read_only = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph))
    first = len(graph.inputs) - len(function.captured_inputs)
    return [
        captured
        for index, captured in enumerate(function.captured_inputs, first)
        if captured.dtype == tf.resource and index not in read_only
    ]


def of_any_batch_size(spec: tf.TypeSpec) -> tf.TypeSpec:
    return spec._unbatch()._batch(None) if spec.shape.rank else spec


def datasets_from_function(dataset_fn, *, workers, replicas, strategy, options, contexts=None):
    """TensorFlow's own distributed datasets of what `dataset_fn` makes, one for each worker.

    Without `contexts` the `workers` are all that there are.
    """
    contexts = contexts or [
        tf.distribute.InputContext(workers.num_workers, i, replicas)
        for i in range(workers.num_workers)
    ]
    return input_util.get_distributed_datasets_from_function(
        dataset_fn, workers, contexts, strategy, options=options
    )


def variant_of(dataset_or_optional) -> tf.Tensor:
    return dataset_or_optional._variant_tensor


def moved(dataset: tf.data.Dataset, device: str) -> tf.data.Dataset:
    """`dataset`, whose variant may have come from anywhere, on `device`."""
    wrapped = tf.raw_ops.WrapDatasetVariant(input_handle=dataset._variant_tensor)
    with tf.device(device):
        variant = tf.raw_ops.UnwrapDatasetVariant(input_handle=wrapped)
    return dataset_of(variant, dataset.element_spec)


def dataset_of(variant: tf.Tensor, element_spec) -> tf.data.Dataset:
    """A dataset by its variant; TensorFlow's rewriting does not look behind it."""
    return dataset_ops._VariantDataset(variant, element_spec)


def resource_of(iterator: tf.data.Iterator) -> tf.Tensor:
    return iterator._iterator_resource


def dataset_iterated_by(iterator: tf.data.Iterator) -> tf.data.Dataset:
    return iterator._dataset


def iterator_on(
    device: str, dataset: tf.data.Dataset, again: tf.data.Iterator | None = None
) -> tf.data.Iterator:
    """An iterator on `device`, where its functions run, over a dataset of the host.

    TensorFlow makes some datasets on the host only, but all of them run wherever the iterator is.
    `again` is an iterator on `device` that is to become this one.
    """
    with tf.device(device):
        if again is None:
            spec = dataset.element_spec
            resource = gen_dataset_ops.anonymous_iterator_v3(flat_types(spec), flat_shapes(spec))
            if not tf.executing_eagerly():  # so that strings in variants stay in host memory
                resource.op.experimental_set_type(type_utils.iterator_full_type_from_spec(spec))
            again = tf.data.IteratorSpec(spec)._from_components([resource])
        return made_again(again, dataset)


def made_again(iterator: tf.data.Iterator, dataset: tf.data.Dataset) -> tf.data.Iterator:
    """`iterator`, which stays what it is for all that hold it, now at the begin of `dataset`."""
    tf.raw_ops.MakeIterator(dataset=variant_of(dataset), iterator=resource_of(iterator))
    iterator._dataset = dataset
    return iterator


def take_next(iterator: tf.data.Iterator, scope: str) -> Sequence[tf.Tensor]:
    """The next element's flat tensors; in a graph, the op that takes them is in that scope.

    Eagerly by the shortest way, because all of it is between two steps, in caches that the step
    has emptied; and on Python's own thread, which has to wait anyway.
    """
    eager = context.context()
    if not eager.executing_eagerly():
        with tf.name_scope(scope):
            return iterator.get_next()
    if eager.is_async():
        with context.execution_mode(context.SYNC):
            return _take_next(iterator)
    return _take_next(iterator)


def _take_next(iterator):
    return gen_dataset_ops.iterator_get_next_sync(
        iterator._iterator_resource, iterator._flat_output_types, iterator._flat_output_shapes
    )


def inputs_of(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    return dataset._inputs()


def graphs_of(dataset: tf.data.Dataset) -> list[tf.Graph]:
    """The graphs of the functions that `dataset` itself applies."""
    return [function.function.graph for function in dataset._functions()]


def traced_map_function(dataset: tf.data.Dataset) -> tf.types.experimental.ConcreteFunction:
    """The function of a `map`, over the flat tensors of an element."""
    return dataset._map_func.function


def python_map_function(dataset: tf.data.Dataset):
    """The function of a `map` as it was given."""
    return dataset._map_func._func


def drops_remainder(dataset: tf.data.Dataset) -> bool:
    """Whether a `batch` leaves out an incomplete last one."""
    return bool(tf.get_static_value(dataset._drop_remainder))


def distributed_spec(strategy: tf.distribute.Strategy, replica_spec):
    """The spec of all replicas' values; each is of `replica_spec`."""
    return input_lib._create_distributed_tensor_spec(strategy, replica_spec)


def ops_of(function: tf.types.experimental.ConcreteFunction) -> Iterator[tf.Operation]:
    """The ops of a traced function and of all functions that it calls."""
    yield from ops_of_graph(function.graph)


def ops_of_graph(graph: tf.Graph) -> Iterator[tf.Operation]:
    yield from graph.get_operations()
    for name in graph.as_graph_def().library.function:
        called = function_def_to_graph.function_def_to_graph(name)
        yield from called.get_operations()


def is_stateful(op: tf.Operation) -> bool:
    return op.op_def.is_stateful


# Where the name of a dataset's class does not say how it was made.
_OPERATIONS = {
    "dense_to_sparse_batch": "sparse_batch",
    "options": "with_options",
    "parallel_batch": "batch",
    "parallel_interleave": "interleave",
    "parallel_map": "map",
}


def operation_of(dataset: tf.data.Dataset) -> str:
    """What made `dataset`: the name of the method of tf.data.Dataset, where there is one."""
    words = re.findall("[A-Z][a-z]*", type(dataset).__name__.removesuffix("Dataset"))
    name = "_".join(words).lower()
    return _OPERATIONS.get(name, name)


def came_through_a_function(dataset: tf.data.Dataset) -> bool:
    """Whether only its C++ object is known, and not what it was made from."""
    return isinstance(dataset, dataset_ops._VariantDataset)


def serialized(dataset: tf.data.Dataset) -> tf.Tensor:
    """The dataset's graph as a string; its state is of no interest."""
    return dataset._as_serialized_graph(
        external_state_policy=tf.data.experimental.ExternalStatePolicy.IGNORE
    )


def count_of(dataset: tf.data.Dataset) -> tf.Tensor:
    """The argument of a `take`, `skip` or `repeat`."""
    return dataset._count


def buffer_size_of(dataset: tf.data.Dataset) -> int:
    """The argument of a `prefetch`; AUTOTUNE if it is only known when the program runs."""
    size = tf.get_static_value(dataset._buffer_size)
    return tf.data.AUTOTUNE if size is None else int(size)


def runtime_started() -> bool:
    """Whether TensorFlow's runtime runs, and its devices are settled."""
    return context.context()._context_handle is not None
