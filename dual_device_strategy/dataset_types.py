"""The type of a distributed dataset, by which a tf.function knows its argument."""

import copy

from dual_device_strategy import compat


def spec_of(dataset: compat.DistributedDataset, kind: type):
    """The type of a distributed dataset, of class `kind`: everything about it except its data."""
    spec = kind(
        dataset._input_workers,
        dataset._element_spec,
        dataset._strategy,
        dataset._options,
        cardinality=dataset._cardinality,
        enable_get_next_as_optional=dataset._enable_get_next_as_optional,
    )
    spec._dataset = copy.copy(dataset)
    # A function keeps the types of its arguments; it should not keep their data as well.
    spec._dataset._cloned_datasets = spec._dataset._original_dataset = None
    return spec
