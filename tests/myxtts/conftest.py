"""What makes trainings of a few steps cheap in the tests of `myxtts`."""

import pytest
import tensorflow as tf

from myxtts.training import finishing
from myxtts.training.stage_run import StageRun


def _optimize_graphs(on: bool) -> None:
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Graphs run as they were traced. Optimizing them takes a fifth of a short training.

    They are optimized, as for a user, in the processes that tests start, in tests/test_*.py, and
    in tests/dual_device_strategy.
    """
    _optimize_graphs(False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    _optimize_graphs(True)


@pytest.fixture
def no_samples(monkeypatch):
    """Stages leave no samples at their end, for which the networks would be traced once more, and
    vocoders are judged by two clips."""
    monkeypatch.setattr(StageRun, "show", lambda self: None)
    monkeypatch.setattr(finishing, "_JUDGED", 2)
