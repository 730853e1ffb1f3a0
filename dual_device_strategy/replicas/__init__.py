"""Several data devices and model devices on one machine.

mirrored          `MirroredDataModelSplitStrategy`
dataset           the datasets it distributes
from_function     the same, from a dataset function
staging           how a batch travels: prepared whole, cut, copied piece by piece
pieces            cuts a prepared batch into one piece for each replica
iterator          one machine's iterator over batches for several replicas
shares            checks shares; row weights for Keras
share_tuning      shares="auto": learns from each epoch which shares the next one gets
plans             the best shares, given the costs of front end and step
front_end_alone   measures what the front end costs by itself
"""

from dual_device_strategy.replicas.mirrored import MirroredDataModelSplitStrategy

__all__ = ["MirroredDataModelSplitStrategy"]
