"""Private TensorFlow of devices; see `dual_device_strategy/compat.py`."""

from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context

from dual_device_strategy.compat import resolve_device


def allocator_limit(device: str) -> int | None:
    """Bytes that the allocator of a logical device may hand out; None if it has no limit."""
    context.context().ensure_initialized()
    devices = pywrap_tfe.TFE_ContextListDevices(context.context()._handle)
    wanted = resolve_device(device)
    for i in range(pywrap_tfe.TF_DeviceListCount(devices)):
        if resolve_device(pywrap_tfe.TF_DeviceListName(devices, i)) == wanted:
            return pywrap_tf_session.TF_DeviceListMemoryBytes(devices, i) or None
    return None
