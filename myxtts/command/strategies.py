"""The strategy that --strategy names, on the devices that were configured."""

import tensorflow as tf

from dual_device_strategy import (
    DataService,
    MultiWorkerDataModelSplitStrategy,
    command,
)
from dual_device_strategy.devices import Devices
from myxtts import UserError
from myxtts.command.flags import all_flags
from myxtts.command.settings import Job

# Which may be another on each machine; clips are compared by what is in them.
_OF_EACH_MACHINE = (
    "data_gpu",
    "model_gpu",
    "data_gpu_memory_mb",
    "model_gpu_memory_mb",
    "num_workers",
    "host_prefetch",
    "train_data",
    "val_data",
    "prepared_dir",
    "embedded_dir",
    "checkpoint_dir",
)


def make_strategy(job: Job, devices: Devices) -> tf.distribute.Strategy:
    """The strategy for the job; with several machines it waits for the others.

    Losses are the same under all strategies.

    Raises:
      UserError: for devices, slots, shares, a cluster or a service that do not go together.
    """
    data, model = devices.data_device, devices.model_device
    data, model = (data, model) if devices.several else ((data,), (model,))
    service = None
    try:
        if job.train.data_service is not None:
            service = DataService(job.train.data_service, mode="at most once")
            service.check_reachable()
        match job.values.strategy:
            case "one_device":
                return tf.distribute.OneDeviceStrategy(model[0])
            case "mirrored":
                return tf.distribute.MirroredStrategy(list(model))
            case "multi_worker":
                strategy = MultiWorkerDataModelSplitStrategy(
                    data, model, slots=job.slots, data_service=service
                )
                strategy.refuse_differences(_flags_of(job))
                return strategy
        # The loss is that of the whole batch, see model/whole_batch.py.
        options = {"slots": job.slots, "warm_up": job.values.warm_up, "weighs_rows": True}
        return command.make_strategy(devices, data_service=service, **options)
    except (ValueError, RuntimeError, ConnectionError) as error:
        raise UserError(f"{error}") from None


def _flags_of(job: Job) -> dict[str, object]:
    """The flags that must be the same on all workers."""
    names = [flag.name for flag in all_flags() if flag.name not in _OF_EACH_MACHINE]
    return {f"--{name}": job.values[name].value for name in names}
