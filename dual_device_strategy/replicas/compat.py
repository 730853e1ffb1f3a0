"""Private TensorFlow of several replicas; see `dual_device_strategy/compat.py`."""

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute as data_distribute
from tensorflow.python.data.ops import multi_device_iterator_ops
from tensorflow.python.distribute import input_lib, mirrored_strategy, values
from tensorflow.python.util import nest

MirroredExtended = mirrored_strategy.MirroredExtended
batch_size_of = data_distribute.compute_batch_size
batch_sizes_for_worker = data_distribute.batch_sizes_for_worker
map_up_to = nest.map_structure_up_to
per_replica = values.PerReplica
per_replica_element = input_lib._create_per_replica


def dealt(dataset: tf.data.Dataset, count: int, host: str) -> list[tf.data.Iterator]:
    """`count` iterators on the host that take the elements in turns.

    While one of them waits, at most one element is held for each of the others.
    """
    with tf.device(host):
        if count == 1:
            return [iter(dataset)]
        dealer = multi_device_iterator_ops.OwnedMultiDeviceIterator(
            dataset,
            [host] * count,
            source_device=host,
            max_buffer_size=1,
            prefetch_buffer_size=0,
        )
    return dealer._device_iterators


def per_replica_specs(element_spec, replicas: int) -> list:
    """The spec of each replica's element, from that of a distributed dataset."""
    return [
        tf.nest.map_structure(
            lambda spec: input_lib._replace_per_replica_spec(spec, i), element_spec
        )
        for i in range(replicas)
    ]
