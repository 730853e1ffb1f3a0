"""Private TensorFlow of several machines; see `dual_device_strategy/compat.py`."""

import tensorflow as tf
from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    collective_util,
    cross_device_utils,
    multi_worker_util,
)
from tensorflow.python.eager import context

CollectiveAllReduceExtended = collective_all_reduce_strategy.CollectiveAllReduceExtended
CollectiveOptions = collective_util.Options


def set_heartbeat_timeout(spec: tf.train.ClusterSpec, timeout_ms: int) -> None:
    """Before the strategy starts TensorFlow's coordination service, which otherwise has 10 s."""
    if context.context().coordination_service is not None:
        return
    jobs = tf.compat.v1.ConfigProto().experimental.coordination_config.coordinated_job_list
    for job in ("chief", "worker"):
        if job in spec.jobs:
            jobs.add(name=job, num_tasks=spec.num_tasks(job))
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=multi_worker_util.coordination_leader(spec),
        heartbeat_timeout_in_ms=timeout_ms,
        coordinated_jobs=list(jobs),
    )


def set_shared_value(key: str, value: str) -> None:
    """Sets a value for all workers, in TensorFlow's coordination service."""
    context.context().set_config_key_value(key, value)


def shared_value(key: str, timeout_ms: int = 0) -> str:
    """The value that a worker has set; waits until it is set, by default without a limit."""
    return context.context().get_config_key_value(key, timeout_ms)


def check_health(task: str, timeout_ms: int) -> None:
    """Asks `task` for an answer; raises the error that says why there is none."""
    context.context().check_collective_ops_peer_health(task, timeout_ms)


def fail_collectives(why: str) -> None:
    """Lets all collectives of this process fail, also those that wait for others now."""
    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, why)


def started_again(task: str, timeout_ms: int) -> bool:
    """Whether `task` is no longer the process that this one has talked to; False if unknown."""
    try:
        check_health(task, timeout_ms)
    except tf.errors.FailedPreconditionError:
        return True
    except tf.errors.OpError:
        pass
    return False


def gathered(collectives, value):
    """`value`, a tensor on the host, of all workers, one behind the other."""
    return collectives._gather(value, value, axis=0)


def reduce_on_hosts(collectives, host: str, most_bytes: int) -> None:
    """Lets the all-reduce of what has up to `most_bytes` go from host to host.

    `collectives` are those of the one device of each worker.
    """
    (launcher,) = collectives._launchers
    keys, options = launcher._collective_keys, launcher._options
    group = keys.get_group_key([host]), launcher._group_size
    on_host = cross_device_utils.CollectiveReplicaLauncher(*group, keys, host, options)
    own = launcher._group_key, launcher._group_size, keys, launcher._device, options
    collectives._launchers = [_ViaHost(*own, on_host=on_host, most_bytes=most_bytes)]


class _ViaHost(cross_device_utils.CollectiveReplicaLauncher):
    def __init__(self, *own, on_host, most_bytes):
        super().__init__(*own)
        self._on_host, self._most_bytes = on_host, most_bytes

    def all_reduce(self, input_tensor, control_input=None, options=None):
        if not is_small(input_tensor, self._most_bytes, self._options.merge(options)):
            return super().all_reduce(input_tensor, control_input, options)
        with tf.device(self._on_host._device):
            there = tf.identity(input_tensor)
        reduced = self._on_host.all_reduce(there, control_input, options)
        with tf.device(self._device):
            return tf.identity(reduced)


def is_small(tensor, most_bytes: int, options) -> bool:
    """Whether it has at most that many bytes for sure, and NCCL was not asked for."""
    nccl = collective_util.CommunicationImplementation.NCCL
    elements = tensor.shape.num_elements() if isinstance(tensor, tf.Tensor) else None
    return (
        elements is not None
        and elements * tensor.dtype.size <= most_bytes
        and options.implementation != nccl
    )
