"""Discriminators: two families of networks that tell recorded speech from the vocoder's.

    discriminators = Discriminators(VocoderConfig())
    scores, features = discriminators(waveform)      # [B, T] -> list, list of lists

One family folds the waveform at prime periods (as HiFi-GAN's), the other looks at spectrograms of
several resolutions, which see the phase errors of an inverse transform better than pooled
waveforms do. `vocoder_losses` takes their scores.
"""

import tensorflow as tf
from keras import Model, layers

from myxtts.model.config import VocoderConfig


class Discriminators(Model):
    """All discriminators together. Each gives a map of scores, and the feature maps that led to
    it."""

    def __init__(self, config: VocoderConfig, **kwargs):
        super().__init__(autocast=False, **kwargs)
        width = config.discriminator_width
        self.members = [
            *(
                PeriodDiscriminator(period, width, name=f"of{period}")
                for period in config.discriminator_periods
            ),
            *(
                SpectrogramDiscriminator(frame, frame // 4, width, name=f"at{frame}")
                for frame in config.discriminator_frames
            ),
        ]
        self.build((None, None))

    def build(self, shape):
        for member in self.members:
            member.build(shape)
        self.built = True

    def call(self, waveform, training=False):
        answers = [member(waveform) for member in self.members]
        return [score for score, _ in answers], [features for _, features in answers]


class _Stack(layers.Layer):
    """Convolutions over [B, time, place, channels]; their outputs are the features."""

    def __init__(self, convolutions, score, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.convolutions, self.score = convolutions, score

    def build(self, shape):
        channels = 1
        for convolution in [*self.convolutions, self.score]:
            convolution.build((None, None, None, channels))
            channels = convolution.filters

    def judge(self, x):
        features = []
        for convolution in self.convolutions:
            x = tf.nn.leaky_relu(convolution(x), 0.1)
            features.append(x)
        return self.score(x), features


class PeriodDiscriminator(_Stack):
    """Sees every `period`-th sample as a row of its own."""

    def __init__(self, period: int, width: int, **kwargs):
        strides = (3, 3, 3, 1)
        convolutions = [
            layers.Conv2D(width * 2**i, (5, 1), (stride, 1), padding="same", name=f"conv{i}")
            for i, stride in enumerate(strides)
        ]
        score = layers.Conv2D(1, (3, 1), padding="same", dtype="float32", name="score")
        super().__init__(convolutions, score, **kwargs)
        self.period = period

    def call(self, waveform):
        rest = -tf.shape(waveform)[1] % self.period
        rows = tf.reshape(
            tf.pad(waveform, [[0, 0], [0, rest]]), [tf.shape(waveform)[0], -1, self.period, 1]
        )
        return self.judge(rows)


class SpectrogramDiscriminator(_Stack):
    """Sees magnitudes, compressed so that quiet bins count as well."""

    def __init__(self, n_fft: int, hop: int, width: int, **kwargs):
        strides = (1, 2, 2, 2)
        convolutions = [
            layers.Conv2D(width, (3, 9 if i else 5), (1, s), padding="same", name=f"conv{i}")
            for i, s in enumerate(strides)
        ]
        score = layers.Conv2D(1, 3, padding="same", dtype="float32", name="score")
        super().__init__(convolutions, score, **kwargs)
        self.n_fft, self.hop = n_fft, hop

    def call(self, waveform):
        bins = tf.signal.stft(tf.cast(waveform, tf.float32), self.n_fft, self.hop)
        power = tf.square(tf.math.real(bins)) + tf.square(tf.math.imag(bins))
        return self.judge(tf.pow(power + 1e-6, 0.15)[..., None])
