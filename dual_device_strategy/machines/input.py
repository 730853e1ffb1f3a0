"""Input on several workers: TensorFlow's shares of a dataset, through the slots of each worker.

dataset            TensorFlow's rebatch and autoshard leave this worker's part of every batch
Staging            the part goes through the data device to the model device (see `staging`)
TensorFlow's DistributedIterator      PerReplica values; empty ones where others have more
"""

import re

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.dataset_types import spec_of
from dual_device_strategy.distributed import StagedDataset, StagedDatasetSpec
from dual_device_strategy.front_end import split, traced_for
from dual_device_strategy.hop import component_specs
from dual_device_strategy.staging import Staging


class WorkersDataset(StagedDataset):
    """What `experimental_distribute_dataset` returns on each of several workers."""

    def __init__(self, strategy, dataset, options=None, input_context=None, whole=True):
        """`dataset`: with global batches, to be divided (`whole`), or with this worker's own."""
        extended = strategy.extended
        data_device = extended.data_device
        workers = extended._input_workers_with_options(options)
        host, _, _ = split(dataset, data_device)
        compat.DistributedDataset.__init__(
            self,
            workers,
            strategy,
            host,
            num_replicas_in_sync=extended._num_replicas_in_sync if whole else None,
            input_context=input_context if whole else None,
            options=options,
        )
        if not whole:
            self._cloned_datasets = [host]
        (part,) = self._cloned_datasets
        front_end, spec = traced_for(part, dataset, data_device)
        self._replica_spec = spec
        self._element_spec = compat.distributed_spec(strategy, spec)
        if whole and _as_many_for_every_worker(host, options):
            # Then nobody has to ask the others whether they have a batch, on every step.
            self._enable_get_next_as_optional = False
        (target,) = workers.compute_devices_for_worker(0)
        self._staging = Staging(
            host_spec=part.element_spec,
            front_end=front_end,
            front_end_spec=spec,
            devices=(data_device, target),
            slots=extended.slot_counts(options),
            host_options=part.options(),
        )

    def __iter__(self):
        iterator = self._staging.iterator_over(self._cloned_datasets[0])
        return WorkersIterator(
            input_workers=self._input_workers,
            components=[WorkerIterator(iterator, self._replica_spec)],
            element_spec=self._element_spec,
            strategy=self._strategy,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            options=self._options,
        )

    @property
    def element_spec(self):
        return compat.DistributedDataset.element_spec.fget(self)

    @property
    def _type_spec(self):
        return spec_of(self, WorkersDatasetSpec)


class WorkersDatasetSpec(StagedDatasetSpec):
    """Type of a `WorkersDataset`."""

    @property
    def value_type(self):
        return WorkersDataset


class WorkersIterator(compat.DistributedIterator):
    """TensorFlow's own; only where its values come from differs."""

    @property
    def _type_spec(self):
        spec = WorkersIteratorSpec(
            self._input_workers,
            self._element_spec,
            self._strategy,
            self._options,
            self._cardinality,
            self._enable_get_next_as_optional,
        )
        spec._replica_spec = self._iterators[0]._spec
        return spec


class WorkersIteratorSpec(compat.DistributedIteratorSpec):
    """Type of a `WorkersIterator`."""

    _replica_spec = None

    @property
    def value_type(self):
        return WorkersIterator

    def _without_tensor_names(self):
        return self

    def _with_tensor_ranks_only(self):
        return self

    @property
    def _component_specs(self):
        return [WorkerIteratorSpec(self._replica_spec)]

    def _from_components(self, components):
        return WorkersIterator(
            input_workers=self._input_workers,
            components=components,
            element_spec=self._element_spec,
            strategy=self._strategy,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            options=self._options,
        )

    @staticmethod
    def from_value(value):
        return value._type_spec


class WorkerIterator(compat.CompositeTensor):
    """What TensorFlow's DistributedIterator asks for the values of one worker's replicas."""

    def __init__(self, iterator, spec):
        self._iterator, self._spec = iterator, spec

    def get_next_as_list(self, name=None):
        del name
        return [self._packed(self._iterator.get_next())]

    def get_next_as_optional_list(self):
        optional = self._iterator.get_next_as_optional()
        if all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(self._spec)):
            return [compat.optional_of(compat.variant_of(optional), self._spec)]
        return [
            tf.cond(
                optional.has_value(),
                lambda: tf.experimental.Optional.from_value(self._packed(optional.get_value())),
                lambda: tf.experimental.Optional.empty(self._spec),
            )
        ]

    def _packed(self, flat):
        flat = tf.nest.flatten(flat, expand_composites=True)
        return tf.nest.pack_sequence_as(self._spec, flat, expand_composites=True)

    @property
    def _type_spec(self):
        return WorkerIteratorSpec(self._spec)


class WorkerIteratorSpec(tf.TypeSpec):
    """Type of a `WorkerIterator`."""

    def __init__(self, spec):
        self._spec = spec

    @property
    def value_type(self):
        return WorkerIterator

    def _serialize(self):
        return (self._spec,)

    @property
    def _component_specs(self):
        return [tf.data.IteratorSpec(component_specs(self._spec))]

    def _to_components(self, value):
        return [value._iterator]

    def _from_components(self, components):
        return WorkerIterator(components[0], self._spec)


def _as_many_for_every_worker(host: tf.data.Dataset, options) -> bool:
    """Whether each worker surely gets a part, maybe an empty one, of every batch.

    So it is where elements are divided and not files, and their number is known.
    """
    policy = host.options().experimental_distribute.auto_shard_policy
    policies = tf.data.experimental.AutoShardPolicy
    if tf.get_static_value(host.cardinality()) is None or host.cardinality() < 0:
        return False
    if policy == policies.DATA:
        return True
    return policy == policies.AUTO and not _may_read_files(host)


# Datasets that TensorFlow divides by files where it is left to choose.
_READS_FILES = re.compile(r"Record|TextLine|SSTable|Parquet|Csv|File|Parse|Snapshot|Load|Service")


def _may_read_files(dataset: tf.data.Dataset) -> bool:
    """Also where a function hides what the dataset was made from."""
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        if compat.came_through_a_function(node) or _READS_FILES.search(type(node).__name__):
            return True
        for graph in compat.graphs_of(node):
            if any("Dataset" in op.type for op in graph.get_operations()):
                return True
        waiting.extend(compat.inputs_of(node))
    return False
