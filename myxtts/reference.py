"""Recordings of a voice to be cloned: read, checked, and cut to what the model was trained on."""

import os

import numpy as np
import soundfile
import tensorflow as tf
from absl import logging

from myxtts import UserError
from myxtts.config import AudioConfig
from myxtts.user_errors import need_reference

# Training crops have 3 to 6 s; less than a second does not show the voice.
_SHORTEST, _PIECE, LONGEST = 1.0, 6.0, 60.0
_SILENT_DBFS = -60.0


def read_reference(path: str | os.PathLike, audio: AudioConfig) -> np.ndarray:
    """The recording as mono float32 at the model's sample rate; UserError if it is unfit."""
    path = os.fspath(path)
    need_reference(path)
    try:
        waveform, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise unreadable(path, error) from None
    if not np.isfinite(waveform).all():
        raise UserError(f"the reference {path} holds samples that are no numbers; record it again")
    waveform = waveform.mean(1)
    check_reference(waveform, rate, path)
    if len(waveform) > LONGEST * rate:
        seconds = len(waveform) / rate
        logging.info("%s has %.0f s, its first %g s are used", path, seconds, LONGEST)
        waveform = waveform[: int(LONGEST * rate)]
    if rate != audio.sample_rate:
        import librosa

        waveform = librosa.resample(waveform, orig_sr=rate, target_sr=audio.sample_rate)
    return waveform


def unreadable(path: str | os.PathLike, error: Exception) -> UserError:
    """An error that names the readable formats; m4a, which telephones record, is not one."""
    reason = f"{error}".rstrip(". ")
    return UserError(
        f"the reference {path} cannot be read as audio ({reason}); WAV, FLAC, OGG, Opus and MP3 "
        "can, other formats such as m4a by way of: ffmpeg -i RECORDING RECORDING.wav"
    )


def check_reference(waveform: np.ndarray, rate: int, name: str) -> None:
    """Raises UserError if there is too little speech to clone the voice."""
    seconds = len(waveform) / rate
    if seconds < _SHORTEST:
        raise UserError(
            f"the reference {name} has {seconds:.2f} s; it must have at least "
            f"{_SHORTEST:g} s, best are 3 to 6 s"
        )
    peak = float(np.abs(waveform).max())
    if 20 * np.log10(max(peak, 1e-9)) < _SILENT_DBFS:
        raise UserError(
            f"the reference {name} is silent (its peak is {20 * np.log10(max(peak, 1e-9)):.0f} "
            "dBFS); give a recording in which the voice can be heard"
        )
    import librosa  # what it brings takes a second to load, and training needs none of it

    heard = librosa.effects.split(waveform, top_db=40)
    voiced = float((heard[:, 1] - heard[:, 0]).sum()) / rate
    if voiced < _SHORTEST / 2:
        raise UserError(
            f"in the reference {name} only {voiced:.2f} s of {seconds:.2f} s are not silent; "
            f"it must have at least {_SHORTEST / 2:g} s of speech"
        )


def pieces_of(waveform: tf.Tensor, audio: AudioConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """`(pieces float32 [N, T], lengths int32 [N])` of a reference [S]: equal pieces of at most
    6 s, which is the longest crop of training; T is a multiple of the hop."""
    samples = tf.shape(waveform)[0]
    longest = int(_PIECE * audio.sample_rate)
    count = (samples + longest - 1) // longest
    number = tf.range(count)
    lengths = samples // count + tf.cast(number < samples % count, tf.int32)
    starts = tf.cumsum(lengths, exclusive=True)
    size = audio.frames(lengths[0]) * audio.hop_length
    places = tf.range(size)[None]
    there = places < lengths[:, None]
    pieces = tf.gather(waveform, tf.minimum(starts[:, None] + places, samples - 1))
    return tf.where(there, pieces, 0.0), lengths
