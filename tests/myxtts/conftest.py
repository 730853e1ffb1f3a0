"""What makes trainings of a few steps cheap in the tests of `myxtts`."""

import pytest

from myxtts.training import finishing
from myxtts.training.stage_run import StageRun


@pytest.fixture
def no_samples(monkeypatch):
    """Stages leave no samples at their end, for which the networks would be traced once more, and
    vocoders are judged by two clips."""
    monkeypatch.setattr(StageRun, "show", lambda self: None)
    monkeypatch.setattr(finishing, "_JUDGED", 2)
