"""Private TensorFlow of the data service; see `dual_device_strategy/compat.py`."""

from collections.abc import Callable

from tensorflow.python.data.experimental.ops import data_service_ops


def distribute(*, asks_every_ms: int, **options) -> Callable:
    """Like `tf.data.experimental.service.distribute`; its client asks the dispatcher that often.

    Only by asking does the client learn that the epoch has ended, or that a worker has joined.
    """
    return data_service_ops._distribute(task_refresh_interval_hint_ms=asks_every_ms, **options)
