"""Cutting a prepared batch into one piece for each replica, on the device that prepared it."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.front_end import FrontEnd, reads_files, split, traced_for
from dual_device_strategy.hop import components
from dual_device_strategy.replicas import compat as replica_compat

# Shares are counted in whole parts, of which a batch has this many. So rows are computed without
# rounding errors, even if the size of a batch is known only at run time.
PARTS = 10_000


_OFF = tf.data.experimental.AutoShardPolicy.OFF
_FILE = tf.data.experimental.AutoShardPolicy.FILE
_AUTO = tf.data.experimental.AutoShardPolicy.AUTO


class Cut:
    """The rule by which a batch of n rows is cut for its replicas.

    By default it cuts as TensorFlow does: pieces of ceil(n / replicas) rows, the last ones smaller
    or empty.  With `rows`, each replica gets this many rows of a full batch, and a smaller batch
    fills the replicas in order, as TensorFlow does for datasets that read files.  With `shares`,
    each replica gets its share of every batch, in whole rows.
    """

    def __init__(
        self,
        replicas: int,
        *,
        rows: Sequence[int] | None = None,
        shares: Sequence[float] | None = None,
    ):
        self.replicas, self._rows = replicas, rows
        self._parts = None
        if shares is not None:
            # Sums of shares are rounded; the last edge must be the whole batch.
            self._parts = [round(PARTS * edge) for edge in itertools.accumulate(shares)]
            self._parts[-1] = PARTS

    def edges(self, n):
        """The rows where pieces begin and end; `n` is their number, an int or an int32 tensor."""
        least = min if isinstance(n, int) else tf.minimum
        if self._parts is not None:
            return [0, *((n * part + PARTS // 2) // PARTS for part in self._parts)]
        if self._rows is not None:
            return [0, *(least(n, edge) for edge in itertools.accumulate(self._rows))]
        step = (n + self.replicas - 1) // self.replicas
        return [least(n, step * i) for i in range(self.replicas + 1)]

    def row_weights(self, tensor: tf.Tensor) -> tf.Tensor:
        """The weight of each row: rows of its replica * replicas / rows of the batch."""
        n = _rows(tensor)
        edges = self.edges(n)
        counts = [end - begin for begin, end in itertools.pairwise(edges)]
        return tf.concat(
            [
                tf.fill([rows], tf.cast(rows * self.replicas, tf.float32) / tf.cast(n, tf.float32))
                for rows in counts
            ],
            0,
        )

    def dealt(self, tensor, first: int, every: int):
        """The joined rows of piece `first` and every `every`th piece after it."""
        edges = self.edges(_rows(tensor))
        pieces = [
            _between(tensor, edges[i], edges[i + 1]) for i in range(first, self.replicas, every)
        ]
        if isinstance(tensor, tf.SparseTensor):
            return tf.sparse.concat(0, pieces)
        return tf.concat(pieces, 0)

    def pieces(self, flat: list[tf.Tensor], spec) -> list[list[tf.Tensor]]:
        """The components of each replica's piece of a batch; `flat` are the batch's tensors."""
        element = compat.from_flat(spec, flat)
        if self.replicas == 1:  # elements may be something other than batches
            return [components(element)]
        # Every tensor of a batch is cut by its own rows, as TensorFlow's rebatching does.
        edges = tf.nest.map_structure(lambda tensor: self.edges(_rows(tensor)), element)
        return [
            components(
                replica_compat.map_up_to(
                    element,
                    lambda tensor, cuts, i=i: _between(tensor, cuts[i], cuts[i + 1]),
                    element,
                    edges,
                )
            )
            for i in range(self.replicas)
        ]


def rows_as_tensorflow(dataset: tf.data.Dataset, replicas: int) -> list[int] | None:
    """Each replica's rows in a full batch if smaller batches fill the replicas in order, or None.

    TensorFlow cuts a partial batch in one of two ways.  If the dataset is sharded by elements, each
    replica gets an equal part (None).  If it is sharded by files, or not at all, the first replicas
    get as many rows as in a full batch.
    """
    if replicas == 1:
        return None
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy in (_OFF, _FILE) or (policy == _AUTO and reads_files(dataset)):
        size = tf.get_static_value(replica_compat.batch_size_of(dataset))
        if size is not None and size > 0:
            rows = tf.get_static_value(replica_compat.batch_sizes_for_worker(size, 1, replicas, 0))
            return [int(each) for each in rows]
    return None


def full_batch_size(dataset: tf.data.Dataset) -> int | None:
    """The rows of a full batch; None if unknown.  TensorFlow gives up at a map; this looks on."""
    while True:
        size = tf.get_static_value(replica_compat.batch_size_of(dataset))
        if size is not None and size > 0:
            return int(size)
        if compat.operation_of(dataset) != "map":
            return None
        (dataset,) = compat.inputs_of(dataset)


def of_piece(dataset: tf.data.Dataset, rows: int, data_device: str) -> FrontEnd:
    """The front end of `dataset`, traced for pieces of `rows` rows.

    If batches have unknown numbers of rows, it is traced for pieces with any number of rows.
    """
    host, _, _ = split(dataset, data_device)

    def cut(*element):
        element = element if len(element) > 1 else element[0]
        return tf.nest.map_structure(lambda tensor: tensor[:rows], element)

    front_end, _ = traced_for(host.map(cut), dataset, data_device)
    return front_end


def rows_of_all(value):
    """The pieces in `value`, each with as many rows as the shortest of them has."""
    if not isinstance(value, tf.distribute.DistributedValues):
        return value
    pieces = value.values
    if not all(isinstance(piece, tf.Tensor) and piece.shape.rank for piece in pieces):
        return value
    rows = min(piece.shape[0] for piece in pieces)
    return replica_compat.per_replica([piece[:rows] for piece in pieces])


def _rows(tensor):
    """The number of rows, an int if it is known; a number on a GPU would have to be waited for."""
    static = tensor.shape[0] if tensor.shape.rank else None
    if static is not None:
        return static
    if isinstance(tensor, tf.SparseTensor):
        return tf.cast(tensor.dense_shape[0], tf.int32)
    if isinstance(tensor, tf.RaggedTensor):
        return tf.shape(tensor.row_splits)[0] - 1
    return tf.shape(tensor)[0]


def _between(tensor, begin, end):
    if isinstance(tensor, tf.SparseTensor):
        begin, rows = tf.cast(begin, tf.int64), tf.cast(end - begin, tf.int64)
        start = tf.concat([[begin], tf.zeros_like(tensor.dense_shape[1:])], 0)
        return tf.sparse.slice(tensor, start, tf.concat([[rows], tensor.dense_shape[1:]], 0))
    return tensor[begin:end]
