"""Several data devices and model devices on one machine.

mirrored   `MirroredDataModelSplitStrategy`
dataset    what it makes of a dataset
staging    the way of a batch: prepared whole, cut, copied piece by piece
pieces     cutting a prepared batch into one piece for each replica
iterator   one machine's iterator over batches for several replicas
"""

from dual_device_strategy.replicas.mirrored import MirroredDataModelSplitStrategy

__all__ = ["MirroredDataModelSplitStrategy"]
