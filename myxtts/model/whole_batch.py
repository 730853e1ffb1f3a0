"""Sums and means over the whole batch, when each replica has a part of it.

    one, other = means([errors, others])                # of all elements on all replicas
    vectors = gathered(vectors)                         # the rows of all replicas, in their order

With one replica, and outside of `strategy.run`, these are the plain functions. With several, each
replica computes the loss of the whole batch in this way: all have the same loss, the one that a
single replica would have, and the mean of their gradients is its gradient. A loss that is a plain
mean over a replica's own rows has that gradient too, as long as replicas have equal numbers of
rows and rows equal numbers of elements.

All replicas must call the same functions in the same order, and never in a `tf.function` of their
own inside of `strategy.run`.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

ROW = 3  # in a batch's key: the number of the row in the whole batch


def replicas() -> int:
    """The number of replicas among which the batch is divided."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def total(x: tf.Tensor) -> tf.Tensor:
    """The sum of the replicas' tensors, with the right gradient for any use."""
    if replicas() == 1:
        return x
    return tf.distribute.get_replica_context().all_reduce("SUM", x)


def gathered(x: tf.Tensor) -> tf.Tensor:
    """The rows of all replicas, in the order of the batch; float32."""
    if replicas() == 1:
        return x
    return tf.distribute.get_replica_context().all_gather(tf.cast(x, tf.float32), 0)


def means(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The mean of all elements of each tensor, with one exchange for all of them; see `ratio`."""
    if replicas() == 1:
        return [tf.reduce_mean(x) for x in tensors]
    counts = [tf.cast(tf.size(x), tf.float32) for x in tensors]
    return tf.unstack(ratio(tf.stack([tf.reduce_sum(x) for x in tensors]), tf.stack(counts)))


def ratio(numerator: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """The sum of the replicas' numerators over the sum of their counts, or over 1 if that is less.

    Everything computed from it must be the same on all replicas, as losses are: then its gradient
    needs no exchange.
    """
    many = replicas()
    if many == 1:
        return numerator / tf.maximum(count, 1.0)

    @tf.custom_gradient
    def divided(numerator):
        above, below = tf.unstack(total(tf.stack([numerator, count])))
        below = tf.maximum(below, 1.0)
        return above / below, lambda upstream: upstream * many / below

    return divided(numerator)


def moments(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Mean and variance of every channel (the last axis), and how many places they are of."""
    places = list(range(x.shape.rank - 1))
    count = total(tf.cast(tf.size(x) // x.shape[-1], tf.float32))
    mean = total(tf.reduce_sum(x, places)) / count
    return mean, total(tf.reduce_sum(tf.square(x - mean), places)) / count, count


def for_this_replica(seed: tf.Tensor) -> tf.Tensor:
    """A seed of this replica's own: rows on different replicas must not share their dropout."""
    if replicas() == 1:
        return seed
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    return seed + tf.stack([tf.cast(number, tf.int32) * 0x2545F491, 0])


def drawn(draw: Callable[[tf.Tensor], tf.Tensor], key: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """The numbers for these rows out of those that `draw(rows)` draws for the whole batch.

    On one of several machines a front end sees a part of a batch; each row gets the same numbers
    as in the whole batch. `key` is the batch's; `axis` is that of the rows.
    """
    rows = key[:, ROW]
    return tf.gather(draw(tf.reduce_max(rows) + 1), rows, axis=axis)
