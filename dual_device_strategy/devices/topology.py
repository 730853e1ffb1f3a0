"""The links between the GPUs of a machine, and the best pair of them.

The driver's management library (nvidia-ml-py, module `pynvml`) knows the links, and TensorFlow
knows which GPUs it may use; the two number them differently.  TensorFlow follows the CUDA driver,
whose order depends on CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; the management library ignores
both and counts every GPU in PCI order.  Both know the PCI address, by which GPUs are matched here.
Nothing here starts TensorFlow's runtime.
"""

import contextlib
import ctypes
import dataclasses
import enum
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

_MULTIPROCESSORS, _CLOCK_KHZ = 16, 13  # of CUdevice_attribute


class UnknownTopologyError(Exception):
    """The driver could not be asked; the message is a clause that says why."""


class Link(enum.IntEnum):
    """The kinds of links between two GPUs, best first."""

    NVLINK = 0
    SWITCH = 1
    SOCKET = 2
    SYSTEM = 3
    UNKNOWN = 4
    SAME_GPU = 5

    def __str__(self) -> str:
        return _LINK_NAMES[self]


_LINK_NAMES = {
    Link.NVLINK: "NVLink",
    Link.SWITCH: "the same PCIe switch",
    Link.SOCKET: "the same processor socket",
    Link.SYSTEM: "different processor sockets",
    Link.UNKNOWN: "a path the driver does not name",
    Link.SAME_GPU: "slices (MIG) of one GPU",
}


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU as the driver's management library lists it."""

    driver_index: int
    name: str
    bus_id: str
    memory_mb: int
    used_mb: int
    mig: bool


@dataclasses.dataclass(frozen=True)
class Driver:
    """The driver: its GPUs in PCI order and, for each pair, the link and the count of NVLinks."""

    version: str
    cuda_version: str
    gpus: tuple[Gpu, ...]
    links: dict[tuple[int, int], tuple[Link, int]]

    def matched(self, bus_ids: Sequence[str]) -> tuple[Gpu, ...]:
        """The GPUs at these PCI addresses, in the order of the addresses."""
        known = {gpu.bus_id: gpu for gpu in self.gpus}
        missing = [bus_id for bus_id in bus_ids if bus_id not in known]
        if missing:
            raise UnknownTopologyError(
                f"nvidia-ml-py lists no GPU at PCI address {', '.join(missing)}"
            )
        return tuple(known[bus_id] for bus_id in bus_ids)

    def link(self, a: Gpu, b: Gpu) -> tuple[Link, int]:
        if a.bus_id == b.bus_id:
            return Link.SAME_GPU, 0
        return self.links[min(a.driver_index, b.driver_index), max(a.driver_index, b.driver_index)]


@dataclasses.dataclass(frozen=True)
class Topology:
    """The driver's view, in TensorFlow's numbering: `gpus[i]` is TensorFlow's physical GPU i."""

    driver: Driver
    gpus: tuple[Gpu, ...]

    def link(self, a: int, b: int) -> Link:
        return self.driver.link(self.gpus[a], self.gpus[b])[0]

    def best_pair(self, among: Iterable[int]) -> tuple[int, int]:
        """The two physical indices with the best link; of equals, the lowest indices."""

        def rank(pair):
            link, nvlinks = self.driver.link(self.gpus[pair[0]], self.gpus[pair[1]])
            return link, -nvlinks, pair

        return min(itertools.combinations(sorted(among), 2), key=rank)


@dataclasses.dataclass(frozen=True)
class Card:
    """The memory of a GPU in bytes, and its compute as multiprocessors times MHz."""

    memory: int
    compute: int


def read_driver() -> Driver:
    """The driver's GPUs; raises UnknownTopologyError where the driver cannot be asked."""
    with _management_library() as nvml:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return Driver(
            version=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=tuple(_gpu(nvml, index, handle) for index, handle in enumerate(handles)),
            links={
                (a, b): _link(nvml, handles[a], handles[b])
                for a, b in itertools.combinations(range(len(handles)), 2)
            },
        )


def read_topology() -> Topology:
    """The links between the GPUs that CUDA, and so TensorFlow, gives this process."""
    driver = read_driver()
    return Topology(driver, driver.matched(cuda_bus_ids()))


def why_gpus_are_missing(seen: int) -> str:
    """Why TensorFlow sees only `seen` GPUs, and the remedy, as far as they are known."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        driver = read_driver()
    except UnknownTopologyError as unknown:
        return str(unknown)
    if not driver.gpus:
        return "the driver has no GPU either"
    found = f"the driver has {len(driver.gpus)} ({', '.join(gpu.name for gpu in driver.gpus)})"
    if len(driver.gpus) <= seen:
        return found
    if hidden is not None:
        return f"{found}, and CUDA_VISIBLE_DEVICES={hidden} hides some from this process"
    if seen == 0:
        return (
            f"{found}, so TensorFlow most likely lacks its CUDA libraries: "
            "pip install 'dual-device-strategy[gpu]'"
        )
    return f"{found}; TensorFlow's log says why it leaves some out"


def cuda_bus_ids() -> tuple[str, ...]:
    """PCI addresses of the GPUs in the order in which CUDA gives them to this process.

    TensorFlow's physical GPU i is CUDA's device i.  TensorFlow gives no addresses before its
    runtime runs, so the CUDA driver is asked, as TensorFlow does when it lists physical devices.
    """
    cuda = _cuda_driver()
    count = ctypes.c_int()
    _check_cuda(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    addresses = []
    for device in range(count.value):
        text = ctypes.create_string_buffer(64)
        _check_cuda(cuda.cuDeviceGetPCIBusId(text, len(text), device), "cuDeviceGetPCIBusId")
        addresses.append(_normal_bus_id(text.value))
    return tuple(addresses)


def cards() -> tuple[Card, ...]:
    """The memory and compute of the GPUs that CUDA gives this process, in TensorFlow's order."""
    cuda = _cuda_driver()
    found = []
    for device in range(len(cuda_bus_ids())):
        memory = ctypes.c_size_t()
        _check_cuda(cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device), "cuDeviceTotalMem")
        figures = []
        for attribute in (_MULTIPROCESSORS, _CLOCK_KHZ):
            value = ctypes.c_int()
            result = cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            _check_cuda(result, "cuDeviceGetAttribute")
            figures.append(value.value)
        found.append(Card(memory.value, figures[0] * figures[1] // 1000))
    return tuple(found)


def peer_access(a: int, b: int) -> bool:
    """Whether CUDA lets physical GPUs a and b read each other's memory, in both directions."""
    cuda = _cuda_driver()
    answers = []
    for one, other in ((a, b), (b, a)):
        can = ctypes.c_int()
        result = cuda.cuDeviceCanAccessPeer(ctypes.byref(can), one, other)
        _check_cuda(result, "cuDeviceCanAccessPeer")
        answers.append(bool(can.value))
    return all(answers)


@contextlib.contextmanager
def _management_library() -> Iterator[ModuleType]:
    try:
        import pynvml
    except ImportError:
        raise UnknownTopologyError(
            "nvidia-ml-py is not installed (pip install 'dual-device-strategy[gpu]')"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UnknownTopologyError(f"no NVIDIA driver answers: {error}") from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise UnknownTopologyError(f"the NVIDIA driver did not answer: {error}") from None
    finally:
        pynvml.nvmlShutdown()


def _cuda_driver() -> ctypes.CDLL:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise UnknownTopologyError("the CUDA driver library libcuda.so.1 was not found") from None
    _check_cuda(cuda.cuInit(0), "cuInit")
    return cuda


def _check_cuda(result: int, call: str) -> None:
    if result:
        raise UnknownTopologyError(f"the CUDA driver's {call} returned error {result}")


def _gpu(nvml: ModuleType, index: int, handle) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    try:
        mig = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # most GPUs cannot be sliced, and say so in this way
        mig = False
    return Gpu(
        driver_index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        bus_id=_normal_bus_id(nvml.nvmlDeviceGetPciInfo(handle).busId),
        memory_mb=memory.total >> 20,
        used_mb=memory.used >> 20,
        mig=mig,
    )


def _link(nvml: ModuleType, a, b) -> tuple[Link, int]:
    try:
        nvlink = nvml.nvmlDeviceGetP2PStatus(a, b, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if nvlink == nvml.NVML_P2P_STATUS_OK:
            return Link.NVLINK, _direct_nvlinks(nvml, a, b)
    except nvml.NVMLError:  # drivers without NVLink support refuse the question
        pass
    try:
        ancestor = nvml.nvmlDeviceGetTopologyCommonAncestor(a, b)
    except nvml.NVMLError:  # virtual machines often hide the PCI tree
        return Link.UNKNOWN, 0
    if ancestor <= nvml.NVML_TOPOLOGY_MULTIPLE:
        return Link.SWITCH, 0
    return (Link.SOCKET if ancestor <= nvml.NVML_TOPOLOGY_NODE else Link.SYSTEM), 0


def _direct_nvlinks(nvml: ModuleType, a, b) -> int:
    """The number of links straight from a to b; 0 where an NVSwitch is between them."""
    address = _normal_bus_id(nvml.nvmlDeviceGetPciInfo(b).busId)
    count = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(a, link):
                remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(a, link).busId
                count += _normal_bus_id(remote) == address
        except nvml.NVMLError:  # a GPU has fewer links than the library's maximum
            break
    return count


def _normal_bus_id(bus_id: str | bytes) -> str:
    """One spelling: the management library writes eight digits of domain, CUDA four."""
    domain, bus, function = _text(bus_id).lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{function}"


def _text(value: str | bytes) -> str:
    # nvidia-ml-py returned bytes before its version 11.5.
    return value.decode() if isinstance(value, bytes) else value
