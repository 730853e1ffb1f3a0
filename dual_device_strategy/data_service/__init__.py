"""Runs the host's part of a pipeline on other machines, with TensorFlow's tf.data service.

service     `DataService`, which is given to a strategy, and how it distributes a dataset
watching    an error if batches stop coming or elements are missing
__main__    python -m dual_device_strategy.data_service: starts the dispatcher and its workers
"""

from dual_device_strategy.data_service.service import DataService, explained

__all__ = ["DataService", "explained"]
