"""Totals of step times, and which part is the slow one."""

import numpy as np
import pytest

from dual_device_strategy.monitor.diagnosis import (
    FRONT_END,
    HOST,
    JITTER,
    PIPELINE,
    TRANSFER,
    slow_part,
)
from dual_device_strategy.monitor.step_times import StepTimes, Total


def test_totals_are_numpys():
    values = np.random.default_rng(0).normal(20, 5, 1000)
    total = Total()
    for value in values:
        total.add(value)
    assert (total.count, total.least, total.most) == (1000, values.min(), values.max())
    assert [total.mean, total.std] == pytest.approx([values.mean(), values.std()])


def test_first_steps_and_epoch_starts_are_kept_apart():
    times = StepTimes(first_steps=2, window=3)
    for step_ms, starts in ((900, False), (500, False), (10, False), (80, True), (12, False)):
        times.add(step_ms, 1.0, starts, 1)
    summary = times.summary
    assert (summary["steps"], summary["step_ms"]) == (2, 11)
    assert (summary["min_ms"], summary["max_ms"], summary["std_ms"]) == (10, 12, 1)
    assert (summary["first_steps_ms"], summary["epoch_start_ms"]) == (1400, 80)
    assert summary["wait_share"] == pytest.approx(1 / 11)
    for _ in range(3):
        times.add(20, None, False, 1)
    assert times.recent["step_ms"] == 20  # only the window
    assert times.recent["variation"] == 0


@pytest.mark.parametrize(
    ("seen", "stage"),
    [
        ({"empty_share": 1.0, "host_wait_share": 0.6, "data_busy": 0.4}, HOST),
        ({"empty_share": 1.0, "host_wait_share": 0.0, "data_busy": 0.9}, FRONT_END),
        ({"empty_share": 1.0, "host_wait_share": 0.0, "data_busy": None}, FRONT_END),
        ({"empty_share": 1.0, "host_wait_share": 0.0, "data_busy": 0.1}, TRANSFER),
        ({"empty_share": 0.4, "host_wait_share": 0.0, "data_busy": 0.9}, JITTER),
        ({"empty_share": None, "host_wait_share": None, "data_busy": None}, PIPELINE),
        ({"empty_share": None, "host_wait_share": 0.5, "data_busy": None}, None),
    ],
)
def test_the_slow_part_is_the_last_that_waits_for_none_before_it(seen, stage):
    assert slow_part(**seen) == stage
