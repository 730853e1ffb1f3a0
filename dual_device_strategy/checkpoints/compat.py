"""Private TensorFlow of checkpoints; see `dual_device_strategy/compat.py`."""

from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.checkpoint import tensor_callable
from tensorflow.python.distribute import device_util
from tensorflow.python.trackable import base

Trackable = base.Trackable


def saved_later(function: Callable[[], tf.Tensor], dtype: tf.DType):
    """A host tensor of a checkpoint that is not made before it is written."""
    return tensor_callable.Callable(function, dtype, device_util.canonicalize("CPU:0"))
