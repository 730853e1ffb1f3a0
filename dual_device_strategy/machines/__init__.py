"""Several machines: one program on each, with data and model devices of its own.

strategy    `MultiWorkerDataModelSplitStrategy`
input       the datasets it distributes: this worker's part of every batch, staged
cluster     the workers, from TF_CONFIG or a resolver, checked before anything starts
agreement   compares what must be the same on all workers
lost        one sentence when another worker is gone
"""

from dual_device_strategy.machines.strategy import MultiWorkerDataModelSplitStrategy

__all__ = ["MultiWorkerDataModelSplitStrategy"]
