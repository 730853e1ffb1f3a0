"""Two workers that share a real data service; what none of them can promise is refused."""

import ast
import collections
import json
import signal

import pytest

from dual_device_strategy import DataService, MultiWorkerDataModelSplitStrategy
from tests.dual_device_strategy.data_service.test_servers import Service
from tests.dual_device_strategy.machines.conftest import ended

COUNT, ROUNDS = 400, 20
PROGRAM = f"""
import sys
import tensorflow as tf
from dual_device_strategy import DataService, MultiWorkerDataModelSplitStrategy, on_data_device

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
mode = sys.argv[2]
service = DataService(sys.argv[1], mode=mode, patience_seconds=100)
strategy = MultiWorkerDataModelSplitStrategy(["CPU:1"], ["CPU:2"], data_service=service)

def steps(host, most=1000):
    host = host.apply(on_data_device(lambda x: x))
    return steps_of(strategy.experimental_distribute_dataset(host), most)

def steps_of(distributed, most=1000):
    for number, batch in zip(range(most), distributed):
        rows = strategy.run(tf.size, args=(batch,))
        assert int(strategy.reduce("SUM", rows, axis=None)) > 0
        (part,) = strategy.experimental_local_results(batch)
        yield part.numpy().tolist()

if mode == "at most once":
    for epoch in range(2):
        print([list(steps(tf.data.Dataset.range({COUNT}).batch(20)))])

    def own_part(context):
        part = tf.range({COUNT}, dtype=tf.int64)[context.input_pipeline_id :: 2]
        made = tf.data.Dataset.from_tensor_slices(tf.reshape(part, [-1, 10]))
        return made.apply(on_data_device(lambda x: x))

    distributed = strategy.distribute_datasets_from_function(own_part)
    print([list(steps_of(distributed))])
else:
    # A worker of the service makes three batches of each length, and a round takes one of them.
    host = tf.data.Dataset.range(100).repeat().batch(4)
    host = host.map(lambda x: tf.zeros([4, tf.cast(x[0] // 12, tf.int32) + 1]))
    print([[len(rows[0]) for rows in steps(host, {ROUNDS})]])
"""


@pytest.fixture(scope="module")
def service(processes):
    running = Service(processes, 2)
    yield running
    running.end(signal.SIGKILL)


def printed(service, start_workers, folder, mode):
    workers = start_workers(["-c", PROGRAM, service.address, mode], folder)
    assert ended(workers) == [0, 0], workers[0].stderr[-3000:] + workers[1].stderr[-3000:]
    for worker in workers:
        worker.printed = [ast.literal_eval(line)[0] for line in worker.stdout.splitlines()]
    return workers


def test_two_workers_get_every_element_once_or_each_those_of_its_own_dataset(
    service, start_workers, tmp_path
):
    workers = printed(service, start_workers, tmp_path, "at most once")
    for epoch in range(2):
        first, second = (worker.printed[epoch] for worker in workers)
        seen = collections.Counter(x for batch in first + second for x in batch)
        assert seen == collections.Counter(range(COUNT))
        assert len(first) == len(second)  # with empty batches where the other has more
        assert max(map(len, first)) == 10  # half of the global batch
    for index, worker in enumerate(workers):  # a dataset of each worker's own
        parts = worker.printed[2]
        assert {x % 2 for batch in parts for x in batch} == {index} and len(parts) == COUNT / 20
        assert sorted(x for batch in parts for x in batch) == list(range(index, COUNT, 2))
    assert f" of {COUNT} elements: others are with the programs" in workers[0].stderr


def test_in_rounds_both_workers_have_batches_of_one_shape(service, start_workers, tmp_path):
    first, second = printed(service, start_workers, tmp_path, "in rounds")
    assert first.printed == second.printed
    assert len(first.printed[0]) == ROUNDS and len(set(first.printed[0])) > 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, 'mode="exactly once" cannot be kept by several workers'),
        ({"mode": "at most once", "job_name": "a"}, "share a job by themselves: leave both out"),
    ],
)
def test_what_several_workers_cannot_have_is_refused(options, sentence, monkeypatch):
    cluster = {"worker": ["localhost:0", "localhost:1"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ValueError, match=sentence):
        MultiWorkerDataModelSplitStrategy(
            ["CPU:1"], ["CPU:2"], data_service=DataService("localhost:1", **options)
        )
