"""The strategy that --strategy names, on the devices that were configured."""

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy
from dual_device_strategy.devices import Devices
from myxtts.command.settings import Job


def make_strategy(job: Job, devices: Devices) -> tf.distribute.Strategy:
    """All of them train on the model device with one replica, so their numbers can be compared."""
    if job.values.strategy == "one_device":
        return tf.distribute.OneDeviceStrategy(devices.model_device)
    if job.values.strategy == "mirrored":
        return tf.distribute.MirroredStrategy([devices.model_device])
    return DataModelSplitStrategy(
        devices.data_device, devices.model_device, slots=job.slots, warm_up=job.values.warm_up
    )
