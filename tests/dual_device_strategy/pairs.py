"""The pairs of devices that tests run on: data device and model device."""

import pytest

PAIRS = {"cpu": ("CPU:1", "CPU:2"), "gpu": ("GPU:0", "GPU:1")}

both_pairs = pytest.mark.parametrize("pair", PAIRS, indirect=True)
