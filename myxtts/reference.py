"""Recordings of a voice to be cloned: read, checked, and cut to what the model was trained on."""

import os
from collections.abc import Sequence

import librosa
import numpy as np
import soundfile
from absl import logging

from myxtts import UserError
from myxtts.config import AudioConfig

# Training crops have 3 to 6 s; of less than a second the voice cannot be told.
_SHORTEST, _PIECE, _LONGEST = 1.0, 6.0, 60.0
_SILENT_DBFS = -60.0


def read_reference(path: str | os.PathLike, audio: AudioConfig) -> np.ndarray:
    """The recording as mono float32 at the model's sample rate; UserError where it is unfit."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise UserError(f"the reference {path} does not exist; give an audio file of the voice")
    try:
        waveform, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise UserError(f"the reference {path} cannot be read as audio: {error}") from None
    if not np.isfinite(waveform).all():
        raise UserError(f"the reference {path} holds samples that are no numbers; record it again")
    waveform = waveform.mean(1)
    check_reference(waveform, rate, path)
    if rate != audio.sample_rate:
        waveform = librosa.resample(waveform, orig_sr=rate, target_sr=audio.sample_rate)
    return waveform


def check_reference(waveform: np.ndarray, rate: int, name: str) -> None:
    """UserError where there is too little of the voice to clone it."""
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
    heard = librosa.effects.split(waveform, top_db=40)
    voiced = float((heard[:, 1] - heard[:, 0]).sum()) / rate
    if voiced < _SHORTEST / 2:
        raise UserError(
            f"in the reference {name} only {voiced:.2f} s of {seconds:.2f} s are not silent; "
            f"it must have at least {_SHORTEST / 2:g} s of speech"
        )


def pieces_of(waveforms: Sequence[np.ndarray], audio: AudioConfig) -> tuple[np.ndarray, np.ndarray]:
    """`(pieces float32 [N, T], lengths int32 [N])`: every reference in equal pieces of at most
    6 s, as long as the longest crops of training; of one reference at most a minute is used."""
    pieces = []
    for waveform in waveforms:
        most = int(_LONGEST * audio.sample_rate)
        if len(waveform) > most:
            logging.info(
                "a reference has %.0f s, its first %g s are used",
                len(waveform) / audio.sample_rate,
                _LONGEST,
            )
            waveform = waveform[:most]
        pieces += np.array_split(waveform, -(-len(waveform) // int(_PIECE * audio.sample_rate)))
    lengths = np.array([len(piece) for piece in pieces], np.int32)
    hop = audio.hop_length
    batch = np.zeros([len(pieces), -(-int(lengths.max()) // hop) * hop], np.float32)
    for row, piece in zip(batch, pieces, strict=True):
        row[: len(piece)] = piece
    return batch, lengths
