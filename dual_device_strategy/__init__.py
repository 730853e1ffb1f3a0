"""Prepares batches on one device while another one trains.

    strategy = DataModelSplitStrategy(configure_devices())
    dataset = dataset.apply(on_data_device(extract_features))     # instead of .map(...)
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(train_step, args=(batch,))
"""

from dual_device_strategy import emulation
from dual_device_strategy.checkpoints.mid_epoch_backup import MidEpochBackup
from dual_device_strategy.data_service import DataService
from dual_device_strategy.devices import configure_devices
from dual_device_strategy.front_end import on_data_device
from dual_device_strategy.machines import MultiWorkerDataModelSplitStrategy
from dual_device_strategy.monitor import Monitor
from dual_device_strategy.replicas.mirrored import MirroredDataModelSplitStrategy
from dual_device_strategy.staged_input import data_scope
from dual_device_strategy.strategy import DataModelSplitStrategy

__all__ = [
    "DataModelSplitStrategy",
    "DataService",
    "MidEpochBackup",
    "MirroredDataModelSplitStrategy",
    "Monitor",
    "MultiWorkerDataModelSplitStrategy",
    "configure_devices",
    "data_scope",
    "emulation",
    "on_data_device",
]

emulation.start_from_environment()
