"""Section 4: whether bytes sent host -> data device -> model device arrive intact, and how fast."""

import statistics
import time
import zlib
from collections import Counter

import numpy as np
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation
from dual_device_strategy.devices import Devices, topology
from dual_device_strategy.pinned import Pinning
from dual_device_strategy.validate.report import Report

REPEATS = 100
BYTES = 1 << 18
DTYPES = (
    tf.bool,
    tf.int8,
    tf.uint8,
    tf.int16,
    tf.int32,
    tf.int64,
    tf.float16,
    tf.bfloat16,
    tf.float32,
    tf.float64,
    tf.complex64,
)
_STRIDE = 64  # bytes from one repeat's contents to the next one's, a multiple of any dtype's size
_TIMED_BYTES = 16 << 20
_TIMED_COPIES = 7
_REMEDY = (
    "copies between these devices are not to be trusted: update the driver, switch off ACS and "
    "IOMMU in the BIOS (they break peer-to-peer copies on some boards), or take another pair"
)


def check(report: Report, devices: Devices) -> None:
    _check_contents(report, devices)
    _note_path(report, devices)
    _note_bandwidth(report, devices)


def _check_contents(report, devices):
    """Sends batches of every dtype through the strategy, and compares what arrives."""
    sent = {dtype.name: _random_bytes(dtype) for dtype in DTYPES}
    strategy = DataModelSplitStrategy(devices.data_device, devices.model_device)
    damaged, stranded = Counter(), Counter()
    arrived = 0
    for batch in strategy.experimental_distribute_dataset(_batches(sent)):
        for name, tensor in batch.items():
            window = sent[name][arrived * _STRIDE :][:BYTES]
            received = np.ascontiguousarray(tensor.numpy()).view(np.uint8)
            damaged[name] += zlib.crc32(received) != zlib.crc32(window)
            stranded[name] += not tensor.backing_device.endswith(devices.model_device)
        arrived += 1
    report.check(
        arrived == REPEATS,
        f"{arrived} of {REPEATS} batches arrived by {devices.data_device} on "
        f"{devices.model_device}, each of {len(DTYPES)} dtypes x {BYTES >> 10} KB",
        remedy="batches were lost between the devices: report this with its log",
        arrived=arrived,
    )
    for counts, wrong, right, remedy in (
        (damaged, "with another checksum", "all checksums are equal", _REMEDY),
        (
            stranded,
            f"not in the memory of {devices.model_device}",
            f"all are in the memory of {devices.model_device}",
            "batches wait elsewhere than where they are used: report this with its log",
        ),
    ):
        bad = {name: count for name, count in counts.items() if count}
        listed = ", ".join(f"{name} {count} times" for name, count in bad.items())
        report.check(
            not bad,
            f"arrived {wrong}: {listed}" if bad else f"{', '.join(sent)}: {right}",
            remedy=remedy,
            wrong=bad,
        )


def _random_bytes(dtype):
    generator = np.random.default_rng(dtype.as_datatype_enum)
    return generator.integers(
        0, 2 if dtype == tf.bool else 256, BYTES + REPEATS * _STRIDE, np.uint8
    )


def _batches(sent):
    """Batches whose contents differ, so that an old buffer counts as damage too."""
    with tf.device("CPU:0"):
        pools = {
            dtype.name: tf.constant(sent[dtype.name].view(dtype.as_numpy_dtype)) for dtype in DTYPES
        }

        def batch(index):
            return {
                dtype.name: tf.slice(
                    pools[dtype.name],
                    [index * (_STRIDE // dtype.size)],
                    [BYTES // dtype.size],
                )
                for dtype in DTYPES
            }

        return tf.data.Dataset.range(REPEATS).map(batch)


def _note_path(report, devices):
    data, model = devices.data, devices.model
    if data.kind != "GPU" or model.kind != "GPU":
        path = "within host memory" if model.kind == "CPU" else "from host memory to the GPU"
    elif emulation.active():
        path = "emulated link between the GPUs"
    else:
        try:
            peers = topology.peer_access(data.physical, model.physical)
            path = "peer-to-peer" if peers else "through host memory, without peer access"
        except topology.UnknownTopologyError as unknown:
            path = f"unknown: {unknown}"
    report.note(f"path {data.logical} -> {model.logical}: {path}", path=path)


def _note_bandwidth(report, devices):
    data, model = devices.data_device, devices.model_device
    if devices.model.kind == "CPU":
        report.note("no bandwidth to measure: logical CPUs share one memory")
        return
    speeds = bandwidths(data, model)
    listed = ", ".join(f"{way} {speed:.1f}" for way, speed in speeds.items())
    report.note(f"bandwidth in GB/s: {listed}", gbps=speeds)


def bandwidths(data: str, model: str) -> dict[str, float]:
    """Gigabytes per second of each way that a batch may take, by its name."""
    first = model if data == "CPU:0" else data
    speeds = {
        f"CPU:0 (pageable) -> {first}": _bandwidth(made_on("CPU:0"), first),
        f"CPU:0 (pinned) -> {first}": _bandwidth(made_pinned(), first),
    }
    for source, target in ((data, model), (model, data)):
        if "CPU:0" not in (source, target):
            speeds[f"{source} -> {target}"] = _bandwidth(made_on(source), target)
    if data == "CPU:0":
        speeds[f"{model} -> CPU:0"] = _bandwidth(made_on(model), "CPU:0")
    return speeds


def made_on(device: str) -> list[tf.Tensor]:
    """Large tensors on a device, all different."""
    with tf.device(device):
        return [tf.fill([_TIMED_BYTES // 4], float(repeat)) for repeat in range(_TIMED_COPIES)]


def made_pinned() -> list[tf.Tensor]:
    """Large tensors in pinned host memory, where there is any."""
    with tf.device("CPU:0"):
        made = tf.data.Dataset.range(_TIMED_COPIES).map(
            lambda repeat: tf.fill([_TIMED_BYTES // 4], tf.cast(repeat, tf.float32))
        )
        batches = Pinning(made.element_spec).pinned(made)
        return [tf.squeeze(batch, axis=[0]) for (batch,) in batches]


def _bandwidth(tensors, target):
    """Gigabytes per second of one large copy; the median of several.

    Of a new tensor each time, because TensorFlow caches the copies of an eager tensor.
    """
    seconds = []
    for sent in tensors:
        _wait_for(sent)
        started = time.perf_counter()
        with tf.device(target):
            received = tf.identity(sent)
        _wait_for(received)
        seconds.append(time.perf_counter() - started)
    return _TIMED_BYTES / statistics.median(seconds) / 1e9


def _wait_for(tensor):
    """Waits until the device has made the tensor, by reading one of its values."""
    with tf.device(tensor.device):
        tensor[:1].numpy()
