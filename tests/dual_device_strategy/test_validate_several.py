"""Validation of several data devices and model devices."""

import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy
from dual_device_strategy.devices import Device, Devices
from dual_device_strategy.validate import several
from dual_device_strategy.validate.report import Report
from tests.dual_device_strategy.test_validate import failures


def named(role, *places):
    return tuple(
        Device(role, f"CPU:{place}", physical=0, name="logical CPU", memory="host memory")
        for place in places
    )


@pytest.mark.timing
def test_several_devices_are_validated_two_by_two_and_together(monkeypatch):
    monkeypatch.setattr(several, "STEPS", 10)
    devices = Devices(named("data", 3), named("model", 1, 2), "as asked")
    pairs = [(pair.data_device, pair.model_device) for pair in several.pairs(devices)]
    assert pairs == [("CPU:3", "CPU:1"), ("CPU:3", "CPU:2")]
    strategy = MirroredDataModelSplitStrategy(devices.data_device, devices.model_device)
    report = Report()
    with report.section("All devices", remedy="none"):
        several.check(report, devices, strategy)
    assert failures(report) == []
    assert "20 of 20 batches arrived, cut 8:8; 0 with other contents" in report.lines[2].text


def test_a_piece_that_is_elsewhere_or_a_sum_that_is_wrong_fails(monkeypatch):
    devices = Devices(named("data", 3), named("model", 2, 1), "as asked")
    strategy = MirroredDataModelSplitStrategy(["CPU:3"], ["CPU:1", "CPU:2"])
    monkeypatch.setattr(tf.distribute.ReplicaContext, "all_reduce", lambda self, op, x: x)
    monkeypatch.setattr(several, "_check_overlap", lambda *_: None)
    report = Report()
    with report.section("All devices", remedy="none"):
        several.check(report, devices, strategy)
    failed = [text for text, _ in failures(report)]
    assert failed[0] == "a variable of the model is on CPU:1, CPU:2"
    assert "20 with a piece elsewhere than on CPU:2, CPU:1" in failed[1]
    assert failed[2].endswith("but wrong on CPU:2, CPU:1")
