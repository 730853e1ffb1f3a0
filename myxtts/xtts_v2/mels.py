"""The three mel spectrograms of XTTS v2, as torchaudio computes them.

| for | rate | bands | transform | window | hop |
|---|---|---|---|---|---|
| the DVAE | 22,050 | 80 | 1,024 | Hann 1,024 | 256 |
| the conditioning | 22,050 | 80 | 2,048 | Hann 1,024 in the middle | 256 |
| the speaker encoder | 16,000 | 64 | 512 | Hamming 400 in the middle | 160 |

A clip is extended at both ends by its mirror image. Frame t is centred on sample t * hop, so there
are 1 + T // hop frames. All mel scales are HTK's.
"""

import functools

import numpy as np
import tensorflow as tf

RATE, SPEAKER_RATE = 22050, 16000
HOP = 256
DVAE_FFT, CONDITIONING_FFT = 1024, 2048


def log_mel(waveform: tf.Tensor, mel_stats: np.ndarray | tf.Tensor, n_fft: int) -> tf.Tensor:
    """The log-mels of waveforms [B, T] at 22,050 Hz, divided by `mel_stats`.

    Returns float32 [B, 1 + T // 256, 80]. `n_fft` is DVAE_FFT or CONDITIONING_FFT.
    """
    window = np.hanning(1024 + 1)[:-1]
    filters = _filters(RATE, n_fft, len(mel_stats), "slaney")
    mel = _power_mel(waveform, filters=filters, n_fft=n_fft, hop=HOP, window=window)
    return tf.math.log(tf.maximum(mel, 1e-5)) / mel_stats


def speaker_mel(waveform: tf.Tensor) -> tf.Tensor:
    """The power mels of waveforms [B, T] at 16,000 Hz after pre-emphasis, without a logarithm.

    Returns float32 [B, 1 + T // 160, 64].
    """
    before = tf.concat([waveform[:, 1:2], waveform[:, :-1]], 1)
    waveform = waveform - np.float32(SPEAKER_PRE_EMPHASIS) * before
    return _power_mel(
        waveform, filters=speaker_filters(), n_fft=512, hop=160, window=SPEAKER_WINDOW
    )


@functools.cache
def _filters(rate: int, n_fft: int, bands: int, norm: str | None) -> np.ndarray:
    """[n_fft / 2 + 1, bands]"""
    import librosa  # loads a compiler (numba); training one's own networks does not need it

    made = librosa.filters.mel(
        sr=rate, n_fft=n_fft, n_mels=bands, fmin=0, fmax=8000, htk=True, norm=norm, dtype=np.float64
    )
    return made.T


SPEAKER_PRE_EMPHASIS = 0.97
SPEAKER_WINDOW = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 400)


def speaker_filters() -> np.ndarray:
    return _filters(SPEAKER_RATE, 512, 64, None)


def _power_mel(waveform, *, filters, n_fft, hop, window):
    # In float64: the rounding noise of a transform in float32 is 130 dB below the loudest bin,
    # enough to change quiet mels next to a loud one.
    heard = int(np.flatnonzero(filters.any(1))[-1]) + 1
    # The window's zeros at both sides are left out of the frames.
    margin = (n_fft - len(window)) // 2
    edge = n_fft // 2
    waveform = tf.pad(tf.cast(waveform, tf.float64), [[0, 0], [edge, edge]], "REFLECT")
    frames = tf.signal.frame(waveform[:, margin : tf.shape(waveform)[1] - margin], len(window), hop)
    bins = tf.signal.rfft(frames * window, [n_fft])[..., :heard]
    power = tf.square(tf.math.real(bins)) + tf.square(tf.math.imag(bins))
    return tf.cast(tf.matmul(power, filters[:heard]), tf.float32)
