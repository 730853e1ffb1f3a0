"""Batches of one replica each, from a dataset function."""

from dual_device_strategy import compat
from dual_device_strategy.front_end import split
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.dataset import ReplicaDataset
from dual_device_strategy.staging import Staging


class ReplicaDatasetFromFunction(ReplicaDataset):
    """A dataset from a dataset function: each batch is for one replica, so batches are not cut.

    Every replica has slots of its own, and the front end runs on each replica's batch.
    """

    def __init__(self, strategy, dataset_fn, options=None, contexts=None):
        """`contexts` are the arguments for `dataset_fn` if this machine is one of several."""
        extended = strategy.extended
        workers = extended._input_workers_with_options(options)
        made = compat.datasets_from_function(
            dataset_fn,
            workers=workers,
            replicas=strategy.num_replicas_in_sync,
            strategy=strategy,
            options=options,
            contexts=contexts,
        )
        targets = [
            device
            for worker in range(workers.num_workers)
            for device in workers.compute_devices_for_worker(worker)
        ]
        self._input_workers = compat.InputWorkers([(workers.worker_devices[0], tuple(targets))])
        self._strategy, self._options, self._input_context = strategy, options, None
        self._cardinality = made.cardinality
        self._enable_get_next_as_optional = made._enable_get_next_as_optional
        self._element_spec = made._element_spec
        self._num_replicas_in_sync, self._replica_order, self._built = None, None, True
        self._counts = self._tuning = self._slot_tuning = None
        parts = [split(dataset, extended.data_device) for dataset in made._datasets]
        parts = [(extended.served(host), *others) for host, *others in parts]
        self._cloned_datasets = [host for host, _, _ in parts]
        self._specs = [host.element_spec for host in self._cloned_datasets]
        self._stagings = []
        for i, target in enumerate(targets):
            data_device = extended.data_devices[i % len(extended.data_devices)]
            host, front_end, spec = parts[i % len(parts)]
            self._stagings.append(
                Staging(
                    host_spec=host.element_spec,
                    front_end=front_end,
                    front_end_spec=spec,
                    devices=(data_device, target),
                    slots=extended.slot_counts(options),
                    copying=extended.copying_slots(options),
                    host_options=host.options(),
                    captured=extended.captured_by(data_device),
                )
            )

    def __iter__(self):
        hosts = [
            staging.host.of(host)
            for staging, host in zip(self._stagings, self._cloned_datasets, strict=False)
        ]
        device = self._input_workers.worker_devices[0]
        dealt = [
            iterator
            for host in hosts
            for iterator in replica_compat.dealt(host, len(self._stagings) // len(hosts), device)
        ]
        iterators = [
            staging.iterator_from(host) for staging, host in zip(self._stagings, dealt, strict=True)
        ]
        iterator = self._iterator(iterators, sealed=False)
        iterator.countable = False
        iterator.cannot_be_saved = "it is of a dataset function"
        first = self._stagings[0]
        iterator.slots = first.copying + first.ready_slots + 2
        copying = max(staging.copying for staging in self._stagings)
        self._strategy.extended.running_input.began(iterator, copying)
        return iterator

    def _numbers(self):
        return tuple(staging.number for staging in self._stagings)

    def _host_specs(self):
        return self._specs
