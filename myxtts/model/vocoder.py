"""The vocoder: turns log-mels and a speaker vector into a waveform, by a network at frame rate.

    vocoder = Vocoder(VocoderConfig(), AudioConfig(), speaker_size=256)
    waveform = vocoder(mel, speaker)        # [B, F, mels], [B, S] -> [B, F * hop]

ConvNeXt blocks give every frame a short-time spectrum, and one inverse Fourier transform makes the
samples. A spectrum is the mel's magnitude, spread over the bins, times a complex factor from the
network, so even an untrained network has the right loudness.

Then the samples are corrected towards the given mel (`mel_correction`). The network is trained
through two rounds of correction; synthesis takes more, which cost little.
"""

import numpy as np
import tensorflow as tf
from keras import Model, layers

from myxtts.config import AudioConfig
from myxtts.features import mel_filters
from myxtts.model.config import VocoderConfig
from myxtts.model.mel_correction import MelCorrection

_KERNEL = 7
_CORRECTIONS_IN_TRAINING = 2
# exp(6.3) = 545 is the largest possible bin: a full-scale sine under a window of 1024.
_LOUDEST = 6.3


class ConvNeXtBlock(layers.Layer):
    """A depthwise convolution over time, then a two-layer perceptron, with a residual path around
    them."""

    def __init__(self, width: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.depthwise = layers.DepthwiseConv1D(_KERNEL, padding="same")
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.widen = layers.Dense(3 * width, activation="gelu")
        self.narrow = layers.Dense(width)
        self.width = width

    def build(self, shape):
        self.depthwise.build(shape)
        self.norm.build(shape)
        self.widen.build(shape)
        self.narrow.build((*shape[:-1], 3 * self.width))

    def call(self, x):
        return x + self.narrow(self.widen(self.norm(self.depthwise(x))))


class Vocoder(Model):
    """The vocoder; the module's docstring shows its use. A sample depends on `context_frames`
    frames to either side, so a stream may be made in pieces with that much around them."""

    def __init__(self, config: VocoderConfig, audio: AudioConfig, speaker_size: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.audio, self.speaker_size, self.n_fft = audio, speaker_size, audio.n_fft
        self.corrections = config.corrections
        self.correction = MelCorrection(audio)
        sight = (config.blocks + 1) * (_KERNEL // 2)
        self.context_frames = sight + self.correction.reach(config.corrections)
        self.embed = layers.Conv1D(config.width, _KERNEL, padding="same", name="embed")
        self.voice = layers.Dense(config.width, name="voice")
        self.norm = layers.LayerNormalization(epsilon=1e-6, name="norm")
        self.blocks = [ConvNeXtBlock(config.width, name=f"block{i}") for i in range(config.blocks)]
        self.last_norm = layers.LayerNormalization(epsilon=1e-6, name="last_norm")
        bins = audio.n_fft // 2 + 1
        self.head = layers.Dense(3 * bins, dtype="float32", name="head")
        self._magnitudes, self._magnitude_offset = _bins_of_mels(audio)
        # Phases are relative to the middle of the frame, where they change least from bin to bin.
        self._middle = np.where(np.arange(bins) % 2, -1.0, 1.0).astype(np.float32)
        self.build((None, None, audio.n_mels))

    def build(self, shape):
        width = self.embed.filters
        self.embed.build(shape)
        self.voice.build((None, self.speaker_size))
        for layer in (self.norm, *self.blocks, self.last_norm, self.head):
            layer.build((None, None, width))
        self.built = True

    def call(self, mel, speaker, training=False):
        # One frame before the mel and two after it, so that all overlapping frames exist at every
        # sample.
        mel = tf.concat([mel[:, :1], mel, mel[:, -1:], mel[:, -1:]], 1)
        samples = self.correction.samples_of(self.spectrum(mel, speaker))
        rounds = _CORRECTIONS_IN_TRAINING if training else self.corrections
        return self.within(self.correction.correct(samples, mel, rounds))

    def within(self, samples):
        """The F * hop samples of the mel, out of all samples that its F + 3 frames reach."""
        margin = self.audio.n_fft // 2 + self.audio.hop_length
        return samples[:, margin:-margin]

    def spectrum(self, mel, speaker):
        """The network's complex output [B, F, bins]."""
        x = self.embed(mel * 0.25 + 1.0)  # log-mels lie between -11.5 and 6
        x = self.norm(x + self.voice(speaker)[:, None])
        for block in self.blocks:
            x = block(x)
        louder, real, imaginary = tf.split(self.head(self.last_norm(x)), 3, -1)
        magnitude = tf.cast(mel, tf.float32) @ self._magnitudes - self._magnitude_offset + louder
        length = tf.math.rsqrt(tf.square(real) + tf.square(imaginary) + 1e-8)
        scale = tf.exp(tf.minimum(magnitude, _LOUDEST)) * length * self._middle
        return tf.complex(real * scale, imaginary * scale)


def _bins_of_mels(audio: AudioConfig) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and offset that turn log-mels into log-magnitudes, interpolated between the
    middles of mel filters, constant beyond the last."""
    filters = mel_filters(audio)
    bins, area = np.arange(len(filters)), np.maximum(filters.sum(0), 1e-9)
    middles = bins @ filters / area
    spread = np.stack([np.interp(bins, middles, row) for row in np.eye(audio.n_mels)])
    offset = np.log(area) @ spread
    return (spread / audio.power).astype(np.float32), (offset / audio.power).astype(np.float32)
