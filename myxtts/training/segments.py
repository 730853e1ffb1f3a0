"""Cuts pieces out of mels and waveforms, in a batch and on the data device."""

import tensorflow as tf

from myxtts.model.layers import salted, seed_of
from myxtts.model.whole_batch import drawn


def random_segment(
    values: tf.Tensor, lengths: tf.Tensor, *, size: int, key: tf.Tensor, salt: int, padding: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`(segments [B, size, ...], their lengths, where they start)`, cut out of `values [B, T, ...]`
    at places drawn by the batch's key and the salt; a clip that is shorter is padded."""
    there = tf.shape(values)[1]
    free = tf.cast(tf.maximum(lengths - size + 1, 1), tf.float32)
    seed = salted(seed_of(key), salt)
    where = drawn(lambda rows: tf.random.stateless_uniform([rows], seed), key)
    start = tf.cast(tf.floor(where * free), tf.int32)
    lack = tf.maximum(size - there, 0)
    values = tf.pad(
        values, [[0, 0], [0, lack], *[[0, 0]] * (values.shape.rank - 2)], constant_values=padding
    )
    segment = tf.gather(values, start[:, None] + tf.range(size)[None], batch_dims=1)
    return segment, tf.minimum(lengths, size), start


def segment_at(values: tf.Tensor, start: tf.Tensor, size: int) -> tf.Tensor:
    """`size` rows of `values [B, T, N]` from `start` on, zeros beyond the end."""
    values = tf.pad(values, [[0, 0], [0, size], [0, 0]])
    return tf.gather(values, start[:, None] + tf.range(size)[None], batch_dims=1)


def padded_to_whole_codes(mel: tf.Tensor, stride: int, silence: float) -> tf.Tensor:
    """The mel, lengthened to a multiple of `stride` frames."""
    return tf.pad(mel, [[0, 0], [0, -tf.shape(mel)[1] % stride], [0, 0]], constant_values=silence)
