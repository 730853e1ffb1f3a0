"""The host's part of a pipeline on other machines, by TensorFlow's tf.data service.

service     `DataService`: what a strategy is given, and what becomes of a dataset
watching    an error where batches stop coming or elements are missing
__main__    python -m dual_device_strategy.data_service: the dispatcher and its workers
"""

from dual_device_strategy.data_service.service import DataService

__all__ = ["DataService"]
