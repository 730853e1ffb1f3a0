"""The best pair on four machines that a fake driver describes."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dual_device_strategy import emulation
from dual_device_strategy.devices import choosing, topology
from dual_device_strategy.devices.topology import Link

FAKE_DRIVER = Path(__file__).parent / "fake_driver"
FOUR = ["NVIDIA RTX A5000"] * 4
NVLINK_PAIR = {"gpus": FOUR, "links": {"1-3": "nvlink4", "0-1": "switch"}}
SWITCH_PAIR = {"gpus": FOUR, "links": {"1-2": "switch", "0-1": "bridge"}, "otherwise": "socket"}
SOCKET_PAIR = {"gpus": FOUR, "links": {"0-3": "socket"}}


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, FAKE_DRIVER / "cuda.cc"], check=True)
    return ctypes.CDLL(str(path))


@pytest.fixture
def machine(monkeypatch, cuda_library):
    """Describes the machine that the driver reports and the GPUs that CUDA gives."""
    monkeypatch.syspath_prepend(str(FAKE_DRIVER))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setattr(topology.ctypes, "CDLL", lambda name: cuda_library)

    def describe(layout, cuda_order=None):
        monkeypatch.setenv("FAKE_NVML", json.dumps(layout))
        order = range(len(layout["gpus"])) if cuda_order is None else cuda_order
        monkeypatch.setenv("FAKE_CUDA_ORDER", ",".join(map(str, order)))

    yield describe
    sys.modules.pop("pynvml", None)


@pytest.mark.parametrize(
    ("layout", "pair", "link"),
    [
        (NVLINK_PAIR, (1, 3), Link.NVLINK),
        (SWITCH_PAIR, (1, 2), Link.SWITCH),
        (SOCKET_PAIR, (0, 3), Link.SOCKET),
        ({"gpus": FOUR}, (0, 1), Link.SYSTEM),
        ({"gpus": FOUR, "otherwise": "hidden"}, (0, 1), Link.UNKNOWN),
    ],
    ids=["nvlink", "same switch", "same socket", "all alike", "hidden"],
)
def test_the_pair_with_the_best_link_is_chosen(machine, layout, pair, link):
    machine(layout)
    known = topology.read_topology()
    assert known.best_pair(range(4)) == pair
    assert known.link(*pair) == known.link(*pair[::-1]) == link


def test_more_nvlinks_are_better_than_fewer(machine):
    machine({"gpus": FOUR, "links": {"0-1": "nvlink1", "2-3": "nvlink2"}})
    assert topology.read_topology().best_pair(range(4)) == (2, 3)


def test_only_the_gpus_asked_about_are_considered(machine):
    machine(NVLINK_PAIR)
    assert topology.read_topology().best_pair([0, 1, 2]) == (0, 1)


def test_links_follow_the_gpus_when_cuda_renumbers_them(machine):
    machine(NVLINK_PAIR, cuda_order=[3, 2, 1])
    known = topology.read_topology()
    assert [gpu.driver_index for gpu in known.gpus] == [3, 2, 1]
    assert known.best_pair(range(3)) == (0, 2)
    assert known.link(0, 2) == Link.NVLINK


def test_slices_of_one_gpu_are_the_last_choice(machine):
    machine({"gpus": FOUR[:2], "otherwise": "hidden"}, cuda_order=[0, 0, 1])
    known = topology.read_topology()
    assert known.link(0, 1) == Link.SAME_GPU
    assert known.best_pair(range(3)) == (0, 2)


def test_peer_access_is_what_cuda_says(machine):
    machine({"gpus": FOUR})
    assert topology.peer_access(0, 1)
    assert not topology.peer_access(0, 2)


def test_the_driver_names_itself_and_its_gpus(machine):
    machine({"gpus": ["NVIDIA H100", "NVIDIA T4"]})
    driver = topology.read_driver()
    assert (driver.version, driver.cuda_version) == ("550.54.14", "12.4")
    assert [(gpu.name, gpu.bus_id, gpu.memory_mb) for gpu in driver.gpus] == [
        ("NVIDIA H100", "0000:10:00.0", 24576),
        ("NVIDIA T4", "0000:20:00.0", 24576),
    ]


def test_what_cannot_be_known_is_said(machine, monkeypatch):
    machine({"gpus": FOUR}, cuda_order=[0, 7])
    with pytest.raises(topology.UnknownTopologyError, match=r"no GPU at PCI address 0000:80:00.0"):
        topology.read_topology()
    machine({"gpus": FOUR}, cuda_order=[])
    with pytest.raises(topology.UnknownTopologyError, match="cuInit returned error 100"):
        topology.read_topology()
    monkeypatch.delenv("FAKE_NVML")
    with pytest.raises(topology.UnknownTopologyError, match="no NVIDIA driver answers"):
        topology.read_topology()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(topology.UnknownTopologyError, match=r"pip install .*\[gpu\]"):
        topology.read_topology()


def test_a_machine_without_the_cuda_driver_library_is_told_apart(machine, monkeypatch):
    machine({"gpus": FOUR})

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(topology.ctypes, "CDLL", missing)
    with pytest.raises(topology.UnknownTopologyError, match=r"libcuda.so.1 was not found"):
        topology.read_topology()


@pytest.mark.parametrize(
    ("memory", "multiprocessors", "data", "model", "rule"),
    [
        ("24576,24576", "64,64", 1, 0, "the cards are alike: the lower index trains"),
        ("24576,49152", "64,64", 0, 1, "the card with more memory trains"),
        ("49152,24576", "64,128", 1, 0, "the card with more memory trains"),
        ("24576,24500", "64,128", 0, 1, "the faster card trains"),
    ],
)
def test_the_larger_then_the_faster_card_trains(
    machine, monkeypatch, memory, multiprocessors, data, model, rule
):
    monkeypatch.setattr(emulation, "active", lambda: None)
    machine({"gpus": FOUR[:2]})
    monkeypatch.setenv("FAKE_CUDA_MEMORY_MB", memory)
    monkeypatch.setenv("FAKE_CUDA_MULTIPROCESSORS", multiprocessors)
    assert choosing.data_and_model(0, 1) == ((data, model), rule)
    assert choosing.data_and_model(1, 0) == ((data, model), rule)


def test_of_unknown_cards_the_lower_index_trains_and_the_reason_is_said(machine, monkeypatch):
    monkeypatch.setattr(emulation, "active", lambda: None)
    machine({"gpus": FOUR[:2]}, cuda_order=[])
    pair, rule = choosing.data_and_model(2, 1)
    assert pair == (2, 1)
    assert rule.startswith("the lower index trains: the cards are unknown, the CUDA driver's")
    machine({"gpus": FOUR[:2]})
    assert choosing.data_and_model(1, 2)[1].endswith("CUDA lists 2, TensorFlow more")
