"""Brings the log-mel of a waveform nearer to a given one, round by round, without weights.

Overlapping frames contradict one another, so samples made from them do not quite have the given
mel. Each round transforms the samples, compares the mels, and turns every band of every frame up or
down by the difference. Phases are kept and become more consistent each time. This is Griffin-Lim
for mels: it fixes the mels instead of the magnitudes.
"""

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import mel_filters

# A round starts from an extrapolated spectrum; 0.5 and 0.99 are worse.
_MOMENTUM = 0.7
# More rounds than in training are a loop in a graph: each one traced takes a tenth of a second.
_UNROLLED = 4


class MelCorrection:
    """Corrects samples with `correct(samples, mel, rounds)`; `samples_of` and `bins_of` are its
    transforms.

    The samples are all that F frames reach: [B, (F - 1) * hop + n_fft].
    """

    def __init__(self, audio: AudioConfig):
        self.audio = audio
        self.overlap = audio.n_fft // audio.hop_length  # frames at every sample
        self._window = np.hanning(audio.n_fft + 1)[:-1].astype(np.float32)
        self._filters = mel_filters(audio)
        # From a factor for each mel to one for each bin; bins outside all filters keep their value.
        heard = self._filters.sum(1, keepdims=True)
        self._to_bins = (self._filters / np.maximum(heard, 1e-9)).T
        self._unheard = (1.0 - self._to_bins.sum(0)).astype(np.float32)

    def reach(self, rounds: int) -> int:
        """How many frames to either side can change a sample of this frame."""
        return self.overlap // 2 + rounds * (self.overlap - 1)

    def samples_of(self, spectrum: tf.Tensor) -> tf.Tensor:
        """The samples of complex [B, F, bins], as loud at the ends, where fewer frames overlap."""
        return self._joined(spectrum, self._weight(tf.shape(spectrum)[1]))

    def _weight(self, frames: tf.Tensor) -> tf.Tensor:
        """What every sample that `frames` frames reach is divided by when they are added up."""
        weights = tf.tile(tf.square(self._window)[None], [frames, 1])
        return tf.maximum(tf.signal.overlap_and_add(weights, self.audio.hop_length), 0.05)

    def _joined(self, spectrum: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        pieces = tf.signal.irfft(spectrum, [self.audio.n_fft]) * self._window
        return tf.signal.overlap_and_add(pieces, self.audio.hop_length) / weight

    def bins_of(self, samples: tf.Tensor) -> tf.Tensor:
        """The complex spectrum [B, F, bins] of all frames that lie within the samples."""
        # A frame is a few consecutive rows of this; tf.signal.frame would gather sample by sample.
        rows = tf.reshape(samples, [tf.shape(samples)[0], -1, self.audio.hop_length])
        count = tf.shape(rows)[1] - (self.overlap - 1)
        pieces = tf.concat([rows[:, i : i + count] for i in range(self.overlap)], -1)
        return tf.signal.rfft(pieces * self._window)

    def correct(self, samples: tf.Tensor, mel: tf.Tensor, rounds: int) -> tf.Tensor:
        """The samples after `rounds` rounds towards the log-mel [B, F, mels]."""
        wanted = tf.exp(tf.cast(mel, tf.float32))
        weight = self._weight(tf.shape(mel)[1])

        def one(samples, before=None):
            bins = self.bins_of(samples)
            ahead = bins if before is None else bins + _MOMENTUM * (bins - before)
            return self._joined(self._corrected(ahead, wanted), weight), bins

        if not rounds:
            return samples
        shape = samples.shape
        samples, bins = one(samples)
        if rounds <= _UNROLLED:
            for _ in range(rounds - 1):
                samples, bins = one(samples, bins)
        else:
            samples, bins = tf.while_loop(
                lambda *_: True,
                one,
                (samples, bins),
                shape_invariants=(tf.TensorShape([None] * 2), tf.TensorShape([None] * 3)),
                maximum_iterations=rounds - 1,
                parallel_iterations=1,
            )
        samples.set_shape(shape)
        return samples

    def _corrected(self, bins, wanted):
        real, imaginary = tf.math.real(bins), tf.math.imag(bins)
        power = tf.square(real) + tf.square(imaginary)
        squared = self.audio.power == 2.0
        found = tf.matmul(power if squared else tf.sqrt(power + 1e-9), self._filters)
        # Sound below the floor is inaudible, so it is not turned up.
        missing = wanted / tf.maximum(found, self.audio.log_floor)
        factors = tf.matmul(tf.clip_by_value(missing, 1 / 16, 16.0), self._to_bins) + self._unheard
        factors = tf.sqrt(factors) if squared else factors
        return tf.complex(real * factors, imaginary * factors)
