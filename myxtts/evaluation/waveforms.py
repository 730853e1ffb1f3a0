"""Turns waveforms of different lengths into padded batches of log-mels, and back by Griffin-Lim."""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import make_log_mel
from myxtts.model.griffin_lim import griffin_lim


def resampled(waveform: np.ndarray, sample_rate: int, wanted: int) -> np.ndarray:
    waveform = np.asarray(waveform, np.float32)
    if sample_rate == wanted or not len(waveform):
        return waveform
    import librosa

    return librosa.resample(waveform, orig_sr=sample_rate, target_sr=wanted)


def log_mels(waveforms: Sequence[np.ndarray], audio: AudioConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """`(mel [B, M, mels], mel_lengths [B])` of float waveforms at the settings' sample rate."""
    lengths = np.array([len(waveform) for waveform in waveforms], np.int32)
    frames = max(1, audio.frames(int(lengths.max())))
    batch = np.zeros([len(waveforms), frames * audio.hop_length], np.float32)
    for row, waveform in zip(batch, waveforms, strict=True):
        row[: len(waveform)] = waveform
    return _log_mel(audio)(tf.constant(batch), tf.constant(lengths))


def griffin_lim_waveforms(
    mel: tf.Tensor, mel_lengths: tf.Tensor, audio: AudioConfig
) -> list[np.ndarray]:
    """Waveforms that Griffin-Lim makes from a padded batch of log-mels."""
    return cut(griffin_lim(mel, audio), mel_lengths, audio)


def cut(waveforms: tf.Tensor, mel_lengths: tf.Tensor, audio: AudioConfig) -> list[np.ndarray]:
    """The rows of [B, F * hop], each cut to its length."""
    samples = np.asarray(mel_lengths) * audio.hop_length
    return [row[:n] for row, n in zip(np.asarray(waveforms), samples, strict=True)]


@functools.lru_cache
def _log_mel(audio: AudioConfig):
    return tf.function(make_log_mel(audio), reduce_retracing=True, autograph=False)
