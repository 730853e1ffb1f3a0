"""A link between two workers is cut: for three seconds, and for good."""

import json
import re
import time

import pytest

from tests.dual_device_strategy.machines import network
from tests.waiting import wait_for_output

STATED_SECONDS = 30  # in docs/machines.md
STEPS = 12

# Trains three times from the beginning: the same losses, whatever the link does meanwhile.
PROGRAM = (
    network.ENTER
    + f"""
import time
import tensorflow as tf
from dual_device_strategy import MultiWorkerDataModelSplitStrategy, on_data_device

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = MultiWorkerDataModelSplitStrategy(["CPU:1"], ["CPU:2"])
signals = tf.random.stateless_normal([64, 512], [1, 2])
host = tf.data.Dataset.from_tensor_slices((signals, tf.range(64) % 8)).batch(16).repeat()
dataset = host.apply(on_data_device(lambda x, y: (tf.abs(tf.signal.rfft(x)), y)))
with strategy.scope():
    weight = tf.Variable(tf.zeros([257, 8]))

def replica_step(x, y):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weight)
        loss = tf.reduce_sum(losses) / 16
    (gradient,) = tape.gradient(loss, [weight])
    gradient = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
    weight.assign_sub(1e-3 * gradient)
    return loss

@tf.function
def step(batch):
    return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

distributed = strategy.experimental_distribute_dataset(dataset)
for training in range(3):
    weight.assign(tf.zeros_like(weight))
    batches = iter(distributed)
    for number in range({STEPS}):
        print(training, number, float(step(next(batches))).hex(), flush=True)
        time.sleep(0.03)
"""
)


@pytest.fixture(params=["namespaces", "proxies"])
def link(request):
    """Namespaces where the system allows them; proxies also where it does."""
    with network.two_hosts(200, 2, proxies=request.param == "proxies") as made:
        yield made


@pytest.mark.slow
def test_a_cut_of_three_seconds_changes_no_loss_and_one_for_ever_ends_both(
    link, start_workers, tmp_path
):
    environments = []
    for index in range(2):
        cluster = {"worker": link.addresses_for(index)}
        config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environments.append({**link.environment(index), "TF_CONFIG": json.dumps(config)})
    workers = start_workers(["-c", PROGRAM], tmp_path, environments)
    wait_for_output(workers[0], "\n1 4 ")
    link.cut()
    time.sleep(3)
    link.mend()
    wait_for_output(workers[0], "\n2 4 ")
    link.cut()
    began = time.monotonic()
    for worker in workers:
        assert worker.wait(began + STATED_SECONDS - time.monotonic()) == 1, worker.stderr[-3000:]
    print(f"{link.kind}: both have ended {time.monotonic() - began:.1f} s after the cut")
    for index, worker in enumerate(workers):
        said = worker.stderr.splitlines()[-1]
        assert re.match(rf"error: .*worker {1 - index} \(", said), worker.stderr
        assert "cannot be reached any more" in said
        assert "Traceback" not in worker.stderr
        losses = [line.split() for line in worker.stdout.splitlines()]
        trainings = [[loss for of, _, loss in losses if of == str(i)] for i in range(2)]
        assert len(trainings[0]) == STEPS and trainings[0] == trainings[1]
