"""What a failed training says."""

import pytest
import tensorflow as tf

from myxtts.command.training import failure
from myxtts.training.run_directory import RunDirectory


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("OOM when allocating tensor with shape[9] on /job:localhost/device:GPU:0 by a", True),
        ("MemoryError: Unable to allocate 3 GiB for an array", False),
        ("/run/checkpoint; No space left on device", False),
    ],
)
def test_only_a_devices_memory_is_told_to_take_smaller_batches(message, remedy, tmp_path):
    error = tf.errors.ResourceExhaustedError(None, None, message)
    said = failure(error, RunDirectory(tmp_path))
    assert ("Halve --batch_size" in said) == remedy
    assert ("with the error above" in said) == (not remedy)
    assert "are whole" in said
