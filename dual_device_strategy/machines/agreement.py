"""Compares what must be the same on all workers, when they meet.

Without it, two workers with different flags would train without an error, and produce a model that
nobody asked for.
"""

import json
import time

import numpy as np
import tensorflow as tf

from dual_device_strategy.machines import compat
from dual_device_strategy.machines.cluster import Cluster

_MOST_SILENCE_MS = 7000  # a link that is down for three seconds does no harm


class Disagreement(ValueError):
    """Raised when workers differ in something that must be the same; the message is one
    sentence."""


def refuse_differences(cluster: Cluster, about: str, facts: dict[str, object]) -> None:
    """Compares `facts` with those of every other worker; returns when all have been compared.

    All workers must call it at the same point of the program, with the same keys.  The values
    go through TensorFlow's coordination service, which the first worker runs.

    Args:
      about: a name, different for each call in a program.
      facts: values with a short and exact `str`; pass digests of long ones.

    Raises:
      Disagreement: on every worker; it names what differs, and each worker's value.
    """
    if len(cluster.addresses) == 1:
        return
    mine = {name: str(value) for name, value in facts.items()}
    compat.set_shared_value(_key(about, cluster.index), json.dumps(mine))
    differing = []
    for other in range(len(cluster.addresses)):
        theirs = json.loads(_value_of(cluster, other, about))
        for name in sorted({*mine, *theirs} if other != cluster.index else ()):
            if mine.get(name) != theirs.get(name):
                differing.append(
                    f"{name} is {mine.get(name)} on {cluster.name(cluster.index)} and "
                    f"{theirs.get(name)} on {cluster.name(other)}"
                )
    if differing:
        _wait_until_all_know(cluster, about)
        raise Disagreement(
            "the workers do not agree: " + "; ".join(differing) + "; start all with the same"
        )


def from_the_first(cluster: Cluster, about: str, value: str) -> str:
    """`value` as the first worker gave it; all call it at the same point of the program."""
    if cluster.index == 0:
        compat.set_shared_value(_key(about, 0), value)
    return _value_of(cluster, 0, about)


def gathered(host_ops: tf.distribute.CrossDeviceOps, text: bytes) -> list[bytes]:
    """What all workers give, in their order; all call it at the same point of the program.

    `host_ops` are TensorFlow's collectives between the workers' hosts, which know no text.
    """
    with tf.device("CPU:0"):
        length = tf.constant([len(text)])
        words = tf.constant(np.frombuffer(text + bytes(-len(text) % 4), np.int32))
    lengths, words = (compat.gathered(host_ops, each).numpy() for each in (length, words))
    ends = np.cumsum(-(-lengths // 4))
    return [
        words[end - -(-length // 4) : end].tobytes()[:length]
        for length, end in zip(lengths, ends, strict=True)
    ]


def _value_of(cluster: Cluster, other: int, about: str) -> str:
    """What worker `other` has set; it may take its time, but an error says that it is gone.

    TensorFlow would wait forever for a process that has ended or hangs.
    """
    while True:
        try:
            return compat.shared_value(_key(about, other), 1000)
        except tf.errors.DeadlineExceededError:
            # The first worker runs the service that would give the answer.
            for needed in {0, other} - {cluster.index}:
                compat.check_health(cluster.task(needed), _MOST_SILENCE_MS)


def _wait_until_all_know(cluster: Cluster, about: str) -> None:
    """Keeps this worker's service running until the others have compared, for 5 s at most."""
    end = time.monotonic() + 5
    try:
        # The first worker may be gone before it has answered that it has this.
        compat.set_shared_value(_key(about, cluster.index) + "/seen", "yes")
        for other in range(len(cluster.addresses)):
            left = max(1, int(1000 * (end - time.monotonic())))
            compat.shared_value(_key(about, other) + "/seen", left)
    except tf.errors.OpError:
        return  # another one has left already


def _key(about: str, index: int) -> str:
    return f"dual_device_strategy/{about}/{index}"
