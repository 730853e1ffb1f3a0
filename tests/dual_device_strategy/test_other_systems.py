"""macOS and Windows lack fcntl and os.sched_getaffinity; only the emulation needs them."""

PROGRAM = """
import os
import sys

sys.modules["fcntl"] = None  # importing it fails
del os.sched_getaffinity
import tensorflow as tf

import dual_device_strategy
from dual_device_strategy import DataModelSplitStrategy, Monitor, configure_devices, emulation
from dual_device_strategy import on_data_device
from dual_device_strategy.compare import contenders, rounds
from dual_device_strategy.profile import profile
from dual_device_strategy.validate import __main__  # all of its modules

try:
    emulation.start(gpus=2)
except RuntimeError as error:
    print(error)
devices = configure_devices()
strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)
dataset = tf.data.Dataset.range(12).apply(on_data_device(lambda x: x + 1))
with Monitor(strategy) as monitor:
    distributed = strategy.experimental_distribute_dataset(dataset)
    print([int(x) for x in monitor.batches(distributed)])
print(profile(strategy, dataset.repeat(), lambda x: x, steps=5).as_json()["cores"] >= 1)
"""


def test_without_the_emulation_everything_runs_where_linux_only_modules_are_absent(run_python):
    done = run_python(PROGRAM, UNOPTIMIZED_GRAPHS="1")
    refusal, batches, cores = done.stdout.splitlines() or ["", "", done.stderr[-2000:]]
    assert batches == str(list(range(1, 13))), done.stderr[-2000:]
    assert cores == "True"
    assert refusal.startswith("Emulated GPUs need Linux"), refusal
