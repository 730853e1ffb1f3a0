"""What our codebook and the published one share: codes for vectors, moving averages, and new
places for codes that are not used."""

import keras
import tensorflow as tf

from myxtts.model import whole_batch
from myxtts.model.layers import salted


class AveragingCodebook(keras.layers.Layer):
    """Code vectors, each following the vectors that are assigned to it by moving averages: `sums`
    of them, and `counts`. A subclass declares how, in a method `follow`."""

    def __init__(self, codes: int, size: int, *, start, decay: float):
        super().__init__(autocast=False, dtype="float32")
        self.decay = decay
        self.vectors = self.state((codes, size), start)
        self.sums = self.state((codes, size), "zeros")
        self.counts = self.state((codes,), "zeros")

    def state(self, shape: tuple[int, ...], start):
        return self.add_weight(
            shape=shape,
            initializer=start,
            trainable=False,
            autocast=False,
            aggregation="only_first_replica",  # they are equal on all replicas
        )

    def nearest(self, vectors: tf.Tensor) -> tf.Tensor:
        """The codes int32 [B, N] of float32 vectors [B, N, size]."""
        book = tf.convert_to_tensor(self.vectors)
        flat = tf.reshape(vectors, [-1, book.shape[1]])
        # |v - b|^2 without |v|^2, which is the same for every b.
        likeness = tf.matmul(flat, book, transpose_b=True)
        distance = tf.reduce_sum(tf.square(book), -1) - 2.0 * likeness
        return tf.reshape(tf.argmin(distance, -1, tf.int32), tf.shape(vectors)[:2])

    def vectors_of(self, codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.convert_to_tensor(self.vectors), codes)

    def perplexity(self, codes: tf.Tensor, there: tf.Tensor | None = None) -> tf.Tensor:
        """The perplexity of the codes where `there` is 1: as many equally frequent codes would have
        the same entropy."""
        used = whole_batch.total(tf.reduce_sum(self._one_hot(codes, there), 0))
        share = used / tf.maximum(tf.reduce_sum(used), 1.0)
        return tf.exp(-tf.reduce_sum(share * tf.math.log(share + 1e-10)))

    def averaged(self, vectors, codes, there=None) -> dict:
        """One step of the moving averages, of the whole batch, not yet assigned: `counts`, `sums`,
        the `hits` of each code, and the vectors in a row as `flat`."""
        flat = tf.reshape(vectors, [-1, self.vectors.shape[1]])
        # A step with non-finite numbers is skipped by the trainer; the codebook must survive it.
        spoilt = tf.cast(tf.reduce_all(tf.math.is_finite(flat)), tf.float32) - 1.0
        sane = whole_batch.total(spoilt) == 0.0
        flat = tf.where(sane, flat, tf.zeros_like(flat))
        used = self._one_hot(codes, there)
        hits = whole_batch.total(tf.reduce_sum(used, 0))
        of_code = whole_batch.total(tf.matmul(used, flat, transpose_a=True))
        return {
            "sane": sane,
            "flat": flat,
            "hits": hits,
            "counts": self.decay * self.counts + (1 - self.decay) * hits,
            "sums": self.decay * self.sums + (1 - self.decay) * of_code,
        }

    def placed_anew(self, step: dict, unused, *, real, seed, after: int) -> tuple:
        """`(counts, sums, unused)` of a step of `averaged`, in which a code that was not used for
        `after` steps is moved to one of the batch's vectors, drawn by the seed.

        `unused` are the steps since each code was used; of the vectors in a row only those count
        where `real` is 1.
        """
        unused = tf.where(step["hits"] > 0, 0.0, unused + 1.0)
        dead = unused >= after
        real = whole_batch.gathered(real)
        placed = self._drawn(whole_batch.gathered(step["flat"]), real, seed)
        # A new code gets the weight of a moderately used one, so that the first vectors assigned
        # to it move it.
        counts = tf.where(dead, tf.ones_like(unused) * (1 - self.decay), step["counts"])
        sums = tf.where(dead[:, None], placed * (1 - self.decay), step["sums"])
        return counts, sums, tf.where(dead, 0.0, unused)

    def _drawn(self, flat, real, seed):
        """A vector of the batch for every code, each taken once if there are enough."""
        places = tf.shape(flat)[0]
        lots = tf.random.stateless_uniform([places], salted(seed, 1)) * real - (1.0 - real)
        order = tf.argsort(lots, direction="DESCENDING")
        there = tf.maximum(tf.cast(tf.reduce_sum(real), tf.int32), 1)
        return tf.gather(flat, tf.gather(order, tf.range(self.vectors.shape[0]) % there))

    @staticmethod
    def assign(sane, *pairs) -> None:
        """Gives variables their values, unless the step was not `sane`."""
        for variable, value in pairs:
            variable.assign(tf.where(sane, value, variable))

    def _one_hot(self, codes, there):
        """float32 [B * N, codes]"""
        used = tf.one_hot(tf.reshape(codes, [-1]), self.vectors.shape[0])
        return used if there is None else used * tf.reshape(there, [-1])[:, None]
