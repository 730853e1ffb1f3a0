"""myxtts names no device; its tests run on the host unless a strategy says otherwise."""

import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def on_the_host():
    with tf.device("/CPU:0"):
        yield
