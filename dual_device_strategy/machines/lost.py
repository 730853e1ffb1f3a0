"""Reports that another worker is gone: one sentence instead of TensorFlow's traceback.

TensorFlow itself notices a broken connection within a second.  It notices a process that hangs by
missing heartbeats, or after the `timeout_seconds` of the communication options.  Then every
collective of this worker fails, wherever the program is: in `run`, in `next(iterator)`, in a
`tf.function`, in Keras.  All workers have to start again; none can go on alone.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy.machines import compat as machines_compat
from dual_device_strategy.machines.cluster import Cluster

EXIT_CODE = 1
_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
# These errors come from other workers, even if all of them can be reached again.
_OF_THE_OTHERS = (
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)
_WATCH_SECONDS, _MOST_CONNECTIONS_PER_SECOND = 2.0, 50
_REMEDY = "start the same command on all workers again to go on from the newest checkpoint"


def explained(error: BaseException, cluster: Cluster) -> str | None:
    """One sentence if another worker's end caused `error`; None for any other error."""
    while getattr(error, "__cause__", None):  # raised again as something else
        error = error.__cause__
    if not isinstance(error, _ERRORS):
        return None
    refused, silent = asked(cluster)
    if refused:
        verb = "is" if len(refused) == 1 else "are"
        return f"{_names(refused, cluster)} {verb} gone, and its own log says why; {_REMEDY}"
    if silent:
        return (
            f"{_names(silent, cluster)} cannot be reached any more: the machine or the "
            f"network to it is down; {_REMEDY}"
        )
    if again := started_again(cluster):
        verb = "was" if len(again) == 1 else "were"
        return f"{_names(again, cluster)} {verb} started again while this one ran; {_REMEDY}"
    if isinstance(error, _OF_THE_OTHERS):
        others = [cluster.name(i) for i in range(len(cluster.addresses)) if i != cluster.index]
        return (
            f"a worker hangs, was started again or cannot be reached any more, one of "
            f"{', '.join(others)} ({type(error).__name__}); {_REMEDY}"
        )
    return None


def _names(workers: list[int], cluster: Cluster) -> str:
    return " and ".join(map(cluster.name, workers))


def do_not_answer(cluster: Cluster) -> list[int]:
    """The other workers at whose addresses no process listens."""
    refused, silent = asked(cluster)
    return sorted(refused + silent)


def asked(cluster: Cluster) -> tuple[list[int], list[int]]:
    """The other workers whose host answers for them, and those that are silent."""
    refused: list[int] = []
    silent: list[int] = []

    def ask(index):
        try:
            connection = _connect(cluster, index)
        except ConnectionRefusedError:
            refused.append(index)
        except OSError:
            silent.append(index)
        else:
            if _is_closed(connection):
                refused.append(index)

    _ask_others(cluster, ask)
    return sorted(refused), sorted(silent)


def _connect(cluster: Cluster, index: int) -> socket.socket:
    host, _, port = cluster.addresses[index].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=2)


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other end goes away.  A process that is being killed closes its connections one
    by one, so its port may be the last one; a server that lives speaks first."""
    with connection:
        connection.settimeout(1)
        try:
            return not connection.recv(1)
        except TimeoutError:  # it hangs
            return False
        except OSError:
            return True


def started_again(cluster: Cluster) -> list[int]:
    """The other workers that are no longer the processes this one has talked to."""
    again: list[int] = []

    def ask(index):
        if machines_compat.started_again(cluster.task(index), timeout_ms=2000):
            again.append(index)

    _ask_others(cluster, ask)
    return sorted(again)


def _ask_others(cluster: Cluster, ask: Callable[[int], None]) -> None:
    others = [i for i in range(len(cluster.addresses)) if i != cluster.index]
    asking = [threading.Thread(target=ask, args=(i,), daemon=True) for i in others]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(3)


def watch_others(cluster: Cluster) -> None:
    """Lets the collectives of the first worker fail soon after the process of another has ended.

    Where workers begin a collective, the first one waits for the others without asking them.
    TensorFlow would notice by heartbeats that one is gone, after 14 seconds or more.  The others
    wait on a connection to the first one, which breaks.
    """
    if cluster.index != 0:
        return
    others = range(1, len(cluster.addresses))
    seconds = max(_WATCH_SECONDS, len(others) / _MOST_CONNECTIONS_PER_SECOND)

    def watch():
        while True:
            time.sleep(seconds)
            for index in others:
                try:
                    _connect(cluster, index).close()
                except ConnectionRefusedError:
                    machines_compat.fail_collectives(f"{cluster.name(index)} is gone")
                    return
                except OSError:
                    pass  # it may only be slow; heartbeats tell

    threading.Thread(target=watch, daemon=True).start()


def end_with_one_sentence(cluster: Cluster) -> None:
    """Prints an uncaught error of that kind as one sentence; the exit code is then 1.

    The process ends at once, because a normal end would wait for the worker that is gone.  Other
    errors are shown as usual.
    """
    before, in_threads_before = sys.excepthook, threading.excepthook

    def hook(kind, error, traceback):
        _end_if_explained(error, cluster)
        before(kind, error, traceback)

    def hook_of_threads(arguments):
        if not _began_in_tensorflow(arguments.exc_traceback):  # the program trains in a thread
            _end_if_explained(arguments.exc_value, cluster)
        # TensorFlow's watching threads fail as well; the main thread says why.
        elif explained(arguments.exc_value, cluster):
            return
        in_threads_before(arguments)

    sys.excepthook, threading.excepthook = hook, hook_of_threads


def _end_if_explained(error: BaseException, cluster: Cluster) -> None:
    if sentence := explained(error, cluster):
        sys.stdout.flush()
        print(f"error: {sentence}", file=sys.stderr, flush=True)
        os._exit(EXIT_CODE)


def _began_in_tensorflow(traceback) -> bool:
    """Whether the function that a thread began with is TensorFlow's."""
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module != "threading":
            return module.startswith("tensorflow.")
        traceback = traceback.tb_next
    return False
