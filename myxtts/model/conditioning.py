"""Conditioning: turns a reference mel of any length into a fixed number of latents."""

import keras
import tensorflow as tf

from myxtts.model.config import ConditioningConfig
from myxtts.model.layers import (
    Attention,
    Dropout,
    Norm,
    attention_bias,
    dense,
    feed_forward,
    mask_of,
    normal,
    normalised,
    salts,
)

_FIRST_SALT = 1000


class Conditioning(keras.Model):
    """`conditioning(mel, mel_lengths) -> latents [B, config.latents, width]`

    An encoder reads short stretches of the mel; then learned queries (a Perceiver) attend to its
    output.  There are no positions, so a reference may have any length, and latents of several
    references may be averaged.
    """

    def __init__(self, config: ConditioningConfig, width: int, n_mels: int, dropout: float = 0.1):
        super().__init__(autocast=False)
        self.config, self.width = config, width
        salt = salts(_FIRST_SALT)
        # One dense layer over a few frames: as good here as strided convolutions, and cheap.
        self.patch = dense(config.patch * n_mels, width)
        self.encoder = [
            PreNormLayer(width, config.heads, dropout, next(salt))
            for _ in range(config.encoder_layers)
        ]
        self.encoded = Norm(width)
        self.queries = self.add_weight(
            shape=(config.latents, width), initializer=normal(1.0), autocast=False, name="queries"
        )
        self.perceiver = [
            PreNormLayer(width, config.heads, dropout, next(salt), cross=True)
            for _ in range(config.layers)
        ]
        self.norm = Norm(width)
        self.built = True

    def call(self, mel, mel_lengths, seed=None, training=False):
        patch = self.config.patch
        batch, frames, bands = tf.unstack(tf.shape(mel))
        there = mask_of(mel_lengths, frames)[:, :, None]
        x = tf.pad(normalised(mel) * there, [[0, 0], [0, -frames % patch], [0, 0]])
        x = tf.reshape(x, [batch, -1, patch * bands])
        x = self.patch(tf.ensure_shape(x, [None, None, patch * mel.shape[2]]))
        places = mask_of((mel_lengths + patch - 1) // patch, tf.shape(x)[1])
        bias = attention_bias(places)[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, x, bias, seed=seed, training=training)
        x = self.encoded(x)
        latents = tf.tile(tf.cast(self.queries, x.dtype)[None], [batch, 1, 1])
        for layer in self.perceiver:
            latents = layer(latents, x, bias, seed=seed, training=training)
        return self.norm(latents)


class PreNormLayer(keras.layers.Layer):
    """Attention and feed-forward, each with normalisation before it; self-attention, or attention
    to a context."""

    def __init__(self, width: int, heads: int, dropout: float, salt: int, *, cross: bool = False):
        super().__init__(autocast=False)
        self.cross = cross
        self.before_attention, self.before_forward = Norm(width), Norm(width)
        self.attention = Attention(
            heads,
            to_query=dense(width, width, deviation=width**-0.5, bias=False),
            to_memory=dense(width, 2 * width, deviation=width**-0.5, bias=False),
            out=dense(width, width, deviation=0.02, bias=False),
        )
        self.forward = feed_forward(width)
        self.drop = Dropout(dropout, salt)
        self.built = True

    def call(self, x, context, bias, *, seed=None, training=False):
        query = self.before_attention(x)
        x += self.attention(query, context if self.cross else query, bias)
        return x + self.drop(self.forward(self.before_forward(x)), seed=seed, training=training)
