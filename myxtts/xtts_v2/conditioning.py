"""Conditioning: turns a reference mel of any length into 32 latents."""

import keras
import tensorflow as tf

from myxtts.model.layers import Attention, FeedForward, attend, join_heads, normal, split_heads
from myxtts.xtts_v2.config import ModelArgs
from myxtts.xtts_v2.layers import group_norm, linear, pointwise
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import ConditioningSizes

LATENTS = 32
_MELS, _HEADS, _HEAD_SIZE = 80, 8, 64


class Conditioning(keras.Model):
    """Turns a mel into latents: `conditioning(mel) -> latents float32 [B, 32, width]`.

    Attention over the mel, then a Perceiver: learned latents attend to the encoder's output. There
    are no positions, so a reference may have any length. Nothing is masked, so zeros after a
    reference count as silence.
    """

    def __init__(self, args: ModelArgs, sizes: ConditioningSizes, names: Names):
        super().__init__(autocast=False)
        width = args.gpt_n_model_channels
        encoder = names.below("gpt.conditioning_encoder")
        self.first = pointwise(encoder.below("init"), _MELS, width)
        self.encoder = [
            EncoderBlock(encoder.below(f"attn.{i}"), width, args.gpt_n_heads)
            for i in range(sizes.blocks)
        ]
        perceiver = names.below("gpt.conditioning_perceiver")
        self.latents = self.add_weight(
            name="latents",
            shape=(LATENTS, width),
            initializer=names.initializer(normal()),
            autocast=False,
        )
        perceiver.add("latents", self.latents)
        self.perceiver = [
            PerceiverLayer(perceiver.below(f"layers.{i}"), width) for i in range(sizes.layers)
        ]
        self.gain = self.add_weight(name="gain", shape=(width,), initializer="ones", autocast=False)
        perceiver.add("norm.gamma", self.gain)
        self.built = True

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        return self.resampled(self.encoded(mel))

    def encoded(self, mel: tf.Tensor) -> tf.Tensor:
        """[B, frames, width]"""
        x = self.first(mel)
        for block in self.encoder:
            x = block(x)
        return x

    def resampled(self, x: tf.Tensor) -> tf.Tensor:
        """float32 [B, 32, width] from the encoder's output."""
        latents = tf.cast(tf.convert_to_tensor(self.latents)[None], x.dtype)
        latents = tf.repeat(latents, tf.shape(x)[0], 0)
        for layer in self.perceiver:
            latents = layer(latents, x)
        latents = tf.cast(latents, tf.float32)
        length = tf.maximum(tf.norm(latents, axis=-1, keepdims=True), 1e-12)
        return latents / length * self.latents.shape[1] ** 0.5 * self.gain


class EncoderBlock(keras.layers.Layer):
    """Attention over the normalised input. Its output is added to the normalised input, not to the
    input itself."""

    def __init__(self, names: Names, width: int, heads: int):
        super().__init__(autocast=False)
        self.heads = heads
        self.norm = group_norm(names.below("norm"), width)
        self.qkv = pointwise(names.below("qkv"), width, 3 * width)
        self.out = pointwise(names.below("proj_out"), width, width)
        self.built = True

    def call(self, x):
        normed = self.norm(x)
        # The channels are those of head 0's query, keys and values, then head 1's, and so on.
        parts = split_heads(self.qkv(normed), self.heads)
        mixed, _ = attend(*tf.split(parts, 3, -1))
        return self.out(join_heads(mixed)) + tf.cast(normed, self.compute_dtype)


class PerceiverLayer(keras.layers.Layer):
    """Attention of the latents to themselves and the input, then a gated feed-forward."""

    def __init__(self, names: Names, width: int):
        super().__init__(autocast=False)
        inner, wide = _HEADS * _HEAD_SIZE, int(width * 4 * 2 / 3)
        attention, forward = names.below(0), names.below(1)
        self.attention = Attention(
            _HEADS,
            to_query=linear(attention.below("to_q"), width, inner, bias=False),
            to_memory=linear(attention.below("to_kv"), width, 2 * inner, bias=False),
            out=linear(attention.below("to_out"), inner, width, bias=False),
        )
        self.forward = FeedForward(
            linear(forward.below(0), width, 2 * wide),
            linear(forward.below(2), wide, width),
            activation=_gated,
        )
        self.built = True

    def call(self, latents, x):
        latents += self.attention(latents, tf.concat([latents, x], 1))
        return latents + self.forward(latents)


def _gated(x):
    x, gate = tf.split(x, 2, -1)
    return x * tf.nn.gelu(gate, approximate=False)
