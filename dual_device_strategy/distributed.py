"""Distributed datasets of `DataModelSplitStrategy`: TensorFlow's classes over staged batches."""

import copy

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord
from dual_device_strategy.checkpoints.saved_iterator import Place, SavedIterator, new_count
from dual_device_strategy.dataset_types import TypeWithHops
from dual_device_strategy.front_end import split
from dual_device_strategy.hop import component_specs
from dual_device_strategy.out_of_memory import READY, bytes_of, explained, scope_name, size_of
from dual_device_strategy.slot_tuning import SlotTuning
from dual_device_strategy.staged_optional import StagedOptional
from dual_device_strategy.staging import Staging
from dual_device_strategy.together import zipped


class StagedIterator(SavedIterator, compat.DistributedIterator):
    """An iterator over staged batches; usable eagerly, and as an argument of a tf.function.

    `slots` is the number of slots it has.  `arrivals`, where the strategy counts batches, returns
    how many of its batches have reached the model device; those not taken yet are READY.
    """

    slots = None  # inside a tf.function that it was handed to
    arrivals = None
    counts = None
    tuning = None

    def __init__(
        self,
        *,
        input_workers,
        element_spec,
        strategy,
        options,
        cardinality,
        enable_get_next_as_optional,
        iterator,
        taken_in_graphs,
    ):
        super().__init__(
            input_workers=input_workers,
            components=[iterator],
            element_spec=element_spec,
            strategy=strategy,
            cardinality=cardinality,
            enable_get_next_as_optional=enable_get_next_as_optional,
            options=options,
        )
        self.taken_in_graphs = taken_in_graphs
        self._host = input_workers.worker_devices[0]
        self._device = input_workers.compute_devices_for_worker(0)[0]
        self._batch_size = None
        self._scope = scope_name(READY, component_specs(element_spec))
        self._is_tensor = isinstance(element_spec, tf.TensorSpec)
        self._is_tuple = type(element_spec) is tuple and all(
            isinstance(spec, tf.TensorSpec) for spec in element_spec
        )
        self._spec = StagedIteratorSpec(
            input_workers,
            element_spec,
            strategy,
            options=options,
            cardinality=cardinality,
            enable_get_next_as_optional=enable_get_next_as_optional,
        )

    def get_next(self, name=None):
        del name
        strategy, replica = compat.strategy_and_replica_context()
        if (replica or strategy is not self._strategy) and tf.distribute.has_strategy():
            with compat.enter_or_assert_strategy(self._strategy):
                if tf.distribute.get_replica_context() is not None:
                    raise ValueError(
                        "next(iterator) was called inside the function given to strategy.run(); "
                        "call it outside: strategy.run(step, args=(next(iterator),))"
                    )
        try:
            with tf.control_dependencies(self.count_taken(self._host)):
                flat = compat.take_next(self._iterators[0], self._scope)
        except tf.errors.ResourceExhaustedError as error:
            batch = self._batch_size or size_of(component_specs(self._element_spec))
            raise explained(error, self._strategy, batch, in_step=False) from None
        if self._batch_size is None and tf.executing_eagerly():
            self._batch_size = size_of(flat)
            if self.tuning:
                self.tuning.batch_bytes = max(bytes_of(flat) or 0, self.tuning.batch_bytes or 0)
        return self._packed(flat)

    def get_next_as_optional(self):
        counted = self.count_taken(self._host)
        with tf.name_scope(self._scope), tf.control_dependencies(counted):
            optional = self._iterators[0].get_next_as_optional()
        spec = self._element_spec
        whole = all(isinstance(each, tf.TensorSpec) for each in tf.nest.flatten(spec))
        if whole and self._cardinality != tf.data.INFINITE_CARDINALITY:
            # As under TensorFlow's strategies, where the last batch may be an empty one.
            spec = tf.nest.map_structure(compat.of_any_batch_size, spec)
        if not tf.executing_eagerly():
            return StagedOptional.of(compat.variant_of(optional), spec, self._device)
        if whole:
            return compat.optional_of(compat.variant_of(optional), spec)
        if optional.has_value():
            return tf.experimental.Optional.from_value(self._packed(optional.get_value()))
        return tf.experimental.Optional.empty(spec)

    def _restore_from_tensors(self, restored_tensors):
        super()._restore_from_tensors(restored_tensors)
        if self.counts:
            self.arrivals = self.counts.arrivals(self.counts.now())

    def _packed(self, flat):
        # The two usual structures without the 20 us that the general way takes.
        if self._is_tensor:
            return flat[0]
        if self._is_tuple:
            return tuple(flat)
        return tf.nest.pack_sequence_as(self._element_spec, list(flat), expand_composites=True)

    @property
    def _type_spec(self):
        return self._spec


class StagedIteratorSpec(compat.DistributedIteratorSpec):
    """Type of a `StagedIterator`."""

    @property
    def value_type(self):
        return StagedIterator

    @property
    def _component_specs(self):
        return [
            tf.data.IteratorSpec(component_specs(self._element_spec)),
            tf.TensorSpec([], tf.resource),
        ]

    def _to_components(self, value):
        return [value._iterators[0], value.taken_in_graphs]

    def _from_components(self, components):
        iterator, taken_in_graphs = components
        return StagedIterator(
            input_workers=self._input_workers,
            element_spec=self._element_spec,
            strategy=self._strategy,
            options=self._options,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            iterator=iterator,
            taken_in_graphs=taken_in_graphs,
        )

    @staticmethod
    def from_value(value):
        return value._type_spec


class StagedDataset(compat.DistributedDataset):
    """A dataset whose batches are prepared on the data device and wait on the model device.

    Like TensorFlow's own distributed datasets it can be iterated any number of times, eagerly
    or in a tf.function, has `element_spec`, `cardinality` and `reduce`, and Keras takes it.

    A tf.function that takes it as an argument is traced once for all its epochs.  It is traced
    again for every other distributed dataset, because the front end is part of the trace, and also
    for the same `tf.data.Dataset` distributed a second time.  So distribute a dataset once, before
    the loop over epochs.  Iterators of different datasets share a trace.
    """

    def __init__(self, strategy, dataset, options=None):
        extended = strategy.extended
        host, front_end, spec = split(dataset, extended.data_device)
        host = extended.served(host)
        self._front_end = front_end
        workers = extended._input_workers_with_options(options)
        super().__init__(workers, strategy, host, options=options)
        self._element_spec = spec
        self._counts = None
        self._tuning = None
        auto = extended.slots == "auto"
        if extended.warm_up or extended.running_input.counts_arrivals or auto:
            host_device = workers.worker_devices[0]
            self._counts = BatchCounts.on(host_device, extended.warm_up)
        # On the host there is no hop whose times could be noted; 1 is the default.
        on_host = extended.data_device == workers.worker_devices[0]
        given = options is not None and options.experimental_per_replica_buffer_size != 1
        if auto and not on_host and not given:
            target = workers.compute_devices_for_worker(0)[0]
            size = bytes_of(component_specs(spec))
            trial = extended.copy_trial(host.element_spec)
            self._tuning = SlotTuning(
                self._counts,
                data_devices=extended.data_devices,
                model_devices=[target],
                batch_bytes=size,
                trial=trial,
            )
        self._staging = Staging(
            host_spec=host.element_spec,
            front_end=front_end,
            front_end_spec=spec,
            devices=(extended.data_device, workers.compute_devices_for_worker(0)[0]),
            slots=extended.slot_counts(options),
            copying=extended.copying_slots(options),
            counts=self._counts,
            warm_up=extended.warm_up,
            times=self._tuning.preparing if self._tuning else (),
            copy_times=extended.running_input.copy_times,
            host_options=host.options(),
        )

    def auto_shard(self, num_shards, shard_ix):
        """This dataset with only the host's files (or elements) that belong to the shard."""
        sharded = copy.copy(self)
        sharded._cardinality = tf.data.UNKNOWN_CARDINALITY
        (host,) = self._cloned_datasets
        with tf.device(self._input_workers.worker_devices[0]):
            sharded._cloned_datasets = [compat.auto_shard(host, num_shards, shard_ix)]
        return sharded

    def __iter__(self):
        # Inside a tf.function the slots are what they are when it is traced.
        if self._tuning and tf.executing_eagerly():
            self._tuning.set_slots_of(self._staging)
        counted = self._counts if tf.executing_eagerly() else None
        before = counted and counted.now()  # a warm start fills slots while the iterator is made
        staging, (host,) = self._staging, self._cloned_datasets
        record = IteratorRecord(staging.recorder) if tf.executing_eagerly() else None
        iterator = staging.iterator_over(host, record)
        staged = StagedIterator(
            input_workers=self._input_workers,
            element_spec=self._element_spec,
            strategy=self._strategy,
            options=self._options,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            iterator=iterator,
            taken_in_graphs=new_count(self._input_workers.worker_devices[0]),
        )
        staged.slots = staging.copying + staging.ready_slots + 2
        if counted:
            staged.counts = counted
            staged.tuning = self._tuning
            staged.arrivals = counted.arrivals(before)
            if self._strategy.extended.warm_up:
                counted.wait_until(staging.ready_slots, before, ahead=staging.copying)
        self._strategy.extended.running_input.began(staged, staging.copying)
        if record:  # what is made in a tf.function is gone before anything could save it
            staged.place = Place(
                staging, host, front_end=self._front_end, iterator=iterator, record=record
            )
        return staged

    @property
    def _type_spec(self):
        return TypeWithHops.of(self)

    def _numbers(self):
        return (self._staging.number,)

    def _host_specs(self):
        return [self._staging.host_spec]


compat.register_zip(StagedDataset, zipped)
compat.register_zip(StagedIterator, zipped)
