"""The speaker encoder: one vector of length 1 from a recording at 16,000 Hz.

A squeeze-and-excitation ResNet-34 with attentive statistics (H/ASP). It came ready to the
published training, so it stays frozen when published weights are fine-tuned. With random weights it
is trained on mels, see `unit_vectors_of`.
"""

import keras
import numpy as np
import tensorflow as tf

from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.layers import BatchNorm, linear, pointwise
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import SpeakerSizes

_ATTENTION, _REDUCTION, _ROWS = 128, 8, 8


class SpeakerEncoder(keras.Model):
    """Encodes a voice: `encoder(waveform [B, T] at 16,000 Hz) -> unit vectors float32 [B, size]`"""

    def __init__(self, sizes: SpeakerSizes, names: Names):
        super().__init__(autocast=False)
        names = names.below("hifigan_decoder.speaker_encoder")
        width = sizes.filters[0]
        self.first = Conv2D(names.below("conv1"), 1, width, 3, bias=True)
        self.norm = BatchNorm(names.below("bn1"), width)
        self.blocks = []
        stages = zip(sizes.filters, sizes.blocks, strict=True)
        for stage, (filters, count) in enumerate(stages):
            for i in range(count):
                below = names.below(f"layer{stage + 1}.{i}")
                stride = 2 if stage and not i else 1
                self.blocks.append(ResidualBlock(below, width, filters, stride))
                width = filters
        flat = width * _ROWS
        attention = names.below("attention")
        self.look = pointwise(attention.below(0), flat, _ATTENTION)
        self.look_norm = BatchNorm(attention.below(2), _ATTENTION)
        self.score = pointwise(attention.below(3), _ATTENTION, flat)
        self.out = linear(names.below("fc"), 2 * flat, sizes.size)
        spectrum = names.below("torch_spec")
        emphasis = np.array([[[-mels.SPEAKER_PRE_EMPHASIS, 1.0]]], np.float32)
        spectrum.carry("0.filter", emphasis, constant=True)
        spectrum.carry(
            "1.spectrogram.window", mels.SPEAKER_WINDOW.astype(np.float32), constant=True
        )
        spectrum.carry("1.mel_scale.fb", mels.speaker_filters().astype(np.float32), constant=True)
        self.built = True

    def call(self, waveform: tf.Tensor) -> tf.Tensor:
        return self.unit_vectors_of(mels.speaker_mel(waveform))

    def unit_vectors_of(self, mel: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The same of `mels.speaker_mel`'s mels."""
        # torch's normalize; a vector of length 0 stays one.
        vectors = tf.cast(self.vectors_of(mel, training), tf.float32)
        return tf.math.l2_normalize(vectors, -1, 1e-24)

    def vectors_of(self, mel: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, size], of any length"""
        x = self.features_of(mel, training)
        # In half precision the difference of the two powers below would be mostly rounding.
        weights = tf.nn.softmax(tf.cast(self.scores_of(x, training), tf.float32), 1)
        x = tf.cast(x, tf.float32)
        mean = tf.reduce_sum(weights * x, 1)
        power = tf.reduce_sum(weights * tf.square(x), 1)
        deviation = tf.sqrt(tf.maximum(power - tf.square(mean), 1e-5))
        return self.out(tf.concat([mean, deviation], -1))

    def features_of(self, mel: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, frames / 8, channels] of mels [B, frames, 64]"""
        x = tf.math.log(mel + 1e-6)
        centred = x - tf.reduce_mean(x, 1, keepdims=True)
        power = tf.reduce_mean(tf.square(centred), 1, keepdims=True)
        x = centred * tf.math.rsqrt(power + 1e-5)
        x = self.norm(tf.nn.relu(self.first(x[..., None])), training=training)  # [B, frames, 64, C]
        for block in self.blocks:
            x = block(x, training=training)
        x = tf.transpose(x, [0, 1, 3, 2])
        return tf.reshape(x, [tf.shape(x)[0], -1, x.shape[2] * x.shape[3]])

    def scores_of(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The attention scores of every channel and place, before the softmax over the places."""
        return self.score(self.look_norm(tf.nn.relu(self.look(x)), training=training))


class Conv2D(keras.layers.Layer):
    """torch.nn.Conv2d over (bands, frames), here over (frames, bands)."""

    def __init__(self, names: Names, inputs: int, outputs: int, size: int, **options):
        super().__init__(autocast=False)
        self.pad = size // 2
        bias = options.pop("bias", False)
        options["kernel_initializer"] = names.initializer("glorot_uniform")
        self.conv = keras.layers.Conv2D(outputs, size, use_bias=bias, **options)
        self.conv.build((None, None, None, inputs))
        names.add("weight", self.conv.kernel, axes=(3, 2, 1, 0))
        if bias:
            names.add("bias", self.conv.bias)
        self.built = True

    def call(self, x):
        around = [self.pad, self.pad]
        return self.conv(tf.pad(x, [[0, 0], around, around, [0, 0]]))


class ResidualBlock(keras.layers.Layer):
    def __init__(self, names: Names, inputs: int, outputs: int, stride: int):
        super().__init__(autocast=False)
        self.first = Conv2D(names.below("conv1"), inputs, outputs, 3, strides=stride)
        self.first_norm = BatchNorm(names.below("bn1"), outputs)
        self.second = Conv2D(names.below("conv2"), outputs, outputs, 3)
        self.second_norm = BatchNorm(names.below("bn2"), outputs)
        squeeze = names.below("se.fc")
        self.squeeze = linear(squeeze.below(0), outputs, outputs // _REDUCTION)
        self.excite = linear(squeeze.below(2), outputs // _REDUCTION, outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            down = names.below("downsample")
            self.shortcut = Conv2D(down.below(0), inputs, outputs, 1, strides=stride)
            self.shortcut_norm = BatchNorm(down.below(1), outputs)
        self.built = True

    def call(self, x, training=False):
        y = self.first_norm(tf.nn.relu(self.first(x)), training=training)
        y = self.second_norm(self.second(y), training=training)
        share = self.excite(tf.nn.relu(self.squeeze(tf.reduce_mean(y, [1, 2]))))
        y *= tf.sigmoid(share)[:, None, None]
        if self.shortcut is not None:
            x = self.shortcut_norm(self.shortcut(x), training=training)
        return tf.nn.relu(x + y)
