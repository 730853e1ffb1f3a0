"""The blocks of the GPT, over a whole sequence or for one step with a key/value cache."""

import keras
import tensorflow as tf

from myxtts.model.config import GptConfig
from myxtts.model.layers import (
    Dropout,
    FeedForward,
    Norm,
    attend,
    dense,
    join_heads,
    split_heads,
    turned,
)


class Block(keras.layers.Layer):
    """Self-attention and feed-forward, normalised before each."""

    def __init__(self, config: GptConfig, salt):
        super().__init__(autocast=False)
        width = config.width
        self.heads = config.heads
        # Scaled as in GPT-2, so that the sum over all blocks is as large as the output of one.
        out = 0.02 * (2 * config.layers) ** -0.5
        self.before_attention, self.before_forward = Norm(width), Norm(width)
        self.qkv = dense(width, 3 * width, deviation=width**-0.5, bias=False)
        self.out = dense(width, width, deviation=out, bias=False)
        self.forward = FeedForward(width, out_deviation=out)
        self.drop_attention = Dropout(config.dropout, next(salt))
        self.drop_forward = Dropout(config.dropout, next(salt))
        self.built = True

    def _projected(self, x, by):
        query, keys, values = (
            split_heads(part, self.heads)
            for part in tf.split(self.qkv(self.before_attention(x)), 3, -1)
        )
        return turned(query, by), turned(keys, by), values

    def call(self, x, bias, by=None, *, seed=None, training=False):
        query, keys, values = self._projected(x, by)
        mixed, weights = attend(query, keys, values, bias)
        x += self.drop_attention(self.out(join_heads(mixed)), seed=seed, training=training)
        forward = self.forward(self.before_forward(x))
        return x + self.drop_forward(forward, seed=seed, training=training), weights, (keys, values)

    def step(self, x, *, keys, values, slot, bias, by):
        query, key, value = self._projected(x, by)
        keys, values = with_slot(keys, slot, key), with_slot(values, slot, value)
        mixed, _ = attend(query, keys, values, bias)
        x += self.out(join_heads(mixed))
        return x + self.forward(self.before_forward(x)), keys, values


def with_slot(cached, slot, new):
    """[B, heads, K, D] with `new` [B, heads, 1, D] at place `slot`. Inside a loop TensorFlow
    writes in place, so a larger cache costs no more."""
    rows = tf.shape(new)[0] * tf.shape(new)[1]
    capacity, size = tf.shape(cached)[2], new.shape[3]
    flat = tf.tensor_scatter_nd_update(
        tf.reshape(cached, [-1, size]),
        (tf.range(rows) * capacity + slot)[:, None],
        tf.reshape(new, [rows, size]),
    )
    return tf.reshape(flat, tf.shape(cached))
