"""The HiFi-GAN: makes a waveform at 24,000 Hz from the GPT's latents and a speaker vector."""

import keras
import tensorflow as tf

from myxtts.xtts_v2.layers import Conv1D, WeightNormConv1D, pointwise
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.resampling import interpolated, interpolated_size
from myxtts.xtts_v2.sizes import HifiGanSizes

_RATES, _KERNELS = (8, 8, 2, 2), (16, 16, 4, 4)
_SLOPE, _LAST_SLOPE = 0.1, 0.01
# A code lasts 1,024 samples at 22,050 Hz: four hops of 256, then stretched to 24,000 Hz.
_HOPS, _STRETCH = 4.0, 24000 / 22050
SAMPLE_RATE, HOP = 24000, 256
# The samples of a code depend on this many codes on either side; 3.23 were measured.
CONTEXT_CODES = 4
# The reach of the convolutions to either side, in hops: 3 before the first upsampling, 8.5 and 1.1
# in the first two stages, 0.7 in the others.
_MARGIN = 14


class HifiGan(keras.Model):
    """The vocoder: `hifigan(latents [B, N, inputs], speaker [B, size]) -> float32 [B, S]`.

    Call `prepare_training` before training it. `part` makes a stretch of a sentence's waveform.
    """

    def __init__(self, sizes: HifiGanSizes, names: Names):
        super().__init__(autocast=False)
        names = names.below("hifigan_decoder.waveform_decoder")
        width, self.speaker_size = sizes.width, sizes.speaker
        self.first = Conv1D(names.below("conv_pre"), sizes.inputs, width, 7)
        self.speaker = pointwise(names.below("cond_layer"), sizes.speaker, width)
        self.stages = []
        for i, (rate, kernel) in enumerate(zip(_RATES, _KERNELS, strict=True)):
            self.stages.append(
                UpsamplingStage(names, sizes, number=i, width=width, rate=rate, kernel=kernel)
            )
            width //= 2
        self.last = Conv1D(names.below("conv_post"), width, 1, 7, bias=False)
        self.built = True

    def prepare_training(self) -> None:
        """From now on computes dilated convolutions as plain ones over every nth place.

        The gradients of dilated ones lack a kernel on some devices, and in half precision.
        """
        for stage in self.stages:
            for stack in stage.stacks:
                for convolution in stack.wide:
                    convolution.avoids_dilation = True

    def call(self, latents: tf.Tensor, speaker: tf.Tensor) -> tf.Tensor:
        return self.waveform_of(self.hops_of(latents), speaker)

    @staticmethod
    def hops(codes: int | tf.Tensor) -> tf.Tensor:
        """The number of hops, 256 samples each, in a number of codes."""
        return interpolated_size(4 * codes, _STRETCH)

    @staticmethod
    def hops_of(latents: tf.Tensor) -> tf.Tensor:
        """The latents interpolated to the waveform's hops: [B, hops, inputs]."""
        return interpolated(interpolated(latents, _HOPS), _STRETCH)

    def part(self, latents, speaker, first, total, begin, end) -> tf.Tensor:
        """The samples of hops `begin` to `end` of a sentence of `total` codes.

        `latents` are those of its codes from `first` on. The samples equal those of the whole
        sentence if `latents` include CONTEXT_CODES codes on either side, or reach its beginning or
        end.
        """
        first, total, begin, end = (
            tf.cast(place, tf.int32) for place in (first, total, begin, end)
        )
        last = first + tf.shape(latents)[1]
        # The places on both grids that can be computed from these latents.
        whole = 4 * total
        fine_first = tf.where(first == 0, 0, 4 * first + 2)
        fine_last = tf.where(last == total, whole, 4 * last - 2)
        fine = interpolated(
            latents, _HOPS, first=first, total=total, begin=fine_first, end=fine_last
        )
        lowest = tf.where(first == 0, 0, interpolated_size(fine_first + 1, _STRETCH) + 1)
        highest = interpolated_size(tf.where(last == total, whole, fine_last - 1), _STRETCH)
        low = tf.maximum(begin - _MARGIN, lowest)
        high = tf.minimum(end + _MARGIN, highest)
        hops = interpolated(fine, _STRETCH, first=fine_first, total=whole, begin=low, end=high)
        waveform = self.waveform_of(hops, speaker)
        return waveform[:, (begin - low) * HOP : (end - low) * HOP]

    def waveform_of(self, hops: tf.Tensor, speaker: tf.Tensor) -> tf.Tensor:
        """float32 [B, 256 * hops]"""
        x = self.first(hops) + self.speaker(speaker)[:, None]
        for stage in self.stages:
            x = stage(tf.nn.leaky_relu(x, _SLOPE), speaker)
        x = self.last(tf.nn.leaky_relu(x, _LAST_SLOPE))
        return tf.cast(tf.tanh(x), tf.float32)[..., 0]


class UpsamplingStage(keras.layers.Layer):
    """Upsampling in time, then the mean of some stacks of residual convolutions."""

    def __init__(
        self,
        names: Names,
        sizes: HifiGanSizes,
        *,
        number: int,
        width: int,
        rate: int,
        kernel: int,
    ):
        super().__init__(autocast=False)
        narrow = width // 2
        self.up = WeightNormConv1D(names.below(f"ups.{number}"), width, narrow, kernel, rate=rate)
        self.speaker = pointwise(names.below(f"conds.{number}"), sizes.speaker, narrow)
        first = len(sizes.kernels) * number
        self.stacks = [
            ResidualStack(names.below(f"resblocks.{first + i}"), narrow, size, sizes.pairs)
            for i, size in enumerate(sizes.kernels)
        ]
        self.built = True

    def call(self, x, speaker):
        x = self.up(x) + self.speaker(speaker)[:, None]
        return tf.add_n([stack(x) for stack in self.stacks]) / len(self.stacks)


class ResidualStack(keras.layers.Layer):
    def __init__(self, names: Names, width: int, size: int, pairs: int):
        super().__init__(autocast=False)
        self.wide = [
            WeightNormConv1D(names.below(f"convs1.{i}"), width, width, size, dilation=2 * i + 1)
            for i in range(pairs)
        ]
        self.near = [
            WeightNormConv1D(names.below(f"convs2.{i}"), width, width, size)
            for i in range(pairs)
        ]
        self.built = True

    def call(self, x):
        for wide, near in zip(self.wide, self.near, strict=True):
            y = wide(tf.nn.leaky_relu(x, _SLOPE))
            x += near(tf.nn.leaky_relu(y, _SLOPE))
        return x
