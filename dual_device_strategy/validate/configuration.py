"""Section 2: configures the two devices, and checks that they are the requested ones."""

import os
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import Device, Devices, topology
from dual_device_strategy.validate.report import Report

# Enough to be visible in the driver's figure for a GPU's memory, which other programs use as well.
_PROBE_MB = 64
_START_RUNTIME_LATER = (
    "start nothing of TensorFlow before configure_devices, and set devices nowhere else"
)


def check(report: Report, configure: Callable[[], Devices]) -> Devices | None:
    """The configured devices, or None where `configure` refuses."""
    try:
        devices = configure()
    except (ValueError, RuntimeError) as refused:
        report.check(False, "devices not configured", remedy=str(refused))
        return None
    report.check(True, str(devices), remedy="", **_figures(devices))
    logical = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    each = _each(devices)
    wanted = {device.logical for device in each}
    hidden = len(tf.config.list_physical_devices("GPU")) - len(tf.config.get_visible_devices("GPU"))
    report.check(
        wanted <= set(logical),
        f"TensorFlow has {', '.join(logical)}; {hidden} GPUs are hidden",
        remedy=_START_RUNTIME_LATER,
        logical=logical,
    )
    for device in {device.logical: device for device in each}.values():
        if device.kind == "GPU":
            _check_identity(report, device)
            _check_memory_policy(report, device)
    _note_better_pair(report, devices)
    renumbered = os.environ.get("CUDA_VISIBLE_DEVICES")
    if renumbered:
        report.note(f"CUDA_VISIBLE_DEVICES={renumbered}: indices count within this list")
    policy = tf.config.experimental.get_device_policy()
    report.check(
        policy == "silent",
        f"device policy {policy}, soft placement "
        + ("on" if tf.config.get_soft_device_placement() else "off"),
        remedy="tf.config.experimental.set_device_policy('silent'): batches move between devices",
    )
    return devices


def _each(devices: Devices) -> list[Device]:
    return [*devices.data, *devices.model] if devices.several else [devices.data, devices.model]


def _figures(devices):
    names = ("logical", "physical", "name", "memory")
    if devices.several:
        return {
            kind: [{name: getattr(device, name) for name in names} for device in of_kind]
            for kind, of_kind in (("data", devices.data), ("model", devices.model))
        }
    return {
        f"{device.role}_{name}": getattr(device, name)
        for device in _each(devices)
        for name in names
    }


def _check_identity(report, device: Device):
    """Sends bytes to the logical device and checks where they arrive."""
    arrived = _where_bytes_arrive(device)
    if arrived is None:
        report.note(f"{device.logical}: the driver does not tell which card holds its memory")
        return
    report.check(
        arrived == device.physical,
        f"what is sent to {device.logical} arrives on physical GPU {arrived}",
        remedy=f"expected physical GPU {device.physical}: {_START_RUNTIME_LATER}",
        arrived=arrived,
    )


def _where_bytes_arrive(device):
    if emulation.active():
        with tf.device("/CPU:0"):
            sent = tf.constant(os.urandom(1 << 20))
            sent = tf.io.decode_raw(sent, tf.uint8)
        with emulation.measure() as use, tf.device(device.logical):
            tf.identity(sent).numpy()
        received = [gpu.bytes_in for gpu in use]
    else:
        try:
            before = topology.read_topology().gpus
            with tf.device(device.logical):
                held = tf.zeros([_PROBE_MB, 1 << 18])
                held[0, 0].numpy()
            after = topology.read_topology().gpus
        except topology.UnknownTopologyError:
            return None
        # A GPU with a limit takes its memory at once, and the driver's figure stays the same.
        received = [now.used_mb - then.used_mb for then, now in zip(before, after, strict=True)]
        if max(received) < _PROBE_MB // 2:
            return None
    return received.index(max(received))


def _check_memory_policy(report, device):
    gpu = tf.config.list_physical_devices("GPU")[device.physical]
    held = tf.config.experimental.get_memory_info(device.logical)["current"]
    text = f"{device.logical}: {device.memory}, {held >> 10} KB in use"
    if emulation.active():
        total = emulation.stats(device.physical).memory_limit >> 20
        report.note(f"{text} of {total} MB", bytes_in_use=held, limit_mb=total)
        return
    report.note(text, bytes_in_use=held)
    configuration = tf.config.get_logical_device_configuration(gpu)
    if configuration is None:
        return
    limit = configuration[0].memory_limit
    try:
        total = topology.read_topology().gpus[device.physical].memory_mb
    except topology.UnknownTopologyError:
        return
    report.check(
        limit <= total,
        f"{device.logical}: limit {limit:.0f} MB of the card's {total} MB",
        remedy=f"give less than {total} MB for {device.logical}",
    )


def _note_better_pair(report, devices):
    if devices.several:
        return
    pair = (devices.data.physical, devices.model.physical)
    if devices.data.kind != devices.model.kind or devices.model.kind != "GPU":
        return
    if emulation.active():
        return
    try:
        known = topology.read_topology()
    except topology.UnknownTopologyError:
        return
    best = known.best_pair(range(len(known.gpus)))
    if known.link(*best) < known.link(*pair):
        report.note(
            f"GPUs {pair[0]} and {pair[1]} are joined by {known.link(*pair)}; {best[0]} and "
            f"{best[1]} would be better, joined by {known.link(*best)}",
            better_pair=best,
        )
