"""A real dispatcher and real workers, some of them killed: what arrives, and the error if not."""

import collections
import os
import signal
import time
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    DataService,
    MirroredDataModelSplitStrategy,
    on_data_device,
)
from dual_device_strategy.data_service import explained
from dual_device_strategy.data_service.watching import _slowed
from tests.dual_device_strategy.machines.conftest import free_ports
from tests.waiting import PATIENCE, wait_for_output

ROOT = Path(__file__).resolve().parents[3]
COUNT = 400
CPUS = ["CPU:1", "CPU:2", "CPU:3", "CPU:4"]


class Service:
    """Processes of a service; `address` is the dispatcher's."""

    def __init__(self, processes, workers):
        self._processes, self.workers = processes, []
        self.dispatcher = self._start("dispatcher", "--worker_timeout_seconds=2")
        self.address = address_of(self.dispatcher)
        for _ in range(workers):
            self.join()

    def _start(self, *arguments):
        command = ["-m", "dual_device_strategy.data_service", *arguments, "--host=localhost"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        return self._processes.start(command, env=env)

    def join(self, port=None):
        port = port or free_ports(1)[0]  # held, so that another worker can take its place
        worker = self._start("worker", f"--dispatcher={self.address}", f"--port={port}")
        worker.address = address_of(worker)
        self.workers.append(worker)

    def end(self, number=signal.SIGTERM):
        servers = [*self.workers, self.dispatcher]
        for server in servers:
            server.send_signal(number)
        return [server.wait(PATIENCE) for server in servers]


def address_of(server):
    wait_for_output(server, "\n")
    return server.stdout.split()[1]


@pytest.fixture
def service(processes):
    started = []

    def start(workers=2):
        started.append(Service(processes, workers))
        return started[-1]

    yield start
    for each in started:
        each.end(signal.SIGKILL)


def dataset(ahead=0):
    """With `ahead`, a worker has taken that many elements that are not in a batch yet."""
    host = tf.data.Dataset.range(COUNT)
    host = (_slowed(host.prefetch(ahead), 0.01) if ahead else host).batch(10)
    return host.apply(on_data_device(lambda x: tf.cast(x, tf.float32) + 0.5))


def visited(service, after=None, at=5, ahead=0, kind=DataModelSplitStrategy, **options):
    """Counts of the elements that arrived; `after` is called when `at` batches have."""
    devices = ("CPU:1", "CPU:2") if kind == DataModelSplitStrategy else (CPUS[:2], CPUS[2:])
    strategy = kind(*devices, data_service=DataService(service.address, **options))
    seen = collections.Counter()
    for number, batch in enumerate(strategy.experimental_distribute_dataset(dataset(ahead))):
        for piece in strategy.experimental_local_results(batch):
            assert piece.device[-5:] in devices[1]
            seen.update(int(x - 0.5) for x in piece.numpy())
        if after and number == at:
            after()
    return seen


def test_every_element_comes_once_and_the_servers_end_on_sigterm(service):
    running = service()
    for kind in (DataModelSplitStrategy, MirroredDataModelSplitStrategy):
        for mode in ("exactly once", "at most once"):
            seen = visited(running, kind=kind, mode=mode)
            assert seen == collections.Counter(range(COUNT))
    assert running.end() == [0, 0, 0]


@pytest.mark.timing
def test_an_epoch_ends_soon_after_its_last_batch(service):
    served = DataService(service().address).applied(tf.data.Dataset.range(COUNT).batch(10))
    late = []
    for _ in range(3):
        for _ in served:
            last = time.monotonic()
        late.append(time.monotonic() - last)
    assert min(late) < 2  # about 0.3; 3.8 with a clock and a client that wake up once a second


def test_a_worker_that_does_not_come_back_is_an_error_within_the_stated_time(service):
    running = service()
    began = []

    def kill():
        began.append(time.monotonic())
        running.workers[0].kill()

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        visited(running, kill, patience_seconds=4)
    assert time.monotonic() - began[0] < 60  # TensorFlow waits for ever
    given = DataService(running.address, patience_seconds=4)
    strategy = SimpleNamespace(extended=SimpleNamespace(data_service=given))
    assert explained(error.value, strategy) == given.silence
    assert f"no batch came from the data service at {running.address} for 4 s" in given.silence
    assert explained(tf.errors.InvalidArgumentError(None, None, "shapes"), strategy) is None


@pytest.mark.slow
def test_elements_that_were_lost_are_an_error_or_are_told(service, capfd):
    running = service()

    def kill_and_restart():
        killed = [running.workers.pop() for _ in "12"]
        for old in killed:
            old.kill()
        time.sleep(3)  # until the dispatcher counts them as gone
        for old in killed:
            running.join(old.address.rpartition(":")[2])

    # Both, because one of them may not have begun; whichever has begun has taken more.
    options = {"after": kill_and_restart, "ahead": 50, "patience_seconds": 100}
    seen = visited(running, **options, mode="at most once")
    lost = COUNT - len(seen)
    assert max(seen.values()) == 1 and lost
    assert f"the data service gave {COUNT - lost} of {COUNT} elements" in capfd.readouterr().err
    with pytest.raises(tf.errors.InvalidArgumentError, match="the data service gave"):
        visited(running, **options, mode="exactly once")


def test_a_service_without_workers_is_an_error_within_the_stated_time(service):
    began = time.monotonic()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no worker has joined yet"):
        visited(service(workers=0), patience_seconds=1)
    assert time.monotonic() - began < 60


def test_in_rounds_all_consumers_get_batches_of_one_shape(service):
    running = service()
    host = tf.data.Dataset.range(100).repeat().map(lambda i: tf.zeros([i // 2 % 7 + 1]))
    options = {"mode": "in rounds", "job_name": "rounds", "patience_seconds": 100}
    readers = [
        iter(DataService(running.address, consumer=(i, 2), **options).applied(host))
        for i in range(2)
    ]
    with futures.ThreadPoolExecutor(2) as both:  # a round waits until all have asked
        shapes = [[len(batch) for batch in both.map(next, readers)] for _ in range(20)]
    assert all(first == second for first, second in shapes)
    assert len({first for first, _ in shapes}) > 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            [],
            "say what to start, dispatcher or worker: python -m dual_device_strategy.data_service",
        ),
        (["worker"], "a worker needs --dispatcher=HOST:PORT"),
        (["worker", "--dispatcher=localhost:1"], "no dispatcher answers at --dispatcher=localhost"),
        (["dispatcher", "--work_dir=w"], "--work_dir is for a dispatcher with a --port of its own"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(run_python, arguments, sentence):
    done = run_python(["-m", "dual_device_strategy.data_service", *arguments])
    assert done.returncode == 1 and not done.stdout
    assert sentence in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
