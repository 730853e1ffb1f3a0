"""The discriminators of the HiFi-GAN: they tell recorded speech from what it makes.

    discriminators = Discriminators(width=32)
    scores, features = discriminators(waveform)      # [B, T] -> list, list of lists

Their form is that of the publisher's VITS: one looks at the samples as they are, the others at
every second, third, fifth, seventh or eleventh sample as a row of its own.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from myxtts.xtts_v2.layers import WeightNormConv1D
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import SoundObjective

_GROUP = 4  # channels of a group in the wide layers of the one without a period


class Discriminators(keras.Model):
    """All discriminators together, one without a period and one for each. Each gives scores, and
    the feature maps that led to them, the scores being the last. `width`: channels of the first
    layers with a period; published 32."""

    def __init__(
        self,
        width: int = 32,
        periods: Sequence[int] = SoundObjective.critic_periods,
        names: Names | None = None,
    ):
        super().__init__(autocast=False)
        names = (names or Names()).below("nets")
        self.members = [
            _Member(names.below(number), period, width)
            for number, period in enumerate((None, *periods))
        ]
        self.built = True

    def call(self, waveform, training=False):
        answers = [member(waveform) for member in self.members]
        return [features[-1] for features in answers], answers


class _Member(keras.layers.Layer):
    def __init__(self, names: Names, period: int | None, width: int):
        super().__init__(autocast=False)
        self.period = period
        if period is None:
            half = max(1, width // 2)
            channels, sizes = (half, 4 * half, 16 * half, *[64 * half] * 3), (15, *[41] * 4, 5)
            strides = (1, 4, 4, 4, 4, 1)
        else:
            channels, sizes = (width, 4 * width, 16 * width, *[32 * width] * 2), [5] * 5
            strides = (3, 3, 3, 3, 1)
        self.convolutions, inputs = [], 1
        for number, (outputs, size, stride) in enumerate(
            zip(channels, sizes, strides, strict=True)
        ):
            self.convolutions.append(
                WeightNormConv1D(
                    names.below(f"convs.{number}"),
                    inputs,
                    outputs,
                    size,
                    stride=stride,
                    groups=max(1, inputs // _GROUP) if size == 41 else 1,
                )
            )
            inputs = outputs
        self.score = WeightNormConv1D(names.below("conv_post"), inputs, 1, 3)
        self.built = True

    def call(self, waveform):
        x = tf.cast(waveform if self.period is None else self._rows(waveform), self.compute_dtype)
        x, features = x[..., None], []
        for convolution in self.convolutions:
            x = tf.nn.leaky_relu(convolution(x), 0.1)
            features.append(x)
        return [*features, tf.cast(self.score(x), tf.float32)]

    def _rows(self, waveform):
        """[B * period, T / period]: what is missing at the end is mirrored."""
        rest = -tf.shape(waveform)[1] % self.period
        whole = tf.pad(waveform, [[0, 0], [0, rest]], "REFLECT")
        rows = tf.reshape(whole, [tf.shape(waveform)[0], -1, self.period])
        return tf.reshape(tf.transpose(rows, [0, 2, 1]), [-1, tf.shape(rows)[1]])
