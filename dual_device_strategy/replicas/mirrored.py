"""MirroredDataModelSplitStrategy: some devices prepare batches while others train replicas."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.data_service import DataService
from dual_device_strategy.devices.several import device_lists
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.out_of_memory import explained, size_of
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas import pieces
from dual_device_strategy.replicas.dataset import ReplicaDataset
from dual_device_strategy.replicas.from_function import ReplicaDatasetFromFunction
from dual_device_strategy.replicas.front_end_alone import FrontEndAlone, has_state
from dual_device_strategy.replicas.pieces import Cut, full_batch_size, rows_as_tensorflow
from dual_device_strategy.replicas.plans import Plan, Roles
from dual_device_strategy.replicas.share_tuning import ShareChoice, ShareTuning
from dual_device_strategy.replicas.shares import (
    AUTO,
    RowWeights,
    checked,
    refuse_too_few_rows,
    warn_of_means,
)
from dual_device_strategy.staged_input import StagedInput, check_options, check_slots

_NOT_SPLIT = "a whole dataset is not split; use distribute_datasets_from_function, or PER_WORKER"


class MirroredDataModelSplitStrategy(tf.distribute.MirroredStrategy):
    """A `MirroredStrategy` over the model devices, with input and feature extraction on others.

    It is for machines with more than two GPUs, where some prepare batches for the rest:

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

    A dataset has global batches, as under `MirroredStrategy`.  The front end (the function given
    to `on_data_device`) runs once, over the whole batch.  The result is cut there, and each model
    device gets its piece.  So the numbers equal those of `MirroredStrategy(model_devices)` bit for
    bit, even with random ops and statistics over the batch.  There is one difference: if a dataset
    that reads files, or is not sharded, has a partial batch in its middle (`batch` before
    `repeat`), TensorFlow fills it up with rows of the next batch; here it stays partial.

    Several data devices prepare whole batches in turns, so a prepared batch does not depend on
    their number.  Ops with a random state are the exception: `tf.random.normal` has a state on each
    device, and with a seed all devices draw the same numbers.  Use `tf.random.stateless_normal`
    with seeds from the dataset.  A variable of `data_scope()` has a copy on each data device.  An
    assignment changes all copies; one in a front end changes only that of the data device that it
    runs on.  So each data device has counts of its own, and a `tf.random.Generator` draws the same
    numbers on each.

    `distribute_datasets_from_function` makes batches for one replica, each prepared by itself; the
    model devices get them in turns, and each has its own slots.

    `slots` counts whole batches, as in `DataModelSplitStrategy`: each data device prepares one at a
    time, two are READY or on their way, one is TRAINING.  Each model device has its piece of them.
    With six slots or more two are COPYING, to each data device, except with `shares="auto"`.

    With `shares`, a data device may train as well.  Each model device gets its share of the rows of
    every batch, so a data device with much to prepare can be given fewer rows:

        MirroredDataModelSplitStrategy(["GPU:1"], ["GPU:0", "GPU:1"], shares=(0.7, 0.3))

    `shares="auto"` measures and chooses.  The first epoch has equal shares.  Between two epochs the
    front end is timed by itself, and the next epoch gets the shares with the shortest steps.  It
    usually takes one or two changes, each traced once.  If it is faster, each model device prepares
    its own rows.  That is tried only with front ends without variables and random state that return
    the same rows for parts of a batch.  `tf.train.Checkpoint(shares=strategy.share_choice)` keeps
    the choice.  An iterator keeps its shares, so over an endless dataset run some of about 30 steps
    (or `fit`) until `share_choice.settled`.  Shares, and so sums, may differ between runs.

    If the loss is a sum over all rows, divided by the size of the global batch, the gradients are
    those of one device.  If it is a mean over a replica's rows, they are not, because each
    replica's mean counts the same; `tf.nn.compute_average_loss` without `global_batch_size` is such
    a mean.  So is the loss of Keras' `fit`: use `dataset.apply(strategy.row_weights)` there.  The
    loss that `fit` prints is then weighted, its metrics are not.  BatchNormalization sees only a
    replica's rows, as always.

    Args:
      data_devices: logical names of the devices that prepare batches, such as ["GPU:6", "GPU:7"].
      model_devices: logical names of the replicas' devices, such as ["GPU:0", "GPU:1"].
      slots: the most whole batches that may exist beyond the host, at least 2; or "auto", as for
        `DataModelSplitStrategy`, chosen anew for each epoch, never for a dataset function.
      shares: each model device's share of the rows, positive and adding up to 1, or "auto".  If
        None, all shares are equal, and no data device may be a model device.
      warm_up: fill the READY slots before the first batch is handed out.
      cross_device_ops: as for `MirroredStrategy`.
      data_service: where the host's part of every dataset runs; None for this host.
      weighs_rows: whether your loss gives every row of the global batch the same weight, and no
        layer takes means over a replica's rows; then unequal shares need no warning.
    """

    _made = 0

    def __init__(
        self,
        data_devices: Sequence[str],
        model_devices: Sequence[str],
        *,
        slots: int | str = 4,
        shares: Sequence[float] | str | None = None,
        warm_up: bool = False,
        cross_device_ops: tf.distribute.CrossDeviceOps | None = None,
        data_service: DataService | None = None,
        weighs_rows: bool = False,
    ):
        check_slots(slots, auto=True)
        data, model = device_lists(data_devices, model_devices, shared=shares is not None)
        shares = None if shares is None else checked(shares, len(model))
        if shares and not weighs_rows:
            warn_of_means(shares)
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
        self.extended.data_service = data_service

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
        """Each model device's share of the rows; with "auto", the present shares."""
        shares = self.extended.shares
        if shares == AUTO:
            shares = self.share_choice.plan and self.share_choice.plan.shares
        return shares or (1 / self.num_replicas_in_sync,) * self.num_replicas_in_sync

    @property
    def chooses_shares(self) -> bool:
        """Whether it was made with `shares="auto"`."""
        return self.extended.shares == AUTO

    @property
    def share_choice(self) -> ShareChoice:
        """The choice of `shares="auto"`, for checkpoints: `tf.train.Checkpoint(shares=...)`."""
        return self.extended.share_choice

    @property
    def slots(self) -> int | str:
        """The requested number of slots, or "auto"; `iterator.slots` is the number in use."""
        return self.extended.slots

    def row_weights(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """`dataset` with sample weights that make Keras' `fit` right with unequal shares.

        Use it as `model.fit(dataset.apply(strategy.row_weights))`.  Keras takes the mean of the
        replicas' means, so a row would count for more on a replica with few rows.  The weight of a
        row is n * N / G, where its replica has n rows, N is the number of replicas, and the batch
        has G rows.  Elements are (x, y) or (x, y, sample weights).
        """
        cut = Cut(self.num_replicas_in_sync, shares=self.shares)
        return self.extended.row_weights.applied(dataset, cut)

    def reduce(self, reduce_op, value, axis):
        """Like `MirroredStrategy.reduce`, but pieces of batches may have different lengths.

        Their mean is over the rows that all pieces have.  Keras' `fit` asks for the mean of its
        first batch, and uses only its shapes; TensorFlow cannot take the mean of unequal pieces.
        """
        means = reduce_op in ("MEAN", tf.distribute.ReduceOp.MEAN) and axis is None
        if self.extended.shares and means and tf.executing_eagerly():
            value = tf.nest.map_structure(pieces.rows_of_all, value)
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
    """The strategy's variables and datasets: replicas on the model devices, fed by the others."""

    def __init__(
        self, strategy, *, data_devices, model_devices, slots, shares, warm_up, cross_device_ops
    ):
        super().__init__(strategy, devices=list(model_devices), cross_device_ops=cross_device_ops)
        self.set_data_devices(data_devices, slots, warm_up)
        self.shares = shares
        self._roles = Roles(tuple(data_devices), tuple(model_devices))
        self.share_choice, self.row_weights = ShareChoice(), RowWeights()

    @property
    def largest_share(self) -> float:
        """The largest part of a batch that one model device may get."""
        return 1.0 if self.shares == AUTO else max(self.shares or [1 / len(self.worker_devices)])

    def cut_of(self, dataset: tf.data.Dataset | None, plan: Plan | None = None) -> Cut:
        """How the batches of `dataset` are cut for the replicas, by the plan if there is one."""
        replicas = len(self.worker_devices)
        if plan:
            return Cut(replicas, shares=plan.shares)
        if self.shares is None:
            return Cut(replicas, rows=rows_as_tensorflow(dataset, replicas))
        cut = Cut(replicas, shares=self.shares)
        if size := full_batch_size(dataset):
            edges = cut.edges(size)
            rows = [end - begin for begin, end in itertools.pairwise(edges)]
            refuse_too_few_rows(f"shares={self.shares}", size, rows)
        return cut

    def tuning_of(
        self, dataset: tf.data.Dataset, front_end: FrontEnd | None, host_spec, counts: BatchCounts
    ) -> ShareTuning:
        """The `ShareTuning` that chooses the shares of `dataset`."""
        rows = full_batch_size(dataset)
        if rows is None:
            raise ValueError(
                'shares="auto" divides whole rows, but TensorFlow cannot tell how many rows a '
                "batch of this dataset has; batch it with dataset.batch(...), or give shares as "
                "numbers"
            )
        replicas, host = len(self.worker_devices), compat.host_of(self.data_device)
        pieces = [1] * min(rows, replicas) + [0] * (replicas - rows)
        refuse_too_few_rows('shares="auto"', rows, pieces)
        may_be_cut = front_end is not None and self._may_be_cut(front_end, host_spec)
        return ShareTuning(
            self.share_choice,
            counts,
            self._roles,
            rows=rows,
            endless=int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY,
            front_end=FrontEndAlone(
                front_end, host_spec, rows=rows, host=host, data_device=self.data_device
            ),
            pieces=(lambda rows: self.front_ends_of(dataset, rows)) if may_be_cut else None,
        )

    def _may_be_cut(self, front_end: FrontEnd, host_spec) -> bool:
        """Whether each device could run the front end over its own piece of a batch.

        Random state and variables are only on the data devices.  Row weights depend on the size of
        the whole batch.
        """
        captured = [each for function in front_end.functions for each in function.captured_inputs]
        specs = tf.nest.flatten(host_spec)
        return (
            not has_state(front_end)
            and all(each.dtype != tf.resource for each in captured)
            and all(isinstance(spec, tf.TensorSpec) and spec.shape.rank for spec in specs)
            and (
                not self.row_weights.are_in(front_end)
                or all(spec.shape[0] is not None for spec in specs)
            )
        )

    def front_ends_of(self, dataset: tf.data.Dataset, rows: Sequence[int]) -> list[FrontEnd]:
        """The front end of `dataset`, traced for each replica's number of rows."""
        front_ends = []
        for count in rows:
            with self.row_weights.of_piece(count, replicas=len(rows), of=sum(rows)):
                front_ends.append(pieces.of_piece(dataset, count, self.data_device))
        return front_ends

    def _experimental_distribute_dataset(self, dataset, options):
        check_options(options, _NOT_SPLIT)
        return ReplicaDataset(self._container_strategy(), dataset, options)

    def _distribute_datasets_from_function(self, dataset_fn, options):
        check_options(options, None)
        return ReplicaDatasetFromFunction(self._container_strategy(), dataset_fn, options)
