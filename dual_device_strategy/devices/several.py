"""Several data devices and several model devices: the ones that were named, checked."""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.devices.names import short_name
from dual_device_strategy.devices.pair import existing


def device_lists(
    data_devices: Sequence[str], model_devices: Sequence[str], *, shared: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The full names of the data devices and of the model devices.

    Args:
      data_devices: any forms of logical names, such as "GPU:6".
      model_devices: likewise.
      shared: whether a data device may be a model device too.

    Raises:
      ValueError: if a list is empty, a device is named twice, or does not exist.
    """
    lists = {"data_devices": data_devices, "model_devices": model_devices}
    check_lists(lists)
    available = tf.config.list_logical_devices("GPU") + tf.config.list_logical_devices("CPU")
    named = {}
    for argument, devices in lists.items():
        full = [existing(argument, device, available) for device in devices]
        for device in full:
            if full.count(device) > 1:
                raise ValueError(
                    f"{argument}={list(devices)} names {short_name(device)} more than once; name "
                    "each device once"
                )
        named[argument] = tuple(full)
    data, model = named.values()
    both = [device for device in data if device in model]
    if both and not shared:
        raise ValueError(
            f"{_names(both)} is in data_devices and in model_devices; if it is to train too, "
            "give shares as well, such as shares=(0.7, 0.3), or shares=\"auto\"; if not, "
            "leave it out of one of the lists"
        )
    host = compat.host_of(data[0])
    if len(data) > 1 and host in data:
        raise ValueError(
            f"data_devices={list(data_devices)} names the host beside other devices; the host "
            "prepares batches alone, or leaves that to the others"
        )
    logging.info("data devices %s; model devices %s", _names(data), _names(model))
    return data, model


def check_lists(lists: dict[str, Sequence[str]]) -> None:
    """Refuses arguments that are not lists of names; does not start TensorFlow's runtime."""
    for argument, devices in lists.items():
        if isinstance(devices, str) or not isinstance(devices, Sequence):
            raise ValueError(
                f"{argument} must be a list of device names, got {devices!r}; write for instance "
                f"{argument}=['GPU:0']"
            )
        if not devices:
            raise ValueError(f"{argument} is empty; name a device, such as {argument}=['GPU:0']")


def _names(devices) -> str:
    return ", ".join(short_name(getattr(device, "name", device)) for device in devices)
