"""The two devices of a strategy: those that the user names, or the best ones."""

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.devices import choosing
from dual_device_strategy.devices.names import physical_gpu, short_name


def device_pair(data_device: str | None, model_device: str | None) -> tuple[str, str]:
    """The full names of the data device and the model device.

    Args:
      data_device: any form of a logical name, such as "GPU:1"; None to choose both devices.
      model_device: likewise.

    Raises:
      ValueError: if a device does not exist, or only one is named.
    """
    gpus = tf.config.list_logical_devices("GPU")
    cpus = tf.config.list_logical_devices("CPU")
    if (data_device is None) != (model_device is None):
        missing = "model_device" if model_device is None else "data_device"
        raise ValueError(
            f"data_device={data_device!r} and model_device={model_device!r}: {missing} is missing; "
            f"name both, or neither to have them chosen from {_names(gpus + cpus)}"
        )
    if data_device is None:
        data_device, model_device, origin = _chosen(gpus, cpus)
    else:
        origin = "asked for"
    data_device = existing("data_device", data_device, gpus + cpus)
    model_device = existing("model_device", model_device, gpus + cpus)
    logging.info(
        "DataModelSplitStrategy: data device %s, model device %s (%s)",
        short_name(data_device),
        short_name(model_device),
        origin,
    )
    if data_device == model_device:
        logging.warning(
            "Data device and model device are both %s: batches are staged ahead, but front end "
            "and training will take turns",
            short_name(data_device),
        )
    return data_device, model_device


def _chosen(gpus, cpus):
    """The names of both devices, and the rule that chose them."""
    if len(gpus) < 2:
        pair = (cpus[:1] + gpus if gpus else cpus * 2)[:2]
        seen = "one GPU" if gpus else "no GPU"
        return *(device.name for device in pair), f"chosen: TensorFlow sees {seen}"
    if len(tf.config.get_visible_devices("GPU")) != len(gpus):
        return gpus[1].name, gpus[0].name, "chosen: the lower index trains, of parts of one card"
    physical = [physical_gpu(0), physical_gpu(1)]
    pair, rule = choosing.data_and_model(*physical)
    return *(gpus[physical.index(index)].name for index in pair), f"chosen: {rule}"


def existing(argument: str, device: str, available) -> str:
    """The full name of a device that the user named; ValueError if it does not exist."""
    remedy = f"available are {_names(available)}; write for instance {argument}='CPU:0'"
    if not isinstance(device, str):
        raise ValueError(f"{argument} must be the name of a device, got {device!r}; {remedy}")
    try:
        # An empty name would mean the device of the surrounding tf.device scope.
        resolved = compat.resolve_device(device) if device else None
    except ValueError:
        resolved = None
    if resolved not in [compat.resolve_device(existing.name) for existing in available]:
        raise ValueError(f"{argument}={device!r} does not exist in this process; {remedy}")
    return resolved


def _names(devices) -> str:
    return ", ".join(short_name(device.name) for device in devices)
