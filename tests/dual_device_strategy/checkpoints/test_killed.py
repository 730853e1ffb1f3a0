"""A `fit` that is killed by SIGKILL at any point goes on with the same losses."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]

FIT = """
import json, os, sys, time
import keras, numpy as np, tensorflow as tf
from dual_device_strategy import (
    DataModelSplitStrategy, MidEpochBackup, MirroredDataModelSplitStrategy, on_data_device
)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
keras.utils.set_random_seed(7)
x = np.random.RandomState(0).randn(160, 6).astype("f")
# From that step on whoever waits for it meets the process in time.
slow_from = int(os.environ.get("SLOW_FROM", "1000"))
if sys.argv[3:] == ["auto"]:
    import pytest
    from dual_device_strategy.replicas.plans import Costs
    from tests.share_times import only_whole_batches, pretend
    changes = pytest.MonkeyPatch()
    pretend(changes, Costs(front_end=30, front_fixed=0, step_fixed=0, step=60), least=4)
    only_whole_batches(changes)
    strategy = MirroredDataModelSplitStrategy(["CPU:1"], ["CPU:2", "CPU:1"], shares="auto")
else:
    strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).shuffle(99, seed=4)
data = data.batch(4).apply(on_data_device(lambda x, y: (tf.math.tanh(x), y)))
with strategy.scope():
    model = keras.Sequential([keras.Input([6]), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    model.compile("adam", "mse")

class Losses(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps([self.epoch, batch, logs["loss"]]) + "\\n")
        self.count = getattr(self, "count", 0) + 1
        time.sleep(0.01 if self.count < slow_from else 0.5)

backup = [MidEpochBackup(sys.argv[2], save_freq=2)] if sys.argv[2] else []
model.fit(data, epochs=3, shuffle=False, verbose=0, callbacks=[Losses(), *backup])
print(getattr(strategy, "shares", None))
"""

QUICK = {"UNOPTIMIZED_GRAPHS": "1"}


def losses(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]


def started(processes, arguments, slow_from):
    env = {**os.environ, **QUICK, "PYTHONPATH": str(ROOT), "SLOW_FROM": str(slow_from)}
    return processes.start(arguments, env={**env, "TF_CPP_MIN_LOG_LEVEL": "2"})


def wait_for(process, file, count):
    wait_until(lambda: len(losses(file)) >= count or process.poll() is not None)


@pytest.mark.slow
def test_killed_at_five_random_moments_the_losses_are_the_same(run_python, processes, tmp_path):
    done = run_python(["-c", FIT, tmp_path / "expected", ""], **QUICK)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = {(epoch, batch): loss for epoch, batch, loss in losses(tmp_path / "expected")}
    assert len(expected) == 120
    chance = random.Random(3)
    seen, file, starts = [], tmp_path / "losses", []
    for _ in range(5):
        file.unlink(missing_ok=True)
        wanted = chance.randint(8, 28)
        process = started(processes, ["-c", FIT, file, tmp_path / "backup"], wanted + 4)
        wait_for(process, file, wanted)
        time.sleep(chance.uniform(0.0, 0.03))
        process.kill()
        assert process.wait(60) == -signal.SIGKILL, process.stderr[-2000:]
        seen += losses(file)
        starts.append(losses(file)[0][:2])
    file.unlink()
    done = run_python(["-c", FIT, file, tmp_path / "backup"], **QUICK)
    assert done.returncode == 0, done.stderr[-2000:]
    seen += losses(file)
    assert starts == sorted(starts) and starts[-1] > [0, 30]  # it went on every time
    assert {(epoch, batch) for epoch, batch, _ in seen} == set(expected)
    assert [loss for _, _, loss in seen] == [expected[epoch, batch] for epoch, batch, _ in seen]
    assert not (tmp_path / "backup").exists()


@pytest.mark.slow
def test_killed_after_shares_were_chosen_it_goes_on_with_them_and_the_same_losses(
    run_python, processes, tmp_path
):
    expected, file, backup = tmp_path / "expected", tmp_path / "losses", tmp_path / "backup"
    done = run_python(["-c", FIT, expected, "", "auto"], **QUICK)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "(0.75, 0.25)\n"  # not the equal ones of the first epoch
    process = started(processes, ["-c", FIT, file, backup, "auto"], slow_from=60)
    wait_for(process, file, 60)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL, process.stderr[-2000:]
    file.unlink()
    done = run_python(["-c", FIT, file, backup, "auto"], **QUICK)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "(0.75, 0.25)\n"
    after = losses(file)
    assert after[0][:2] > [1, 10]  # it went on in the middle of the second epoch
    assert after == losses(expected)[-len(after) :]
