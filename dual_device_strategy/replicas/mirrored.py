"""MirroredDataModelSplitStrategy: some devices prepare batches while others train replicas."""

import itertools
import math
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy.devices.several import device_lists
from dual_device_strategy.out_of_memory import explained, size_of
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.dataset import (
    ReplicaDataset,
    ReplicaDatasetFromFunction,
    cut_as_tensorflow,
)
from dual_device_strategy.replicas.pieces import Cut
from dual_device_strategy.staged_input import StagedInput, check_options, check_slots


class MirroredDataModelSplitStrategy(tf.distribute.MirroredStrategy):
    """`MirroredStrategy` over the model devices; input and feature extraction live on others.

    Made for machines with more than two GPUs, of which some prepare batches for the rest:

    >>> strategy = MirroredDataModelSplitStrategy(["CPU:0"], ["CPU:1", "CPU:2"])
    >>> strategy.num_replicas_in_sync
    2
    >>> dataset = tf.data.Dataset.range(8).batch(4)
    >>> dataset = dataset.apply(on_data_device(lambda x: 10.0 * tf.cast(x, tf.float32)))
    >>> @tf.function
    ... def step(batch):
    ...     total = strategy.run(tf.reduce_sum, args=(batch,))
    ...     return strategy.reduce("SUM", total, axis=None)
    >>> for batch in strategy.experimental_distribute_dataset(dataset):
    ...     print([piece.numpy().tolist() for piece in batch.values], step(batch).numpy())
    [[0.0, 10.0], [20.0, 30.0]] 60.0
    [[40.0, 50.0], [60.0, 70.0]] 220.0

    A dataset has global batches, as under `MirroredStrategy`.  What `on_data_device` is given runs
    over the whole batch, once; the result is cut there, and each model device gets its piece.  So
    the numbers are those of `MirroredStrategy(model_devices)`, bit for bit, with random ops and
    statistics over the batch too.  There is one difference: where a dataset reads files, or is
    not sharded, and has a partial batch in its middle (`batch` before `repeat`), TensorFlow fills
    it up with rows of the next batch; here it stays partial.

    Several data devices prepare whole batches in turns, so what one of them prepares does not
    depend on their number.  But ops with a random state, such as `tf.random.normal`, have a state
    on each device, and with a seed all of them draw the same numbers; `tf.random.stateless_normal`
    with seeds from the dataset does not depend on it.  A variable of `data_scope()` has a copy on
    each data device, and an assignment changes all; a front end cannot assign to it.

    A dataset of `distribute_datasets_from_function` has batches of one replica.  They are dealt out
    to the model devices in turns, and prepared one by one.

    `slots` counts whole batches, as in `DataModelSplitStrategy`: each data device prepares one at a
    time, two are READY or on their way, one is TRAINING.  Each model device has its piece of them.

    With `shares` a data device may train as well.  Each model device gets its share of the rows of
    every batch, so a data device with much to prepare can be given few:

        MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0", "GPU:1"], shares=(0.7, 0.3))

    A loss that is a sum over all rows, divided by the size of the global batch, has the gradients
    that it has on one device.  A mean over a replica's rows has not, as each replica's mean counts
    the same; nor has `tf.nn.compute_average_loss` without `global_batch_size`.  For Keras' `fit`,
    whose loss is such a mean, there is `dataset.apply(strategy.row_weights)`; the loss that `fit`
    prints is then a weighted one, its metrics are not.  BatchNormalization sees a replica's rows
    only, as always.

    Args:
      data_devices: logical names of the devices that prepare batches, such as ["GPU:6", "GPU:7"].
      model_devices: logical names of the replicas' devices, such as ["GPU:0", "GPU:1"].
      slots: the most whole batches that may exist beyond the host, at least 2.
      shares: the share of the rows of each model device, positive and 1 together.  Without it
        all have the same, and no data device may be a model device.
      warm_up: fill the READY slots before the first batch is handed out.
      cross_device_ops: as for `MirroredStrategy`.
    """

    _made = 0

    def __init__(
        self,
        data_devices: Sequence[str],
        model_devices: Sequence[str],
        *,
        slots: int = 4,
        shares: Sequence[float] | None = None,
        warm_up: bool = False,
        cross_device_ops: tf.distribute.CrossDeviceOps | None = None,
    ):
        check_slots(slots, auto=False)
        data, model = device_lists(data_devices, model_devices, shared=shares is not None)
        shares = None if shares is None else _checked(shares, len(model))
        if shares and len(set(shares)) > 1:
            logging.warning(
                "shares %s: replicas have different numbers of rows, so a mean over a replica's "
                "rows (reduce_mean, compute_average_loss without global_batch_size, Keras without "
                "row_weights) and BatchNormalization differ from training on one device",
                shares,
            )
        # Collectives of two strategies in one process must not share their keys.
        MirroredDataModelSplitStrategy._made += 1
        self._collective_key_base = 1_000_000 + 1000 * MirroredDataModelSplitStrategy._made
        tf.distribute.Strategy.__init__(
            self,
            MirroredSplitExtended(
                self,
                data_devices=data,
                model_devices=model,
                slots=slots,
                shares=shares,
                warm_up=bool(warm_up),
                cross_device_ops=cross_device_ops,
            ),
        )

    @property
    def data_devices(self) -> tuple[str, ...]:
        """The full names of the devices of input iterators and feature extraction."""
        return self.extended.data_devices

    @property
    def model_devices(self) -> tuple[str, ...]:
        """The full names of the devices of the replicas, in their order."""
        return self.extended.worker_devices

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the rows of each model device."""
        return self.extended.shares or (1 / self.num_replicas_in_sync,) * self.num_replicas_in_sync

    @property
    def slots(self) -> int:
        """The number of slots."""
        return self.extended.slots

    def row_weights(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """`dataset` with sample weights by which Keras' `fit` is right with unequal shares.

            model.fit(dataset.apply(strategy.row_weights))

        Keras takes the mean over each replica's rows, and then the mean of these; so a row of a
        replica with few rows would count for more.  The weight of a row is n * N / G: n rows on
        its replica, N replicas, G rows in all.  Elements are (x, y) or (x, y, sample weights).
        """
        cut = Cut(self.num_replicas_in_sync, shares=self.extended.shares)

        def weighted(x, y, weights=None):
            of_rows = cut.row_weights(tf.nest.flatten(y)[0])
            return x, y, of_rows if weights is None else of_rows * weights

        return dataset.map(weighted)

    def reduce(self, reduce_op, value, axis):
        """As `MirroredStrategy.reduce`; a mean of pieces of batches is over the rows all have.

        Keras' `fit` asks for that mean of its first batch, of which it needs the shapes only.
        TensorFlow cannot take it where the pieces have different numbers of rows.
        """
        means = reduce_op in ("MEAN", tf.distribute.ReduceOp.MEAN) and axis is None
        if self.extended.shares and means and tf.executing_eagerly():
            value = tf.nest.map_structure(_rows_of_all, value)
        return super().reduce(reduce_op, value, axis)

    def run(self, fn, args=(), kwargs=None, options=None):
        """Runs `fn` on each model device, as `MirroredStrategy.run` does."""
        try:
            return super().run(fn, args, kwargs, options)
        except tf.errors.ResourceExhaustedError as error:
            tensors = tf.nest.flatten((args, kwargs), expand_composites=True)
            batch = size_of([t for t in tensors if tf.is_tensor(t)])
            raise explained(error, self, batch, in_step=True) from None


class MirroredSplitExtended(StagedInput, replica_compat.MirroredExtended):
    """Replicas are on the model devices; the data devices feed them."""

    def __init__(
        self, strategy, *, data_devices, model_devices, slots, shares, warm_up, cross_device_ops
    ):
        super().__init__(strategy, devices=list(model_devices), cross_device_ops=cross_device_ops)
        self.set_data_devices(data_devices, slots, warm_up)
        self.shares = shares

    def cut_of(self, dataset: tf.data.Dataset) -> Cut:
        """How the batches of `dataset` are cut for the replicas."""
        replicas = len(self.worker_devices)
        if self.shares is None:
            return cut_as_tensorflow(dataset, replicas)
        cut = Cut(replicas, shares=self.shares)
        size = tf.get_static_value(replica_compat.batch_size_of(dataset))
        if size is not None and size > 0:
            edges = cut.edges(int(size))
            rows = [end - begin for begin, end in itertools.pairwise(edges)]
            if 0 in rows:
                raise ValueError(
                    f"shares={self.shares} of a batch of {size} rows are {rows} rows: a replica "
                    "without rows cannot train; use larger batches, or shares that leave each "
                    "replica a row"
                )
        return cut

    def _experimental_distribute_dataset(self, dataset, options):
        check_options(options, whole_dataset=True)
        return ReplicaDataset(self._container_strategy(), dataset, options)

    def _distribute_datasets_from_function(self, dataset_fn, options):
        check_options(options, whole_dataset=False)
        return ReplicaDatasetFromFunction(self._container_strategy(), dataset_fn, options)


def _rows_of_all(value):
    if not isinstance(value, tf.distribute.DistributedValues):
        return value
    pieces = value.values
    if not all(isinstance(piece, tf.Tensor) and piece.shape.rank for piece in pieces):
        return value
    rows = min(piece.shape[0] for piece in pieces)
    return replica_compat.per_replica([piece[:rows] for piece in pieces])


def _checked(shares: Sequence[float], replicas: int) -> tuple[float, ...]:
    if isinstance(shares, str) or not all(isinstance(share, (int, float)) for share in shares):
        raise ValueError(
            f"shares={shares!r} must be numbers, one for each model device, such as "
            "shares=(0.7, 0.3)"
        )
    shares = tuple(float(share) for share in shares)
    if len(shares) != replicas:
        raise ValueError(
            f"shares={shares} has {len(shares)} shares for {replicas} model devices; give one for "
            "each, in their order"
        )
    if not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1, abs_tol=1e-3):
        raise ValueError(
            f"shares={shares} must be positive and 1 together; a device that is to have no rows "
            "is left out of model_devices"
        )
    return shares
