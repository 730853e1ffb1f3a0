"""What the sampler says of emulated GPUs, of CPUs, and of GPUs behind a (fake) driver."""

import sys
import time
import types

import pytest
import tensorflow as tf

from dual_device_strategy import devices, emulation
from dual_device_strategy.devices import DeviceSampler, topology


@pytest.mark.timing
def test_emulated_gpus_tell_their_busy_share_and_their_memory():
    use = DeviceSampler(["GPU:0", "/job:localhost/replica:0/task:0/device:GPU:1"], period=60)
    use.start()
    with tf.device("GPU:1"):
        held = tf.ones([1 << 20])
        held = emulation.timed(held, ms=300)
    held[0].numpy()
    use.stop()
    first, second = use.summary().values()
    assert second.busy > 0.5 > first.busy
    assert second.memory >= 4 << 20
    assert second.peak >= second.memory
    assert use.absent == {}


def test_samples_are_taken_in_the_background_until_it_is_stopped():
    use = DeviceSampler(["GPU:0"], period=0.01)
    use.start()
    until = time.monotonic() + 30
    while len(use.samples["GPU:0"]) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(use.samples["GPU:0"]) >= 3
    use.stop()
    assert use._thread is None


def test_a_cpu_device_is_absent_and_said_so():
    use = DeviceSampler(["CPU:1"])
    use.start()
    use.stop()
    assert use.absent == {"CPU:1": "a CPU device has no figures of its use"}
    assert use.summary()["CPU:1"].busy is None
    assert devices.free_memory("CPU:1") is None


def test_free_memory_shrinks_by_what_tensors_hold(run_python):
    # A process of its own: TensorFlow keeps the blocks that other tests gave back.
    done = run_python(
        """
import tensorflow as tf
from dual_device_strategy import devices, emulation
emulation.start(gpus=2, memory_mb=256)
before = devices.free_memory("GPU:1")
with tf.device("GPU:1"):
    held = tf.zeros([8 << 20])
print(before - devices.free_memory("GPU:1") >= 32 << 20)
"""
    )
    assert done.stdout.split() == ["True"], done.stderr


class NVMLError(Exception):
    pass


@pytest.fixture
def driver(monkeypatch):
    """A fake nvidia-ml-py, with TensorFlow's GPU 1 at the driver's place 0."""
    fake = types.ModuleType("pynvml")
    fake.NVMLError = NVMLError
    fake.nvmlInit = lambda: None
    fake.nvmlDeviceGetHandleByIndex = lambda index: index
    fake.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=5 << 30)
    fake.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=40 + handle)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    gpus = tuple(
        topology.Gpu(
            index, "fake", bus_id=f"0000:{index}0:00.0", memory_mb=24_000, used_mb=5_000, mig=False
        )
        for index in (1, 0)
    )
    monkeypatch.setattr(topology, "read_topology", lambda: topology.Topology(None, gpus))
    monkeypatch.setattr(emulation, "active", lambda: None)
    return fake


def test_a_drivers_gpus_are_asked_by_the_drivers_numbers(driver):
    sample = DeviceSampler(["GPU:0", "GPU:1"]).sample()
    assert [sample[name].busy for name in ("GPU:0", "GPU:1")] == [0.41, 0.40]
    assert sample["GPU:0"].card == 5 << 30
    # What this program's tensors hold comes from TensorFlow.
    assert sample["GPU:1"].memory == tf.config.experimental.get_memory_info("GPU:1")["current"]


def test_free_memory_is_the_allocators_limit_less_its_peak_not_what_the_card_has_free(driver):
    # Without growth TensorFlow takes nearly the whole card at the start, and the driver calls that
    # used: this card says that 5,000 of 24,000 MB are in use, the allocator has 1,024 MB.
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    assert devices.free_memory("GPU:0") == (1024 << 20) - peak
    assert devices.total_memory("GPU:0") == 1024 << 20


def test_free_memory_is_unknown_where_the_allocator_keeps_no_account(driver, monkeypatch):
    def no_account(device):
        raise ValueError("Allocator stats not available")

    monkeypatch.setattr(tf.config.experimental, "get_memory_info", no_account)
    assert devices.free_memory("GPU:0") is None


def test_a_driver_that_stops_answering_is_absent_with_its_message(driver):
    use = DeviceSampler(["GPU:0"])

    def lost(handle):
        raise NVMLError("GPU is lost")

    driver.nvmlDeviceGetUtilizationRates = lost
    assert use.sample() == {}
    assert use.absent == {"GPU:0": "the NVIDIA driver did not answer: GPU is lost"}


def test_without_the_library_the_reason_is_kept(monkeypatch):
    def unknown():
        raise topology.UnknownTopologyError("nvidia-ml-py is not installed")

    monkeypatch.setattr(topology, "read_topology", unknown)
    monkeypatch.setattr(emulation, "active", lambda: None)
    assert DeviceSampler(["GPU:0"]).absent == {"GPU:0": "nvidia-ml-py is not installed"}
