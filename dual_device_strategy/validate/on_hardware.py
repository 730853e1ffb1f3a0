"""`--on_hardware`: checks that need two real GPUs, written to a report to send.

First come the rows of the table in the docstring of `dual_device_strategy.emulation`, which lists
where emulated GPUs differ; then speed, an hour's run and the memory limits.  On emulated GPUs it is
a rehearsal: every check runs briefly, but its findings say nothing about hardware.
"""

import dataclasses
import platform

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import Devices, topology
from dual_device_strategy.validate import (
    hardware_differences,
    hardware_speed,
    transfer,
)
from dual_device_strategy.validate.hardware_report import HardwareReport
from dual_device_strategy.validate.report import Report, Status

_HOUR = 60.0


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much to run: steps of a loop, rounds of a comparison, batch sizes, the long run."""

    steps: int
    rounds: int
    batch_sizes: tuple[int, ...]
    minutes: float

    @classmethod
    def of(cls, minutes: float | None) -> "Budget":
        if emulation.active():
            return cls(steps=6, rounds=1, batch_sizes=(8,), minutes=minutes or 0.05)
        return cls(steps=60, rounds=3, batch_sizes=(8, 16, 32), minutes=minutes or _HOUR)


def title() -> str:
    if emulation.active():
        return "A rehearsal on emulated GPUs: nothing here was measured on hardware"
    return "Two GPUs, as found by `python -m dual_device_strategy.validate --on_hardware`"


def run(report: HardwareReport, sections: Report, devices: Devices, budget: Budget) -> None:
    """Runs all checks; `sections` is the report of `validate` so far."""
    _machine(report)
    with report.check("The five sections of validate", "no check fails") as finding:
        failed = [line for line in sections.lines if line.status is Status.FAIL]
        listed = "; ".join(f"{line.number} {line.text}" for line in failed)
        finding.found(
            listed or f"{len(sections.lines)} lines, none failed",
            not failed,
            lines=[f"{line.number} {line.status.value} {line.text}" for line in sections.lines],
        )
    _links(report, devices)
    hardware_differences.check(report, devices)
    hardware_speed.check(report, devices, budget)


def _machine(report):
    with report.check("Machine", "versions that were tested, two cards of a kind") as finding:
        import keras

        build = tf.sysconfig.get_build_info()
        figures = {
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
            "system": platform.system(),
            "cuda": build.get("cuda_version"),
            "cudnn": build.get("cudnn_version"),
            "gpus": _cards(),
        }
        try:
            figures["driver"] = topology.read_driver().version
        except topology.UnknownTopologyError as unknown:
            figures["driver"] = f"unknown: {unknown}"
        cards = ", ".join(card["name"] for card in figures["gpus"])
        finding.found(
            f"TensorFlow {tf.__version__} with CUDA {figures['cuda']}, driver "
            f"{figures['driver']}, {cards}",
            None,
            **figures,
        )


def _cards():
    if emulated := emulation.active():
        return [{"name": "emulated GPU", "memory_mb": mb} for mb in emulated.memory_mb]
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    cards = [
        {
            "name": each.get("device_name", "unnamed GPU"),
            "compute_capability": each.get("compute_capability"),
        }
        for each in details
    ]
    try:
        for card, known in zip(cards, topology.cards(), strict=False):
            card["memory_mb"] = known.memory >> 20
    except topology.UnknownTopologyError:
        pass
    return cards


def _links(report, devices):
    data, model = devices.data, devices.model
    expected = "from pinned memory faster than from pageable memory, and the GPUs reach each other"
    with report.check("Links", expected) as finding:
        speeds = transfer.bandwidths(data.logical, model.logical)
        peers, link = None, "unknown"
        if emulated := emulation.active():
            peers, link = emulated.peer_access, "emulated"
        else:
            try:
                peers = topology.peer_access(data.physical, model.physical)
                link = str(topology.read_topology().link(data.physical, model.physical))
            except topology.UnknownTopologyError as unknown:
                link = f"unknown: {unknown}"
        listed = ", ".join(f"{way} {speed:.1f}" for way, speed in speeds.items())
        access = {True: "peer access", False: "no peer access", None: "peer access unknown"}[peers]
        first = data.logical
        finding.found(
            f"GB/s: {listed}; joined by {link}, {access}",
            speeds[f"CPU:0 (pinned) -> {first}"] > speeds[f"CPU:0 (pageable) -> {first}"],
            gbps=speeds,
            link=link,
            peer_access=peers,
        )
