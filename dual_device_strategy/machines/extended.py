"""What MultiWorkerDataModelSplitStrategy asks of TensorFlow's collectives, and what it changes."""

import hashlib
import uuid

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.checkpoints.pipelines import described
from dual_device_strategy.checkpoints.saved_iterator import Place, WorkersPlace
from dual_device_strategy.devices.several import device_lists
from dual_device_strategy.machines import compat as machines_compat
from dual_device_strategy.machines.agreement import from_the_first, gathered, refuse_differences
from dual_device_strategy.machines.input import WorkersDataset
from dual_device_strategy.replicas.from_function import ReplicaDatasetFromFunction
from dual_device_strategy.replicas.pieces import Cut, rows_as_tensorflow
from dual_device_strategy.staged_input import StagedInput, check_options

# TensorFlow's ring over gRPC copies each chunk from the GPU and back, in two rounds.
REDUCED_ON_HOSTS = 4_000_000
# In ms. A heartbeat may take half of it. If a link is down for three seconds, TCP may deliver what
# was sent just before only after 6.2 seconds.
_HEARTBEAT_TIMEOUT = 14_000
_NO_PER_REPLICA = "MultiWorkerMirroredStrategy does not have that either; leave it out"


class MultiWorkerSplitExtended(StagedInput, machines_compat.CollectiveAllReduceExtended):
    """The strategy's devices and datasets: model devices are this worker's replicas."""

    shares = None
    _reduces_on_hosts = False

    def __init__(self, strategy, *, devices, slots, cluster, communication_options):
        self._named, self._asked_slots = devices, slots
        self._cluster, self._compared = cluster, 0
        super().__init__(strategy, cluster.resolver, communication_options)

    def _initialize_multi_worker(self, cluster_resolver):
        machines_compat.set_heartbeat_timeout(cluster_resolver.cluster_spec(), _HEARTBEAT_TIMEOUT)
        super()._initialize_multi_worker(cluster_resolver)
        device = self.worker_devices[0]
        self._reduces_on_hosts = len(self.worker_devices) == 1 and "device:GPU" in device
        if self._reduces_on_hosts:
            machines_compat.reduce_on_hosts(
                self._cross_device_ops, compat.host_of(device), REDUCED_ON_HOSTS
            )

    def _initialize_local_devices(self, cluster_resolver, worker_device):
        """Only the model devices are replicas; TensorFlow would take every GPU."""
        del cluster_resolver, worker_device
        data, model = self._named
        # A single device may do both in turns. Several would need shares, which are refused here.
        alone = len(data) == 1 and list(data) == list(model)
        data, model = device_lists(data, model, shared=alone)
        self.set_data_devices(data, self._asked_slots)
        return model, "GPU" if "device:GPU" in model[0] else "CPU"

    def _create_variable(self, next_creator, **kwargs):
        if self._variables_scope.entered and len(self.data_devices) == 1:
            kwargs["initial_value"] = self._get_variable_creator_initial_value(
                replica_id=0, device=self.data_device, primary_var=None, **kwargs
            )
        return super()._create_variable(next_creator, **kwargs)

    def _get_variable_creator_initial_value(self, replica_id, device, primary_var, **kwargs):
        if self._variables_scope.entered and replica_id == 0:
            # From host to host, because rings between GPUs refuse some types.
            device = compat.host_of(device)
        return super()._get_variable_creator_initial_value(
            replica_id, device, primary_var, **kwargs
        )

    def place_of(self, staging, host, **place) -> Place:
        """What saves and restores an iterator over this worker's part."""
        if self._num_workers == 1:
            return Place(staging, host, **place)

        def exchange(text):
            return gathered(self._host_cross_device_ops, text)

        index, count = self._id_in_cluster, self._num_workers
        return WorkersPlace(staging, host, index=index, count=count, exchange=exchange, **place)

    def refuse_differences(self, facts: dict[str, object]) -> None:
        """Raises an error on every worker if another one has other facts."""
        self._compared += 1
        refuse_differences(self._cluster, f"start {self._compared}", facts)

    def served_to_all(self, host: tf.data.Dataset) -> tf.data.Dataset:
        """`host`, which has batches for one worker, run by the service for all workers at once."""
        lines = "\n".join(described(host, None))
        digest = hashlib.sha256(lines.encode()).hexdigest()[:12]
        self.refuse_differences({"the dataset of the data service": digest})
        # Another name in each run: a job that has ended has no more batches for anyone.
        name = f"job {self._compared}"
        job = from_the_first(self._cluster, name, str(uuid.uuid4()))
        index, count = self._id_in_cluster, self._num_workers
        return self.data_service.of_worker(index, count, f"{job} {name}").applied(host)

    def cut_of(self, dataset: tf.data.Dataset) -> Cut:
        """How this worker's parts of the batches of `dataset` are cut for its replicas."""
        replicas = len(self.worker_devices)
        rows = rows_as_tensorflow(dataset, replicas * self._num_workers)
        # If the rows cannot be divided evenly, the batch decides which replica gets one more.
        return Cut(replicas, rows=rows[:replicas] if rows and len(set(rows)) == 1 else None)

    def _experimental_distribute_dataset(self, dataset, options):
        check_options(options, _NO_PER_REPLICA)
        context = self._make_input_context()
        return WorkersDataset(self._container_strategy(), dataset, options, context)

    def _distribute_datasets_from_function(self, dataset_fn, options):
        check_options(options, _NO_PER_REPLICA)
        return ReplicaDatasetFromFunction(
            self._container_strategy(), dataset_fn, options, [self._make_input_context()]
        )

    def _reduce_to(self, reduce_op, value, destinations, options):
        """Reduces structures too, as MirroredStrategy does; Keras 3 needs it."""
        reduce = super()._reduce_to
        merged = self._communication_options.merge(options)

        def reduced(each):
            if self._reduces_on_hosts and machines_compat.is_small(each, REDUCED_ON_HOSTS, merged):
                # Apart from what the step reduces, so it need not wait for that.
                with tf.device("CPU:0"):
                    each = tf.identity(each)
                return self._host_cross_device_ops.reduce(reduce_op, each, destinations, merged)
            return reduce(reduce_op, each, destinations, options)

        return tf.nest.map_structure(reduced, value)
