"""Distributed datasets for several replicas: TensorFlow's own, over staged batches."""

import copy

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord
from dual_device_strategy.checkpoints.saved_iterator import Place, new_count
from dual_device_strategy.dataset_types import TypeWithHops
from dual_device_strategy.front_end import split
from dual_device_strategy.hop import component_specs
from dual_device_strategy.out_of_memory import bytes_of
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.iterator import ReplicaBatches, ReplicaIterator
from dual_device_strategy.replicas.plans import Plan
from dual_device_strategy.replicas.shares import AUTO
from dual_device_strategy.replicas.staging import ReplicaStaging
from dual_device_strategy.slot_tuning import SlotTuning
from dual_device_strategy.together import zipped


class ReplicaDataset(compat.DistributedDataset):
    """A dataset of global batches, each prepared whole, cut, and copied to the replicas' devices.

    TensorFlow's constructor gets the whole dataset, so the element spec, the cardinality and the
    refusals are TensorFlow's own.  Only the source of the batches is replaced afterwards.
    """

    _iterator_type = ReplicaIterator

    def __init__(self, strategy, dataset, options=None):
        extended = strategy.extended
        workers = extended._input_workers_with_options(options)
        super().__init__(
            workers,
            strategy,
            dataset,
            num_replicas_in_sync=strategy.num_replicas_in_sync,
            options=options,
        )
        if extended.shares:
            any_size = tf.nest.map_structure(compat.of_any_batch_size, dataset.element_spec)
            self._element_spec = compat.distributed_spec(strategy, any_size)
        host, front_end, spec = split(dataset, extended.data_device)
        host = extended.served(host)
        self._front_end_parts = host, front_end, spec
        with tf.device(workers.worker_devices[0]):
            self._cloned_datasets = [compat.auto_shard(host, 1, 0)]
        self._original_dataset = None
        auto = extended.slots == "auto" and not _slots_given(options)
        self._counts = counts_of(extended, workers, auto)
        self._slot_tuning = None
        if auto and extended.data_device != workers.worker_devices[0]:
            size = bytes_of(component_specs(spec))
            piece = size and int(size * extended.largest_share)
            self._slot_tuning = SlotTuning(
                self._counts,
                data_devices=extended.data_devices,
                model_devices=extended.worker_devices,
                batch_bytes=piece,
                trial=None
                if extended.shares == AUTO
                else extended.copy_trial(host.element_spec),
            )
        self._tuning, self._stagings = None, {}
        if extended.shares == AUTO:
            self._tuning = extended.tuning_of(dataset, front_end, host.element_spec, self._counts)
        self._staging = self._staged(self._tuning and self._tuning.plan, dataset)

    def _staged(self, plan: Plan | None, dataset: tf.data.Dataset | None = None) -> ReplicaStaging:
        """The staging for a plan; each is traced once."""
        if plan not in self._stagings:
            extended, (host, front_end, spec) = self._strategy.extended, self._front_end_parts
            cut = extended.cut_of(dataset, plan)
            settings = {
                "targets": self._input_workers.compute_devices_for_worker(0),
                "cut": cut,
                "slots": extended.slot_counts(self._options),
                "copying": 0 if plan else extended.copying_slots(self._options),
                "copy_times": extended.running_input.copy_times,
                "times": self._slot_tuning.preparing if self._slot_tuning else (),
                "counts": self._counts,
                "warm_up": extended.warm_up or plan is not None,
                "host_options": host.options(),
                "captured_by": extended.captured_by,
            }
            if plan:
                front_end = extended.row_weights.anew(front_end, cut)
                settings["noted"] = self._tuning.front_end.get_next_of
            if plan and plan.all_prepare:
                self._stagings[plan] = ReplicaStaging(
                    host.element_spec,
                    None,
                    host.element_spec,
                    data_devices=self._input_workers.worker_devices[:1],
                    at_targets=self._tuning.pieces(plan.rows),
                    **settings,
                )
            else:
                self._stagings[plan] = ReplicaStaging(
                    host.element_spec,
                    front_end,
                    spec,
                    data_devices=extended.data_devices,
                    **settings,
                )
            first = next(iter(self._stagings.values()))
            self._stagings[plan].recorder.next_epoch = first.recorder.next_epoch
        return self._stagings[plan]

    def _create_cloned_datasets_from_dataset(
        self, dataset, input_context, input_workers, strategy, num_replicas_in_sync
    ):
        # TensorFlow takes the element spec from it, and refuses what cannot be cut.
        if num_replicas_in_sync > 1:
            dataset = self._make_rebatch_fn(dataset, 1, num_replicas_in_sync)(dataset, 0)
        self._cloned_datasets = [dataset]

    def __iter__(self):
        counted = self._counts if tf.executing_eagerly() else None
        fills_first = self._strategy.extended.warm_up
        if self._tuning and counted:  # inside a tf.function, the plan at the time of tracing stays
            self._staging = self._staged(self._tuning.choose())
            # While the slots fill no step runs, which shows how long the front end takes alone.
            fills_first = fills_first or not self._tuning.settled
            self._staging.warm_up = fills_first
        if self._slot_tuning and counted:
            self._slot_tuning.set_slots_of(self._staging)
        before = counted and counted.now()
        staging, (host,) = self._staging, self._cloned_datasets
        record = None
        if tf.executing_eagerly():
            record = IteratorRecord(staging.recorder)
        seals = staging.iterator_over(host, record)
        iterator = self._iterator([seals])
        if record:
            _, front_end, _ = self._front_end_parts
            iterator.place = Place(
                staging, host, front_end=front_end, iterator=seals, record=record
            )
        iterator.slots = staging.copying + staging.ready_slots + 2
        if counted:
            iterator.counts = counted
            iterator.arrivals = counted.arrivals(before)
            if fills_first:
                ahead = staging.copying * len(self._strategy.extended.data_devices)
                counted.wait_until(staging.ready_slots, before, ahead=ahead)
        self._strategy.extended.running_input.began(iterator, staging.copying)
        return iterator

    def _iterator(self, iterators, sealed=True):
        devices = self._input_workers.compute_devices_for_worker(0)
        specs = replica_compat.per_replica_specs(self._element_spec, len(devices))
        iterator = self._iterator_type(
            input_workers=self._input_workers,
            components=[ReplicaBatches(iterators, devices, specs, sealed)],
            element_spec=self._element_spec,
            strategy=self._strategy,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            options=self._options,
        )
        iterator.taken_in_graphs = new_count(self._input_workers.worker_devices[0])
        return iterator

    def auto_shard(self, num_shards, shard_ix):
        """This dataset with only the files (or elements) that belong to the shard."""
        sharded = copy.copy(self)
        sharded._cardinality = tf.data.UNKNOWN_CARDINALITY
        with tf.device(self._input_workers.worker_devices[0]):
            sharded._cloned_datasets = [
                compat.auto_shard(host, num_shards, shard_ix) for host in self._cloned_datasets
            ]
        return sharded

    @property
    def _type_spec(self):
        return TypeWithHops.of(self)

    def _numbers(self):
        return (self._staging.number,)

    def _host_specs(self):
        return [self._staging.host_spec]


compat.register_zip(ReplicaDataset, zipped)
compat.register_zip(ReplicaIterator, zipped)


def counts_of(extended, workers, auto: bool = False) -> BatchCounts | None:
    fills_first = extended.warm_up or extended.shares == AUTO
    if fills_first or extended.running_input.counts_arrivals or auto:
        return BatchCounts.on(workers.worker_devices[0], fills_first)
    return None


def _slots_given(options) -> bool:
    return options is not None and options.experimental_per_replica_buffer_size != 1
