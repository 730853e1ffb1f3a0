"""python -m dual_device_strategy.data_service dispatcher --port=0
python -m dual_device_strategy.data_service worker --dispatcher=HOST:PORT

A tf.data service: one dispatcher, and workers that prepare batches, on any machines.  Each prints
its address when it is ready, and ends on SIGTERM or SIGINT.  Workers may join at any time, even
while a training runs.  Give the dispatcher's address to the training, see `DataService`.

A dispatcher with --work_dir remembers its jobs there, and goes on with them when it is started
again with the same --port.  Without it, the training ends when the dispatcher does.

Anyone who can reach these ports can read the data and run TensorFlow ops: keep them inside a
network that you trust.
"""

import signal
import socket
import threading

import tensorflow as tf
from absl import flags

from dual_device_strategy import command

_PORT = flags.DEFINE_integer("port", 0, "Port to listen on; 0 takes a free one.")
_HOST = flags.DEFINE_string(
    "host",
    None,
    "Name or address under which others reach this machine; by default its host name.",
)
_DISPATCHER = flags.DEFINE_string("dispatcher", None, "HOST:PORT of the dispatcher to join.")
_WORK_DIR = flags.DEFINE_string("work_dir", None, "Directory where a dispatcher keeps its jobs.")
_WORKER_TIMEOUT_SECONDS = flags.DEFINE_float(
    "worker_timeout_seconds", 10.0, "A worker that has been silent for this long counts as gone."
)
_ROLES = ("dispatcher", "worker")


def main(arguments) -> int:
    role = arguments[1] if len(arguments) > 1 else None
    with command.exit_on(ValueError, ConnectionError, OSError):
        _check(role, arguments[2:])
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        host = _HOST.value or socket.gethostname()
        server = _dispatcher() if role == "dispatcher" else _worker(host)
        for number in (signal.SIGTERM, signal.SIGINT):  # TensorFlow may have set its own
            signal.signal(number, lambda *_: ended.set())
        port = server._address.rpartition(":")[2] if _PORT.value == 0 else _PORT.value
        print(f"{role} {host}:{port}", flush=True)
        while not ended.wait(1):
            pass
    return 0


def _check(role, rest) -> None:
    if role not in _ROLES or rest:
        raise ValueError(
            f"say what to start, {' or '.join(_ROLES)}: python -m "
            "dual_device_strategy.data_service dispatcher --port=0"
        )
    if role == "worker" and _DISPATCHER.value is None:
        raise ValueError("a worker needs --dispatcher=HOST:PORT, which the dispatcher has printed")
    if role == "dispatcher" and _DISPATCHER.value is not None:
        raise ValueError("--dispatcher is a worker's flag: a dispatcher has none above it")
    if _WORK_DIR.value is not None and (role == "worker" or _PORT.value == 0):
        raise ValueError("--work_dir is for a dispatcher with a --port of its own, to come back to")
    if role == "worker":
        host, _, port = _DISPATCHER.value.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"--dispatcher must be HOST:PORT, got {_DISPATCHER.value}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except OSError as error:
            raise ConnectionError(
                f"no dispatcher answers at --dispatcher={_DISPATCHER.value} ({error}): start one, "
                "or correct the address"
            ) from None
    if _PORT.value:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", _PORT.value))
                probe.listen()
            except OSError as error:
                raise ValueError(
                    f"--port={_PORT.value} cannot be used ({error.strerror}): name another, or "
                    "leave it out to have a free one chosen"
                ) from None


def _dispatcher():
    return tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(
            port=_PORT.value,
            work_dir=_WORK_DIR.value,
            fault_tolerant_mode=_WORK_DIR.value is not None,
            worker_timeout_ms=int(1000 * _WORKER_TIMEOUT_SECONDS.value),
            job_gc_check_interval_ms=1000,
        )
    )


def _worker(host: str):
    return tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=_DISPATCHER.value,
            port=_PORT.value,
            # %port% is TensorFlow's placeholder for the chosen port.
            worker_address=f"{host}:%port%",
            heartbeat_interval_ms=1000,
            dispatcher_timeout_ms=10_000,
        )
    )


if __name__ == "__main__":
    command.run(main, arguments=True)
