"""One machine's iterator over batches for several replicas."""

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.checkpoints.saved_iterator import SavedIterator
from dual_device_strategy.hop import component_specs
from dual_device_strategy.out_of_memory import explained, size_of
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.boxes import unsealed


class ReplicaBatches(compat.CompositeTensor):
    """Hands out the batches of all replicas of a machine, in the replicas' order.

    It replaces TensorFlow's `_SingleWorkerOwnedDatasetIterator`.  It has either one iterator on
    the host, whose elements are the sealed boxes of all replicas, or an iterator on each replica's
    device.  Boxes are opened where they are used; only their seals pass through the host.
    """

    def __init__(self, iterators, devices, specs, sealed: bool):
        self.iterators, self.devices, self.specs, self.sealed = iterators, devices, specs, sealed

    def get_next_as_list(self, name=None):
        del name
        if self.sealed:
            return self._opened(self.iterators[0].get_next())
        return [
            self._packed(self._next_on(device, iterator), spec)
            for iterator, device, spec in zip(self.iterators, self.devices, self.specs, strict=True)
        ]

    def taken(self):
        """The next batch of all replicas, taken eagerly on this thread."""
        if self.sealed:
            return self._opened(compat.take_next(self.iterators[0], ""))
        return [
            self._packed(compat.take_next(iterator, ""), spec)
            for iterator, spec in zip(self.iterators, self.specs, strict=True)
        ]

    def get_next_as_optional_list(self):
        if self.sealed:
            optional = self.iterators[0].get_next_as_optional()
            return [
                _Optional(
                    optional,
                    lambda i=i: self._opened(optional.get_value(), only=i)[0],
                    self.specs[i],
                )
                for i in range(len(self.devices))
            ]
        optionals = []
        for iterator, device, spec in zip(self.iterators, self.devices, self.specs, strict=True):
            with tf.device(device):
                optional = iterator.get_next_as_optional()
            optionals.append(
                _Optional(
                    optional,
                    lambda optional=optional, spec=spec: self._packed(optional.get_value(), spec),
                    spec,
                )
            )
        return optionals

    @staticmethod
    def _next_on(device, iterator):
        with tf.device(device):
            return iterator.get_next()

    def _opened(self, seals, only=None):
        opened = []
        for i, (device, spec) in enumerate(zip(self.devices, self.specs, strict=True)):
            if only is None or only == i:
                with tf.device(device):
                    opened.append(self._packed(unsealed(seals[i], component_specs(spec)), spec))
        return opened

    @staticmethod
    def _packed(flat, spec):
        return tf.nest.pack_sequence_as(spec, list(flat), expand_composites=True)

    @property
    def _type_spec(self):
        return ReplicaBatchesSpec(self.devices, self.specs, self.sealed)


class _Optional:
    """The part of `tf.experimental.Optional` that TensorFlow's distributed iterator uses."""

    def __init__(self, optional, value, element_spec):
        self.has_value, self.get_value, self.element_spec = optional.has_value, value, element_spec


class ReplicaBatchesSpec(tf.TypeSpec):
    """Type of `ReplicaBatches`."""

    def __init__(self, devices, specs, sealed):
        self._devices, self._specs, self._sealed = tuple(devices), tuple(specs), sealed

    @property
    def value_type(self):
        return ReplicaBatches

    def _serialize(self):
        return self._devices, self._specs, self._sealed

    def goes_as(self, other) -> bool:
        """Whether batches of both types come the same way; their shapes may differ."""
        return self._serialize()[::2] == other._serialize()[::2]

    def with_elements(self, element_spec) -> "ReplicaBatchesSpec":
        specs = replica_compat.per_replica_specs(element_spec, len(self._devices))
        return ReplicaBatchesSpec(self._devices, specs, self._sealed)

    @property
    def _component_specs(self):
        if self._sealed:
            return [tf.data.IteratorSpec((tf.TensorSpec([], tf.variant),) * len(self._devices))]
        return [tf.data.IteratorSpec(component_specs(spec)) for spec in self._specs]

    def _to_components(self, value):
        return value.iterators

    def _from_components(self, components):
        return ReplicaBatches(list(components), self._devices, self._specs, self._sealed)


class ReplicaIterator(SavedIterator, compat.DistributedIterator):
    """TensorFlow's distributed iterator, over staged batches.

    `slots`, `arrivals` and `counts` are as in `StagedIterator`.  It can be part of a
    checkpoint; one made by a dataset function cannot.
    """

    slots = None
    arrivals = None
    counts = None
    countable = True  # batches are counted if a Monitor was made in time

    def _ends_alone(self) -> bool:
        """Whether the end, or an empty batch in its place, comes from what this draws from."""
        return self._iterators[0].sealed

    def get_next(self, name=None):
        (batches,) = self._iterators
        try:
            counted = self.count_taken(self._input_workers.worker_devices[0])
            if not (tf.executing_eagerly() and self._ends_alone()):
                with tf.control_dependencies(counted):
                    return super().get_next(name)
            # No need to ask first whether there is a batch: all replicas end together, and one
            # without rows has an empty piece.
            self._refuse_in_replica()
            return replica_compat.per_replica_element(batches.taken(), self._strategy)
        except tf.errors.ResourceExhaustedError as error:
            batch = size_of(component_specs(self._iterators[0].specs[0]))
            raise explained(error, self._strategy, batch, in_step=False) from None

    def get_next_as_optional(self):
        counted = self.count_taken(self._input_workers.worker_devices[0])
        with tf.control_dependencies(counted):
            return super().get_next_as_optional()

    def _restore_from_tensors(self, restored_tensors):
        super()._restore_from_tensors(restored_tensors)
        if self.counts:
            self.arrivals = self.counts.arrivals(self.counts.now())

    def _refuse_in_replica(self):
        if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
            raise ValueError(
                "next(iterator) was called inside the function given to strategy.run(); call it "
                "outside: strategy.run(step, args=(next(iterator),))"
            )

    @property
    def _type_spec(self):
        return ReplicaIteratorSpec(
            self._input_workers,
            self._element_spec,
            self._strategy,
            options=self._options,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
        ).over(self._iterators[0]._type_spec)


class ReplicaIteratorSpec(compat.DistributedIteratorSpec):
    """Type of a `ReplicaIterator`."""

    _batches = None  # the spec of its ReplicaBatches

    def over(self, batches: ReplicaBatchesSpec) -> "ReplicaIteratorSpec":
        self._batches = batches
        return self

    @property
    def value_type(self):
        return ReplicaIterator

    def _serialize(self):
        return (*super()._serialize(), self._batches)

    def most_specific_common_supertype(self, others):
        if not all(self._batches.goes_as(other._batches) for other in others):
            return None
        common = super().most_specific_common_supertype(others)
        return common and self._with_batches(common)

    def is_subtype_of(self, other):
        return super().is_subtype_of(other) and self._batches.goes_as(other._batches)

    def _with_tensor_ranks_only(self):
        return self._with_batches(super()._with_tensor_ranks_only())

    def _without_tensor_names(self):
        return self._with_batches(super()._without_tensor_names())

    def _with_batches(self, spec):
        return spec.over(self._batches.with_elements(spec._element_spec))

    @property
    def _component_specs(self):
        return [self._batches, tf.TensorSpec([], tf.resource)]

    def _to_components(self, value):
        return [value._iterators[0], value.taken_in_graphs]

    def _from_components(self, components):
        batches, taken_in_graphs = components
        iterator = ReplicaIterator(
            input_workers=self._input_workers,
            components=[batches],
            element_spec=self._element_spec,
            strategy=self._strategy,
            cardinality=self._cardinality,
            enable_get_next_as_optional=self._enable_get_next_as_optional,
            options=self._options,
        )
        iterator.taken_in_graphs = taken_in_graphs
        return iterator

    @staticmethod
    def from_value(value):
        return value._type_spec
