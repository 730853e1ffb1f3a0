"""The devices: chooses and configures them; samples how busy and how full they are.

configuring   `configure_devices`: by physical index, before TensorFlow starts
pair          the pair that a strategy is made for, by logical name
several       lists of data devices and model devices
choosing      chooses the two GPUs, and which one trains, if the user does not
topology      the links between the GPUs of a machine
use           samples of the devices' work and memory
names         short names, and the GPU behind a name
"""

from dual_device_strategy.devices.configuring import Device, Devices, configure_devices, gpu_name
from dual_device_strategy.devices.names import short_name
from dual_device_strategy.devices.pair import device_pair
from dual_device_strategy.devices.use import (
    DeviceSampler,
    Sample,
    free_memory,
    total_memory,
    usable_cores,
)

__all__ = [
    "Device",
    "DeviceSampler",
    "Devices",
    "Sample",
    "configure_devices",
    "device_pair",
    "free_memory",
    "gpu_name",
    "short_name",
    "total_memory",
    "usable_cores",
]
