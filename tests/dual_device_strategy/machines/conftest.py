"""Workers of the tests: processes with TensorFlow imported, that find each other in TF_CONFIG."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

_held: list[socket.socket] = []
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def start_workers(processes):
    """Starts workers of a program; what it returns is a list of processes in their order.

    Takes the arguments of Python, and one environment for each worker beside TF_CONFIG.  Graphs run
    as they were traced, unless that environment has an empty UNOPTIMIZED_GRAPHS.
    """

    def start(arguments, cwd, environments=({}, {}), tf_config=True):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(len(environments))]
        started = []
        for index, environment in enumerate(environments):
            env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
            env["UNOPTIMIZED_GRAPHS"] = "1"
            if tf_config:
                task = {"type": "worker", "index": index}
                env["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            started.append(processes.start(arguments, cwd=cwd, env={**env, **environment}))
            started[-1].environment = {**env, **environment}
        return started

    return start


def free_ports(count):
    """Numbers in a row of ports that the system gives to nobody else while this process lives.

    Sockets that do not listen hold them; a server that reuses addresses, as TensorFlow's does, may
    listen there all the same.
    """
    while True:
        sockets = []
        try:
            for _ in range(count):
                sockets.append(socket.socket())
                sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                before = sockets[-2].getsockname()[1] if sockets[:-1] else -1
                sockets[-1].bind(("127.0.0.1", before + 1))
        except (OSError, OverflowError):  # the next one is taken
            for each in sockets:
                each.close()
            continue
        _held.extend(sockets)
        return [each.getsockname()[1] for each in sockets]


def ended(workers, seconds=PATIENCE):
    """Waits for all; returns their exit codes."""
    try:
        return [worker.wait(seconds) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
