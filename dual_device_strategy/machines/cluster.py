"""The workers of a training, from TF_CONFIG or any resolver.

They are checked before TensorFlow starts a server, whose own errors may abort the process.
"""

import dataclasses
import json
import os
import socket

import tensorflow as tf

_SHAPE = (
    '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, "task": {"type": "worker", "index": 0}}'
)
_JOBS = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The addresses of all workers, in order, and the index of this process.

    `resolver` is passed on to TensorFlow.
    """

    addresses: tuple[str, ...]
    index: int
    resolver: tf.distribute.cluster_resolver.ClusterResolver

    @property
    def leader(self) -> str:
        return self.addresses[0]

    def name(self, index: int) -> str:
        """A worker's name in messages, such as "worker 1 (10.0.0.5:2222)"."""
        return f"worker {index} ({self.addresses[index]})"

    def task(self, index: int) -> str:
        """A worker's name in TensorFlow, such as "/job:worker/replica:0/task:1"."""
        jobs = self.resolver.cluster_spec().as_dict()
        names = [(job, task) for job in _JOBS for task in range(len(jobs.get(job, ())))]
        job, task = names[index]
        return f"/job:{job}/replica:0/task:{task}"


def cluster_of(resolver: tf.distribute.cluster_resolver.ClusterResolver | None) -> Cluster:
    """The cluster of `resolver`, or of TF_CONFIG if it is None.

    Without TF_CONFIG either, this process is the only worker.

    Raises:
      ValueError: in one sentence, if this strategy cannot train on the cluster.
    """
    if resolver is None:
        _check_tf_config()
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        said = "TF_CONFIG"
    else:
        said = type(resolver).__name__
    jobs = resolver.cluster_spec().as_dict()
    if not jobs:
        return Cluster(("localhost",), 0, resolver)
    others = sorted(set(jobs) - set(_JOBS) - {"evaluator"})
    if others:
        raise ValueError(
            f"{said} has {' and '.join(map(repr, others))} tasks, but every worker keeps all "
            'variables here and there are no parameter servers: name "worker" tasks only'
        )
    task, index = resolver.task_type, resolver.task_id
    if task is None or index is None:
        raise ValueError(f"{said} does not say which task this process is: write {_SHAPE}")
    if task not in _JOBS or task not in jobs or not 0 <= index < len(jobs[task]):
        there = ", ".join(f"{job} 0 to {len(jobs[job]) - 1}" for job in jobs)
        raise ValueError(
            f"{said} says that this process is {task} {index}, but the cluster has {there}: "
            "correct the task's type and index"
        )
    addresses = tuple(address for job in _JOBS for address in jobs.get(job, ()))
    if len(set(addresses)) < len(addresses):
        raise ValueError(
            f"{said} names the same address twice in {', '.join(addresses)}: give every worker a "
            "host and port of its own"
        )
    cluster = Cluster(addresses, index + (len(jobs.get("chief", ())) if task == "worker" else 0),
                      resolver)  # fmt: skip
    _check_port(cluster, said)
    return cluster


def _check_tf_config() -> None:
    text = os.environ.get("TF_CONFIG")
    if text is None:
        return
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG is not JSON ({error}), got {text!r}: write {_SHAPE}") from None
    cluster = config.get("cluster") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not all(
        isinstance(addresses, list)
        and addresses
        and all(isinstance(a, str) and a.rpartition(":")[2].isdecimal() for a in addresses)
        for addresses in cluster.values()
    ):
        raise ValueError(
            f'TF_CONFIG needs a "cluster" with a list of "HOST:PORT" for each kind of task, got '
            f"{text!r}: write {_SHAPE}"
        )
    task = config.get("task")
    if (
        not isinstance(task, dict)
        or not isinstance(task.get("type"), str)
        or not str(task.get("index", "")).isdecimal()
    ):
        raise ValueError(
            f'TF_CONFIG needs a "task" with the "type" and "index" of this process, got {task!r}: '
            f"write {_SHAPE}"
        )


def _check_port(cluster: Cluster, said: str) -> None:
    """Refuses a port in use: TensorFlow's server would abort the process, or share the port."""
    port = int(cluster.addresses[cluster.index].rpartition(":")[2])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            raise ValueError(
                f"port {port}, which {said} gives to {cluster.name(cluster.index)}, cannot be "
                f"used here ({error.strerror}): end the program that has it, or name another port "
                "on all workers"
            ) from None
