"""One test environment: two emulated GPUs and six logical CPUs in every pytest process.

TensorFlow fixes its devices when its runtime starts, so they are made here, before any test
module is imported.  Tests that need a process of their own use `run_python`, or
`processes` where they watch it.
"""

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for helpers beside the tests
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from dual_device_strategy import emulation
from tests.loudness_stage import fourth_stage  # noqa: F401 -- a fixture
from tests.published_start import start_directory  # noqa: F401 -- a fixture
from tests.speech import (  # noqa: F401 -- fixtures
    finished_run,
    prepared_directory,
    recordings,
    spoken_corpus,
    spoken_directory,
)
from tests.warm_processes import WarmProcesses

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure():
    emulation.start(gpus=2, memory_mb=1024)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 6)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)


def pytest_collection_modifyitems(items):
    # Whole training runs first, or the other process would be idle while they end.
    items.sort(key=lambda item: item.path.name != "test_train.py")
    for item in items:
        # What judges measured times may try three times: a machine may pause, but not always.
        if item.get_closest_marker("timing"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_collection_finish():
    gc.freeze()  # what the imports made stays, and no garbage collection has to look at it


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Graphs run as they were traced: to rewrite them takes a third of what a short loop takes.

    They are rewritten, as for a user, in tests that are marked `rewritten_graphs`, and in the
    processes that tests start.
    """
    rewritten = item.get_closest_marker("rewritten_graphs") is not None
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not rewritten})


@pytest.fixture(scope="module", autouse=True)
def _short_garbage_collections():
    """What a module leaves is not looked at again, or each collection would take a second; memory
    that it freed goes back to the system."""
    yield
    # TensorFlow registers a gradient for each all_reduce in a graph, and never forgets it; with it
    # the whole graph stays.
    gradients = ops.gradient_registry._registry
    for name in [name for name in gradients if name.startswith("CustomGradient-")]:
        del gradients[name]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()


@pytest.fixture(scope="session")
def processes():
    """Starts processes that need not import TensorFlow; see warm_processes.py."""
    warm = WarmProcesses()
    yield warm
    warm.close()


@pytest.fixture(scope="session")
def run_python(processes):
    """Runs a snippet (or a list of arguments) in a process of its own.

    TensorFlow and Keras are imported there already, nothing of them is started. What is about
    importing them takes `fresh=True`: a new interpreter, 4 seconds.
    """

    def run(code, *, timeout=600, cwd=None, fresh=False, **environment):
        arguments = ["-c", code] if isinstance(code, str) else [str(a) for a in code]
        settings = {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT), **environment}
        env = {**os.environ, **settings}
        if not fresh:
            return processes.run(arguments, timeout=timeout, cwd=cwd, env=env)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
