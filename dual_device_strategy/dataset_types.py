"""The type of a distributed dataset, by which a tf.function knows its argument."""

import copy

import tensorflow as tf

from dual_device_strategy import compat


class TypeWithHops(compat.DistributedDatasetSpec):
    """Type of a distributed dataset of ours, which includes the hops of its batches.

    Only the host's dataset goes in and out of a tf.function; the hops were traced when the dataset
    was distributed, and are part of the type.  So two datasets have the same type only if they
    share their hops.  Iterating a dataset again does not trace a function again; distributing it
    again does.

    A dataset has `_numbers()`, those of its stagings, and `_host_specs()`, of what the host makes.
    """

    _dataset = None  # without the host's part

    @classmethod
    def of(cls, dataset: compat.DistributedDataset) -> "TypeWithHops":
        """The type of `dataset`, everything about it except its data."""
        spec = cls(
            dataset._input_workers,
            dataset._element_spec,
            dataset._strategy,
            options=dataset._options,
            cardinality=dataset._cardinality,
            enable_get_next_as_optional=dataset._enable_get_next_as_optional,
        )
        spec._dataset = copy.copy(dataset)
        # A function keeps the types of its arguments; it should not keep their data as well.
        spec._dataset._cloned_datasets = spec._dataset._original_dataset = None
        return spec

    @property
    def value_type(self):
        return type(self._dataset)

    def _serialize(self):
        return (*super()._serialize(), self._identity())

    def _identity(self):
        cardinality = tf.get_static_value(self._cardinality)
        return self._dataset._numbers(), None if cardinality is None else int(cardinality)

    # TensorFlow's own look at the element spec, the devices and the strategy alone.

    def is_subtype_of(self, other):
        return type(other) is type(self) and other._identity() == self._identity()

    def most_specific_common_supertype(self, others):
        return self if all(self.is_subtype_of(other) for other in others) else None

    def _with_tensor_ranks_only(self):
        return self  # its hops make what they make

    def _without_tensor_names(self):
        return self

    @property
    def _component_specs(self):
        return [tf.data.DatasetSpec(spec) for spec in self._dataset._host_specs()]

    def _from_components(self, components):
        dataset = copy.copy(self._dataset)
        dataset._cloned_datasets = components
        return dataset

    @staticmethod
    def from_value(value):
        return value._type_spec
