"""Stands in for nvidia-ml-py: a machine described in the environment instead of a driver.

FAKE_NVML='{"gpus": ["NVIDIA A", ...], "links": {"2-3": "nvlink"}, "otherwise": "system"}' has the
GPUs at PCI addresses 10:00.0, 20:00.0 and so on.  Without it there is no driver.
"""

import json
import os
import types

NVML_NVLINK_MAX_LINKS = 18
NVML_P2P_CAPS_INDEX_NVLINK = 2
NVML_P2P_STATUS_OK = 0
NVML_P2P_STATUS_NOT_SUPPORTED = 5
NVML_TOPOLOGY_MULTIPLE = 20
NVML_TOPOLOGY_NODE = 40
NVML_DEVICE_MIG_ENABLE = 1
ANCESTORS = {"switch": 20, "bridge": 30, "socket": 40, "system": 50}


class NVMLError(Exception):
    pass


def _machine():
    return json.loads(os.environ["FAKE_NVML"])


def _link(a, b):
    machine = _machine()
    name = f"{min(a, b)}-{max(a, b)}"
    return machine.get("links", {}).get(name, machine.get("otherwise", "system"))


def nvmlInit():
    if "FAKE_NVML" not in os.environ:
        raise NVMLError("NVML Shared Library Not Found")


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return b"550.54.14"


def nvmlSystemGetCudaDriverVersion():
    return 12040


def nvmlDeviceGetCount():
    return len(_machine()["gpus"])


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetName(handle):
    return _machine()["gpus"][handle]


def nvmlDeviceGetPciInfo(handle):
    return types.SimpleNamespace(busId=f"00000000:{handle + 1}0:00.0")


def nvmlDeviceGetMemoryInfo(handle):
    return types.SimpleNamespace(total=24 << 30, used=1 << 30)


def nvmlDeviceGetMigMode(handle):
    raise NVMLError("Not Supported")


def nvmlDeviceGetP2PStatus(a, b, capability):
    assert capability == NVML_P2P_CAPS_INDEX_NVLINK
    linked = _link(a, b).startswith("nvlink")
    return NVML_P2P_STATUS_OK if linked else NVML_P2P_STATUS_NOT_SUPPORTED


def nvmlDeviceGetTopologyCommonAncestor(a, b):
    link = _link(a, b)
    if link == "hidden":
        raise NVMLError("Not Supported")
    return ANCESTORS[link]


def _nvlinks(handle):
    """The far end of each of a GPU's links: "nvlink4" is four of them."""
    for other in range(nvmlDeviceGetCount()):
        link = _link(handle, other) if other != handle else ""
        if link.startswith("nvlink"):
            yield from [other] * int(link.removeprefix("nvlink") or 1)


def nvmlDeviceGetNvLinkState(handle, link):
    if link >= len(list(_nvlinks(handle))):
        raise NVMLError("Invalid Argument")
    return 1


def nvmlDeviceGetNvLinkRemotePciInfo(handle, link):
    return nvmlDeviceGetPciInfo(list(_nvlinks(handle))[link])
