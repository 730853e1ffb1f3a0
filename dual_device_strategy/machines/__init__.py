"""Several machines: one program on each, with data and model devices of its own.

strategy    `MultiWorkerDataModelSplitStrategy`
input       what it makes of a dataset: this worker's part of every batch, staged
cluster     what is wrong with TF_CONFIG or a resolver, before anything starts
agreement   what must be the same on all workers, compared at the start
lost        the last words when another worker is gone
"""

from dual_device_strategy.machines.strategy import MultiWorkerDataModelSplitStrategy

__all__ = ["MultiWorkerDataModelSplitStrategy"]
