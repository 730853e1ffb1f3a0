"""Private TensorFlow of several machines; see `dual_device_strategy/compat.py`."""

from tensorflow.python.distribute import collective_all_reduce_strategy, collective_util
from tensorflow.python.eager import context

CollectiveAllReduceExtended = collective_all_reduce_strategy.CollectiveAllReduceExtended
CollectiveOptions = collective_util.Options


def set_shared_value(key: str, value: str) -> None:
    """Sets a value for all workers, in TensorFlow's coordination service."""
    context.context().set_config_key_value(key, value)


def shared_value(key: str, timeout_ms: int = 0) -> str:
    """The value that a worker has set; waits until it is set, by default without a limit."""
    return context.context().get_config_key_value(key, timeout_ms)
