"""Input on several workers: TensorFlow's shares of a dataset, through the slots of each worker.

dataset            TensorFlow's rebatch and autoshard leave this worker's part of every batch
ReplicaStaging     the part goes through a data device, is cut, and goes to the model devices
Staging            the same for one data device and one model device, where nothing is cut
ReplicaIterator    PerReplica values; empty ones where others have more
"""

import re

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord
from dual_device_strategy.front_end import split, traced_for
from dual_device_strategy.hop import component_specs
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.dataset import ReplicaDataset, counts_of
from dual_device_strategy.replicas.iterator import ReplicaIterator
from dual_device_strategy.replicas.pieces import Cut, full_batch_size
from dual_device_strategy.replicas.staging import ReplicaStaging
from dual_device_strategy.staging import Staging


class WorkersIterator(ReplicaIterator):
    """A `ReplicaIterator` that asks the other workers, where it must, if they have a batch."""

    def _ends_alone(self):
        return not self._enable_get_next_as_optional


class WorkersDataset(ReplicaDataset):
    """What `experimental_distribute_dataset` returns on each of several workers.

    The dataset has global batches.  Each worker gets a part of every batch, prepares this part as
    a whole on one of its data devices, and cuts it for its model devices.
    """

    _iterator_type = WorkersIterator

    def __init__(self, strategy, dataset, options, input_context):
        extended = strategy.extended
        workers = extended._input_workers_with_options(options)
        targets = workers.compute_devices_for_worker(0)
        self._replicas = len(targets)
        host, _, _ = split(dataset, extended.data_device)
        self._divides_elements = _divides_elements(host)
        compat.DistributedDataset.__init__(
            self,
            workers,
            strategy,
            host,
            num_replicas_in_sync=input_context.num_input_pipelines,  # one part for each worker
            input_context=input_context,
            options=options,
        )
        (part,) = self._cloned_datasets
        front_end, spec = traced_for(part, dataset, extended.data_device)
        self._front_end = front_end
        pieces = tf.nest.map_structure(lambda each: _piece_of(each, self._replicas), spec)
        self._element_spec = compat.distributed_spec(strategy, pieces)
        if not extended.data_service and _every_worker_has_a_part(host, options):
            # Saves asking the other workers in every step whether they have a batch.
            self._enable_get_next_as_optional = False
        self._counts = counts_of(extended, workers)
        settings = {
            "slots": extended.slot_counts(options),
            "copying": extended.copying_slots(options),
            "copy_times": extended.running_input.copy_times,
            "counts": self._counts,
            "host_options": part.options(),
        }
        self._cut = self._replicas > 1 or len(extended.data_devices) > 1
        if self._cut:
            self._staging = ReplicaStaging(
                part.element_spec,
                front_end,
                spec,
                data_devices=extended.data_devices,
                targets=targets,
                cut=extended.cut_of(host),
                captured_by=extended.captured_by,
                **settings,
            )
        else:
            self._staging = Staging(
                host_spec=part.element_spec,
                front_end=front_end,
                front_end_spec=spec,
                devices=(extended.data_device, targets[0]),
                **settings,
            )

    def _create_cloned_datasets_from_dataset(self, dataset, context, *others):
        extended = self._strategy.extended
        if extended.data_service and context.num_input_pipelines > 1:
            parts = dataset.rebatch(_rows_of_part(dataset, context.num_input_pipelines))
            if tf.get_static_value(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
                # Which rebatch does not know of its batches.
                endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
                parts = parts.apply(endless)
            self._cloned_datasets = [extended.served_to_all(parts)]
            return
        dataset = extended.served(dataset)
        if self._replicas == 1 or not self._divides_elements:
            compat.DistributedDataset._create_cloned_datasets_from_dataset(
                self, dataset, context, *others
            )
            return
        # The same rows as in TensorFlow, which cuts a batch for all replicas and then deals the
        # pieces to the workers in turns.
        workers, worker = context.num_input_pipelines, context.input_pipeline_id
        cut = Cut(self._replicas * workers)

        def part(*element):
            element = element if len(element) > 1 else element[0]
            return tf.nest.map_structure(lambda each: cut.dealt(each, worker, workers), element)

        self._cloned_datasets = [dataset.map(part) if workers > 1 else dataset]

    def _make_rebatch_fn(self, dataset, num_workers, num_replicas_in_sync):
        """As TensorFlow's, but a worker's part has the rows of all its replicas together."""
        rebatched = super()._make_rebatch_fn(dataset, num_workers, num_replicas_in_sync)
        size = tf.get_static_value(replica_compat.batch_size_of(dataset))
        if self._replicas == 1 or size is None or size < 0:
            return rebatched

        def of_whole_parts(dataset, worker):
            rows = replica_compat.batch_sizes_for_worker(size, num_workers, self._replicas, worker)
            parts = tf.reduce_sum(tf.reshape(rows, [num_workers, self._replicas]), axis=1)
            return dataset.rebatch(parts).prefetch(1)

        return of_whole_parts

    def __iter__(self):
        counted = self._counts if tf.executing_eagerly() else None
        before = counted and counted.now()
        extended, staging, (part,) = self._strategy.extended, self._staging, self._cloned_datasets
        record = None
        if tf.executing_eagerly():
            record = IteratorRecord(staging.recorder)
        batches = staging.iterator_over(part, record)
        iterator = self._iterator([batches], sealed=self._cut)
        if record:
            iterator.place = extended.place_of(
                staging, part, front_end=self._front_end, iterator=batches, record=record
            )
        iterator.slots = staging.copying + staging.ready_slots + 2
        if counted:
            iterator.counts, iterator.arrivals = counted, counted.arrivals(before)
        self._strategy.extended.running_input.began(iterator, staging.copying)
        return iterator


def _rows_of_part(dataset: tf.data.Dataset, workers: int) -> int:
    """The rows of the batches that a data service makes for the workers to share."""
    rows = full_batch_size(dataset)
    if rows is None:  # a map may have made the batches
        shapes = [spec.shape for spec in component_specs(dataset.element_spec)]
        rows, *others = {shape[0] if shape.rank else None for shape in shapes}
        rows = None if others else rows
    if rows is None or rows % workers:
        raise ValueError(
            f"a data service for {workers} workers makes batches of one worker's rows, but the "
            f"dataset's batches have {rows or 'an unknown number of'} rows: batch it by a multiple "
            f"of {workers}"
        )
    return rows // workers


def _piece_of(spec: tf.TypeSpec, replicas: int) -> tf.TypeSpec:
    """The type of each replica's piece of a batch of type `spec`."""
    if replicas == 1 or not spec.shape.rank:
        return spec
    rows = spec.shape[0]
    even = rows is not None and rows % replicas == 0
    return spec._unbatch()._batch(rows // replicas if even else None)


def _every_worker_has_a_part(host: tf.data.Dataset, options) -> bool:
    """Whether each worker certainly gets a part of every batch, even if it is empty.

    True if TensorFlow divides elements, not files, and knows how many there are.
    """
    if tf.get_static_value(host.cardinality()) is None or host.cardinality() < 0:
        return False
    return _divides_elements(host)


def _divides_elements(host: tf.data.Dataset) -> bool:
    """Whether TensorFlow certainly divides elements among the workers, not files."""
    policy = host.options().experimental_distribute.auto_shard_policy
    policies = tf.data.experimental.AutoShardPolicy
    return policy == policies.DATA or (policy == policies.AUTO and not _may_read_files(host))


# With AutoShardPolicy.AUTO, TensorFlow divides datasets of these types by files.
_READS_FILES = re.compile(r"Record|TextLine|SSTable|Parquet|Csv|File|Parse|Snapshot|Load|Service")


def _may_read_files(dataset: tf.data.Dataset) -> bool:
    """Whether a dataset reads files, or a function hides what it was made from."""
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
