"""Small layers shared by the networks.

A layer makes all its weights when it is constructed, so a network is made in one place, inside the
strategy's scope, and no step makes a variable.  Randomness in training is stateless: it depends
only on an int32[2] tensor `seed`.
"""

import itertools
import math

import keras
import numpy as np
import tensorflow as tf

from myxtts.model import whole_batch

_NEVER = -1e9  # added to a score in float32
# Log power mels of the embedded corpus, all bands together, measured: -5.8 and 3.7.
_MEL_MEAN, _MEL_DEVIATION = -6.0, 4.0


def normalised(mel: tf.Tensor) -> tf.Tensor:
    """The log-mel scaled to about mean 0 and deviation 1."""
    return (mel - _MEL_MEAN) / _MEL_DEVIATION


def log_mel_of(normal_mel: tf.Tensor) -> tf.Tensor:
    """The inverse of `normalised`."""
    return normal_mel * _MEL_DEVIATION + _MEL_MEAN


def seed_of(key: tf.Tensor) -> tf.Tensor:
    """The `seed` argument of the networks from a batch's `key` (its first row, or all rows)."""
    key = key[0] if key.shape.rank == 2 else key
    return tf.stack([key[0], key[1] * (1 << 20) + key[2]])


def salted(seed: tf.Tensor, salt: int) -> tf.Tensor:
    """A seed for another random draw in the same step; each draw has its own `salt`."""
    return seed + tf.constant([salt * 0x3C6EF35F % 2**31, 0], tf.int32)


def mask_of(lengths: tf.Tensor, size: tf.Tensor | int) -> tf.Tensor:
    """float32 [B, size]: 1 up to each length, 0 for padding."""
    return tf.cast(tf.range(size)[None] < lengths[:, None], tf.float32)


def masked_mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean of `values` where `mask` is 1, in float32, over the whole batch (`whole_batch`)."""
    values = tf.cast(values, tf.float32)
    return whole_batch.ratio(tf.reduce_sum(values * mask), tf.reduce_sum(mask))


def attention_bias(there: tf.Tensor) -> tf.Tensor:
    """The bias on attention scores by which only places with mask 1 in `there` are attended to."""
    return (1.0 - there) * _NEVER


def sinusoids(length: int, width: int) -> np.ndarray:
    """float32 [length, width]: positions encoded as sines and cosines of many wavelengths."""
    rates = np.exp(-math.log(10000.0) * np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)[:, :width].astype(np.float32)


def turns(places: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The cosines and sines [S, size / 2] that `turned` needs for queries and keys of `size`."""
    # The longest wave spans some 600 places, about as much as the longest text or speech.
    rates = tf.constant(100.0 ** (-np.arange(0, size, 2) / size), tf.float32)
    angles = tf.cast(places, tf.float32)[:, None] * rates
    return tf.cos(angles), tf.sin(angles)


def turned(x: tf.Tensor, by: tuple[tf.Tensor, tf.Tensor] | None) -> tf.Tensor:
    """`x [B, heads, S, D]` with rotary position encoding: the product of a turned query and a
    turned key depends only on the distance between their positions."""
    if by is None:
        return x
    cosines, sines = (tf.cast(part, x.dtype) for part in by)
    a, b = tf.split(x, 2, -1)
    return tf.concat([a * cosines - b * sines, a * sines + b * cosines], -1)


def normal(deviation: float = 0.02) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=deviation)


def dense(inputs: int, outputs: int, *, deviation: float | None = None, bias: bool = True):
    """A Dense layer with its weights made at once; Glorot initialisation by default."""
    initializer = "glorot_uniform" if deviation is None else normal(deviation)
    layer = keras.layers.Dense(outputs, use_bias=bias, kernel_initializer=initializer)
    layer.build((None, inputs))
    return layer


class Dropout(keras.layers.Layer):
    """Dropout that draws from the given seed; every layer of a network has its own `salt`.

    The rate is rounded to a 256th, so that one random number serves four values: drawing numbers is
    most of the cost of dropout.
    """

    def __init__(self, rate: float, salt: int):
        super().__init__(autocast=False)
        self.rate, self.salt = rate, salt
        self.built = True

    def call(self, x, seed=None, training=False):
        if not training or not self.rate:
            return x
        if seed is None:
            raise ValueError("training with dropout needs seed=int32[2], see seed_of(); got None")
        places, dropped = tf.size(x), min(round(256 * self.rate), 255)
        lots = tf.random.stateless_uniform(
            [(places + 3) // 4], salted(seed, self.salt), minval=None, maxval=None, dtype=tf.uint32
        )
        lots = tf.reshape(tf.bitcast(lots, tf.uint8), [-1])[:places]
        kept = tf.cast(lots >= dropped, x.dtype) * (256 / (256 - dropped))
        return x * tf.reshape(kept, tf.shape(x))


class Norm(keras.layers.Layer):
    """Layer normalisation over the last axis, computed in float32 for any input type."""

    def __init__(self, width: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.scale = self.add_weight(shape=(width,), initializer="ones", autocast=False)
        self.offset = self.add_weight(shape=(width,), initializer="zeros", autocast=False)
        self.built = True

    def call(self, x):
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, -1, keepdims=True)
        power = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        return tf.cast(centred * tf.math.rsqrt(power + 1e-5) * self.scale + self.offset, x.dtype)


class Attention(keras.layers.Layer):
    """Multi-head attention of `query [B, Q, W]` to `context [B, K, W]`, by Dense layers: to the
    queries, to keys and values next to one another, and from what was found.

    `bias` is added to the scores [B, heads, Q, K], see `attention_bias`.
    """

    def __init__(self, heads: int, *, to_query, to_memory, out):
        super().__init__(autocast=False)
        self.heads, self.to_query, self.to_memory, self.out = heads, to_query, to_memory, out
        self.built = True

    def call(self, query, context, bias=None):
        keys, values = tf.split(self.to_memory(context), 2, -1)
        mixed, _ = attend(
            split_heads(self.to_query(query), self.heads),
            split_heads(keys, self.heads),
            split_heads(values, self.heads),
            bias,
        )
        return self.out(join_heads(mixed))


def split_heads(x: tf.Tensor, heads: int) -> tf.Tensor:
    """[B, S, W] to [B, heads, S, W / heads]"""
    batch, steps = tf.unstack(tf.shape(x)[:2])
    return tf.transpose(tf.reshape(x, [batch, steps, heads, x.shape[-1] // heads]), [0, 2, 1, 3])


def join_heads(x: tf.Tensor) -> tf.Tensor:
    """[B, heads, S, D] to [B, S, heads * D]"""
    batch, _, steps, _ = tf.unstack(tf.shape(x))
    joined = tf.transpose(x, [0, 2, 1, 3])
    return tf.reshape(joined, [batch, steps, x.shape[1] * x.shape[3]])


def attend(query, keys, values, bias=None, *, drop=None) -> tuple[tf.Tensor, tf.Tensor]:
    """Scaled dot-product attention. Also returns the weights, in float32, after `drop` if it is
    given."""
    scores = tf.matmul(query * (query.shape[-1] ** -0.5), keys, transpose_b=True)
    scores = tf.cast(scores, tf.float32)
    weights = tf.nn.softmax(scores if bias is None else scores + bias)
    weights = weights if drop is None else drop(weights)
    return tf.matmul(tf.cast(weights, values.dtype), values), weights


class FeedForward(keras.layers.Layer):
    """Two Dense layers, `wide` and `narrow`, with an activation between them."""

    def __init__(self, wide, narrow, activation):
        super().__init__(autocast=False)
        self.wide, self.narrow, self.activation = wide, narrow, activation
        self.built = True

    def call(self, x):
        return self.narrow(self.activation(self.wide(x)))


def feed_forward(width: int, *, out_deviation: float = 0.02) -> FeedForward:
    """As in our own networks, with a squared ReLU. That is two cheap ops; a GELU without a compiler
    takes eight."""
    return FeedForward(
        dense(width, 4 * width, deviation=width**-0.5, bias=False),
        dense(4 * width, width, deviation=out_deviation, bias=False),
        activation=lambda x: tf.square(tf.nn.relu(x)),
    )


def salts(first: int):
    """Numbers for the Dropout layers of one network."""
    return itertools.count(first)
