"""Fixtures for what runs on logical CPUs and on emulated GPUs alike."""

import pytest

from dual_device_strategy import DataModelSplitStrategy

PAIRS = {"cpu": ("CPU:1", "CPU:2"), "gpu": ("GPU:0", "GPU:1")}


@pytest.fixture(params=PAIRS)
def pair(request):
    """Data device and model device."""
    return PAIRS[request.param]


@pytest.fixture
def strategy(pair):
    return DataModelSplitStrategy(*pair)
