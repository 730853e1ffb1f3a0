"""Griffin-Lim: makes a waveform from log-mels without training, for comparison and as a fallback.

    waveform = griffin_lim(mel, audio)       # [B, F, mels] or [F, mels] -> [..., F * hop]

Everything is a TensorFlow op with a GPU kernel, and works in a tf.function.
"""

import functools

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import mel_filters


def griffin_lim(
    mel: tf.Tensor, audio: AudioConfig, iterations: int = 60, momentum: float = 0.99
) -> tf.Tensor:
    """A waveform whose mels are close to these; deterministic. With `momentum` it is the fast
    variant (Perraudin and others, 2013), which gets closer in the same number of rounds."""
    mel = tf.convert_to_tensor(mel, tf.float32)
    if mel.shape.rank == 2:
        return griffin_lim(mel[None], audio, iterations, momentum)[0]
    return _traced(audio, iterations, momentum)(mel)


@functools.lru_cache
def _traced(audio: AudioConfig, iterations: int, momentum: float):
    """One trace for all mels: eager rounds take milliseconds of Python each."""
    return tf.function(
        lambda mel: _waveform(mel, audio, iterations, momentum),
        input_signature=[tf.TensorSpec([None, None, audio.n_mels])],
        autograph=False,
    )


def _waveform(mel, audio, iterations, momentum):
    hop, n_fft = audio.hop_length, audio.n_fft
    frames = tf.shape(mel)[1]
    silence = tf.fill(
        [tf.shape(mel)[0], n_fft // hop, audio.n_mels], tf.math.log(tf.constant(audio.log_floor))
    )
    # Silent frames around the clip, so that all its frames lie within the waveform.
    magnitude = tf.cast(magnitudes(tf.concat([silence, mel, silence], 1), audio), tf.complex64)
    window = tf.signal.inverse_stft_window_fn(hop)

    def to_waveform(spectrum):
        return tf.signal.inverse_stft(
            spectrum, frame_length=n_fft, frame_step=hop, fft_length=n_fft, window_fn=window
        )

    def to_spectrum(waveform):
        return tf.signal.stft(waveform, n_fft, hop, n_fft)

    angle = tf.random.stateless_uniform(tf.shape(magnitude), [5, 3], 0.0, 2 * np.pi)
    direction = tf.complex(tf.cos(angle), tf.sin(angle))

    def one(direction, before):
        rebuilt = to_spectrum(to_waveform(magnitude * direction))
        ahead = rebuilt + momentum * (rebuilt - before)
        return ahead / tf.cast(tf.maximum(tf.abs(ahead), 1e-8), tf.complex64), rebuilt

    direction, _ = tf.while_loop(
        lambda *_: True,
        one,
        (direction, tf.zeros_like(direction)),
        shape_invariants=(tf.TensorShape([None] * 3),) * 2,
        maximum_iterations=iterations,
    )
    begin = n_fft // hop * hop + n_fft // 2
    return to_waveform(magnitude * direction)[:, begin : begin + frames * hop]


def magnitudes(mel: tf.Tensor, audio: AudioConfig, rounds: int = 30) -> tf.Tensor:
    """Non-negative magnitudes [..., bins] whose mels are the given ones.

    Multiplicative updates for the Kullback-Leibler divergence (Lee and Seung), which weighs
    relative errors, as the logarithm does. Least squares neglects quiet bands: Griffin-Lim's mel
    distance is then 0.254 instead of 0.207; librosa, which uses least squares, has 0.466.
    """
    filters = mel_filters(audio)
    to_bins = filters.T / np.maximum(filters.sum(1), 1e-9)
    # The start is each mel's energy spread evenly over its filter's bins.
    spread = (filters / np.maximum(filters.sum(0), 1e-12) ** 2).T
    mel = tf.exp(mel)
    estimate = tf.matmul(mel, spread) + 1e-10
    for _ in range(rounds):
        estimate *= tf.matmul(mel / (tf.matmul(estimate, filters) + 1e-12), to_bins)
    return estimate if audio.power == 1.0 else tf.sqrt(estimate)
