"""Several data devices and model devices on one machine.

mirrored   `MirroredDataModelSplitStrategy`
dataset    what it makes of a dataset; from_function, of a dataset function
staging    the way of a batch: prepared whole, cut, copied piece by piece
pieces     cutting a prepared batch into one piece for each replica
iterator   one machine's iterator over batches for several replicas
shares     what shares may be asked for; row weights
share_tuning   shares="auto": what an epoch says of the next one's shares
plans      which shares are best, given what front end and step cost
front_end_alone   what the front end costs by itself
"""

from dual_device_strategy.replicas.mirrored import MirroredDataModelSplitStrategy

__all__ = ["MirroredDataModelSplitStrategy"]
