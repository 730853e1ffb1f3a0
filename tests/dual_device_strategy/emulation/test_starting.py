"""What can be started, what is refused, and how processes with emulated GPUs end."""

import json
import time

import pytest
import tensorflow as tf

from dual_device_strategy import emulation


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"gpus": 0}, "There can be 1 to 8 emulated GPUs, got gpus=0"),
        ({"gpus": 9}, "There can be 1 to 8 emulated GPUs, got gpus=9"),
        ({"gpus": 2.0}, "There can be 1 to 8 emulated GPUs, got gpus=2.0"),
        (
            {"gpus": 2, "memory_mb": [1024]},
            r"one for each of the 2 GPUs, got 1: memory_mb=\[1024\]",
        ),
        ({"memory_mb": [1024, 0]}, r"must be of positive integers, got memory_mb=\[1024, 0\]"),
        ({"memory_mb": -1}, "must be of positive integers, got memory_mb=-1"),
        ({"gbps": 0}, "gbps must be a positive number, got gbps=0"),
        ({"latency_us": -1}, "latency_us must be a positive number, got latency_us=-1"),
        ({"gbps": float("inf")}, "gbps must be a positive number, got gbps=inf"),
    ],
)
def test_figures_that_make_no_device_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        emulation.start(**arguments)


def test_a_second_start_is_refused():
    with pytest.raises(RuntimeError, match=r"runs already, with 2 GPUs: start it once"):
        emulation.start(gpus=2)


def test_a_memory_limit_comes_too_late_once_the_runtime_runs():
    tf.config.list_logical_devices()
    with pytest.raises(RuntimeError, match=r"runtime runs already.*set_memory_limit\(\) before"):
        emulation.set_memory_limit(0, 100)
    with pytest.raises(ValueError, match="no emulated GPU 2, there are GPUs 0 to 1"):
        emulation.set_memory_limit(2, 100)


def test_what_is_active_can_be_asked_for():
    active = emulation.active()
    assert active.gpus == 2 and active.memory_mb == (1024, 1024) and active.gbps == 16
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    assert details["device_name"] == "EMULATED"


def test_environment_figures_that_are_none_are_named(monkeypatch):
    monkeypatch.setattr("dual_device_strategy.emulation.starting._started", None)
    monkeypatch.setenv("EMULATED_GPUS", "two")
    with pytest.raises(ValueError, match="EMULATED_GPUS in the environment is not a figure: 'two'"):
        emulation.start_from_environment()
    monkeypatch.setenv("EMULATED_GPUS", "0")
    assert emulation.start_from_environment() is None


def test_a_late_start_or_one_beside_real_gpus_is_refused_and_timed_work_sleeps_without(run_python):
    code = """
import time
import tensorflow as tf
from dual_device_strategy import emulation

def refused():
    try:
        emulation.start(gpus=2)
    except RuntimeError as error:
        print(error)

try:
    with emulation.measure(): pass
except RuntimeError as error:
    print(error)
listed = tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind=None: ["a real one"]
refused()
tf.config.list_physical_devices = listed
began = time.perf_counter()
print(int(emulation.timed(tf.constant(3), ms=100)), time.perf_counter() - began > 0.1)
refused()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    unmeasured, real, slept, late = result.stdout.splitlines()
    assert "no emulated GPUs to measure: call emulation.start() first" in unmeasured
    assert "1 real GPU(s)" in real and "CUDA_VISIBLE_DEVICES=-1" in real
    assert slept == "3 True"
    assert "runtime runs already" in late and "before the first op" in late


def test_eight_gpus_are_configured_as_on_hardware(run_python):
    code = """
import json
import tensorflow as tf
from dual_device_strategy import emulation
emulation.start(gpus=8, memory_mb=[100 * i for i in range(1, 9)])
gpus = tf.config.list_physical_devices("GPU")
emulation.set_memory_limit(7, 50)
Part = tf.config.LogicalDeviceConfiguration
tf.config.set_visible_devices([gpus[i] for i in (1, 3, 5, 7)], "GPU")
tf.config.set_logical_device_configuration(gpus[3], [Part(memory_limit=100), Part(memory_limit=60)])
tf.config.set_logical_device_configuration(gpus[5], [Part(memory_limit=300)])

def megabytes_that_fit(device):
    kept = []
    try:
        with tf.device(device):
            while len(kept) < 100:
                kept.append(tf.zeros([10, 1 << 18]))
    except tf.errors.ResourceExhaustedError:
        pass
    return len(kept) * 10

logical = [device.name for device in tf.config.list_logical_devices("GPU")]
fit = [megabytes_that_fit(name) for name in logical]
with emulation.measure() as use:
    for name in logical:
        with tf.device(name):
            emulation.timed(tf.constant(1.0), 20).numpy()
busy = [round(one.compute_seconds, 2) for one in use]
limits = [one.memory_limit >> 20 for one in use]
print(json.dumps([len(gpus), logical, fit, busy, limits]))
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    count, logical, fit, busy, limits = json.loads(result.stdout)
    assert count == 8
    assert logical == [f"/device:GPU:{i}" for i in range(5)]
    # Scalars take a little of each device's memory.
    assert fit == [190, 90, 50, 290, 40]
    assert busy == [0, 0.02, 0, 0.04, 0, 0.02, 0, 0.02]
    assert limits == [100, 200, 300, 400, 500, 600, 700, 50]


def test_logical_devices_that_ask_for_more_than_there_is_are_refused(run_python):
    code = """
import tensorflow as tf
from dual_device_strategy import emulation
emulation.start(gpus=1, memory_mb=100)
parts = [tf.config.LogicalDeviceConfiguration(memory_limit=60)] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], parts)
try:
    tf.config.list_logical_devices()
except tf.errors.InvalidArgumentError as error:
    print(error)
"""
    result = run_python(code)
    assert "emulated GPU 0 ask for 120 MB, but it has 100 MB" in result.stdout, result.stderr


@pytest.mark.timing
@pytest.mark.parametrize("ending", ["pass", "raise ValueError('on purpose')"])
def test_a_process_ends_at_once_with_work_queued_on_devices_and_host(run_python, ending):
    code = f"""
import time
import tensorflow as tf
from dual_device_strategy import emulation
emulation.start_from_environment()
kept = []
for device in ("/GPU:0", "/GPU:1", "/GPU:2"):
    with tf.device(device):
        x = tf.ones([1000])
        for _ in range(5):
            x = emulation.timed(x, 300_000)
        kept.append(x)
with tf.device("/CPU:0"):
    dataset = tf.data.Dataset.range(9).map(lambda i: emulation.timed(i, 300_000)).prefetch(2)
    iterator = iter(dataset)
print(time.time())
{ending}
"""
    result = run_python(
        code, EMULATED_GPUS="3", EMULATED_GPUS_MEMORY_MB="64,32,64", EMULATED_GPUS_GBPS="8"
    )
    assert time.time() - float(result.stdout) < 60  # on a busy machine; of 300 for one op
    assert result.returncode == (0 if ending == "pass" else 1), result.stderr
    assert "3 emulated GPUs (memory 64, 32, 64 MB, links of 8 GB/s and 10 us)" in result.stderr
    assert ("on purpose" in result.stderr) == (ending != "pass")
