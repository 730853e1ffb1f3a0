"""The vocoder: log-mels and a speaker vector to a waveform, by a network at frame rate.

    vocoder = Vocoder(VocoderConfig(), AudioConfig(), speaker_size=256)
    waveform = vocoder(mel, speaker)        # [B, F, mels], [B, S] -> [B, F * hop]

ConvNeXt blocks give every frame a short-time spectrum, and one inverse Fourier transform makes the
samples. A spectrum starts as what the mel says of it (the magnitude, spread over the bins) times a
complex factor that the network gives: an untrained one has the right loudness already.

Frames that overlap contradict one another, so the mel of the samples is not quite the one asked
for. A correction compares the two and turns every band up or down by the difference. The network is
trained through two of them, and in use there are more, with momentum as in fast Griffin-Lim: that
costs little, and a network of two minutes of training went from 0.252 (two, without momentum) over
0.184 (8) and 0.149 (16) to 0.119 (32) of mel distance.
"""

import numpy as np
import tensorflow as tf
from keras import Model, layers

from myxtts.config import AudioConfig
from myxtts.features import mel_filters
from myxtts.model.config import VocoderConfig

_KERNEL = 7
_CORRECTIONS_IN_TRAINING = 2
_MOMENTUM = 0.5
# exp(6.3) = 545 is the largest bin there can be: a full-scale sine wave under a window of 1024.
_LOUDEST = 6.3


class ConvNeXtBlock(layers.Layer):
    """Depthwise convolution over time, then a two-layer perceptron, beside a residual path."""

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
    """See the module. `context_frames` is how far a sample's frame sees to either side: frames
    further away do not change it, so a stream may be made in pieces with that much around them."""

    def __init__(self, config: VocoderConfig, audio: AudioConfig, speaker_size: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.audio, self.speaker_size, self.n_fft = audio, speaker_size, audio.n_fft
        self.corrections, self._overlap = config.corrections, audio.n_fft // audio.hop_length
        self.context_frames = (
            (config.blocks + 1) * (_KERNEL // 2)
            + config.corrections * (self._overlap - 1)
            + self._overlap // 2
        )
        self.embed = layers.Conv1D(config.width, _KERNEL, padding="same", name="embed")
        self.voice = layers.Dense(config.width, name="voice")
        self.norm = layers.LayerNormalization(epsilon=1e-6, name="norm")
        self.blocks = [ConvNeXtBlock(config.width, name=f"block{i}") for i in range(config.blocks)]
        self.last_norm = layers.LayerNormalization(epsilon=1e-6, name="last_norm")
        bins = audio.n_fft // 2 + 1
        self.head = layers.Dense(3 * bins, dtype="float32", name="head")
        self._magnitudes, self._magnitude_offset = _bins_of_mels(audio)
        # Phases are told from the middle of the frame, where they change least from bin to bin.
        self._middle = np.where(np.arange(bins) % 2, -1.0, 1.0).astype(np.float32)
        self._window = np.hanning(audio.n_fft + 1)[:-1].astype(np.float32)
        self._filters = mel_filters(audio)
        # From a factor for each mel to one for each bin; bins that no filter hears stay.
        heard = self._filters.sum(1, keepdims=True)
        self._to_bins = (self._filters / np.maximum(heard, 1e-9)).T
        self._unheard = (1.0 - self._to_bins.sum(0)).astype(np.float32)
        self.build((None, None, audio.n_mels))

    def build(self, shape):
        width = self.embed.filters
        self.embed.build(shape)
        self.voice.build((None, self.speaker_size))
        for layer in (self.norm, *self.blocks, self.last_norm, self.head):
            layer.build((None, None, width))
        self.built = True

    def call(self, mel, speaker, training=False):
        mel = tf.concat([mel[:, :1], mel, mel[:, -1:], mel[:, -1:]], 1)
        real, imaginary = self.spectrum(mel, speaker)
        before = None
        for _ in range(_CORRECTIONS_IN_TRAINING if training else self.corrections):
            bins = self._bins(self._samples(real, imaginary), tf.shape(mel)[1])
            ahead = bins if before is None else bins + _MOMENTUM * (bins - before)
            before = bins
            real, imaginary = self._corrected(tf.math.real(ahead), tf.math.imag(ahead), mel)
        return self.waveform(real, imaginary)

    def spectrum(self, mel, speaker):
        """Real and imaginary parts [B, F, bins] as the network gives them."""
        x = self.embed(mel * 0.25 + 1.0)  # log-mels lie between -11.5 and 6
        x = self.norm(x + self.voice(speaker)[:, None])
        for block in self.blocks:
            x = block(x)
        louder, real, imaginary = tf.split(self.head(self.last_norm(x)), 3, -1)
        magnitude = tf.cast(mel, tf.float32) @ self._magnitudes - self._magnitude_offset + louder
        length = tf.math.rsqrt(tf.square(real) + tf.square(imaginary) + 1e-8)
        scale = tf.exp(tf.minimum(magnitude, _LOUDEST)) * length * self._middle
        return real * scale, imaginary * scale

    def waveform(self, real, imaginary):
        """The inverse transform of F + 3 frames: the first is centred a hop before the first
        sample and the last a hop behind the last one, so that at every sample of the F * hop all
        the frames are there that overlap."""
        hop = self.audio.hop_length
        begin = self.audio.n_fft // 2 + hop
        frames = tf.shape(real)[1] - self._overlap + 1
        return self._samples(real, imaginary)[:, begin : begin + frames * hop]

    def _samples(self, real, imaginary):
        """All samples that the frames reach; at the ends, where fewer overlap, just as loud."""
        hop, n_fft = self.audio.hop_length, self.audio.n_fft
        pieces = tf.signal.irfft(tf.complex(real, imaginary), [n_fft]) * self._window
        weights = tf.tile(tf.square(self._window)[None], [tf.shape(real)[1], 1])
        weight = tf.signal.overlap_and_add(weights, hop)
        return tf.signal.overlap_and_add(pieces, hop) / tf.maximum(weight, 0.05)

    def _bins(self, samples, frames):
        rows = tf.reshape(samples, [tf.shape(samples)[0], -1, self.audio.hop_length])
        pieces = tf.concat([rows[:, i : i + frames] for i in range(self._overlap)], -1)
        return tf.signal.rfft(pieces * self._window)

    def _corrected(self, real, imaginary, mel):
        """The spectrum with its bands as loud as the mel says."""
        power = tf.square(real) + tf.square(imaginary)
        squared = self.audio.power == 2.0
        found = tf.matmul(power if squared else tf.sqrt(power + 1e-9), self._filters)
        factor = tf.exp(tf.cast(mel, tf.float32)) / tf.maximum(found, self.audio.log_floor)
        factor = tf.matmul(tf.clip_by_value(factor, 1 / 16, 16.0), self._to_bins) + self._unheard
        factor = tf.sqrt(factor) if squared else factor
        return real * factor, imaginary * factor


def _bins_of_mels(audio: AudioConfig) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and offset that make log-magnitudes of log-mels: between the middles of two mel
    filters it is interpolated, beyond the last one it stays."""
    filters = mel_filters(audio)
    bins, area = np.arange(len(filters)), np.maximum(filters.sum(0), 1e-9)
    middles = bins @ filters / area
    spread = np.stack([np.interp(bins, middles, row) for row in np.eye(audio.n_mels)])
    offset = np.log(area) @ spread
    return (spread / audio.power).astype(np.float32), (offset / audio.power).astype(np.float32)
