"""A small speech recogniser: log-mels to letters, by convolutions and CTC.

    recogniser = Recogniser.load("recogniser/en")
    recogniser.transcribe([waveform], sample_rate=22050)  # ["the dusty bicycle ..."]

It hears less than a second around each letter and knows no words or sentences, so it cannot guess
what was mumbled. `recogniser_training` makes one from espeak-ng speech.
"""

import dataclasses
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from myxtts import UserError
from myxtts.config import AudioConfig, from_json, to_json, write_whole
from myxtts.evaluation.waveforms import log_mels, resampled
from myxtts.text.normalise import normalise

_WEIGHTS, _DESCRIPTION, _TEXTS = "recogniser.weights.h5", "recogniser.json", "texts.txt"
_BATCH = 16


@dataclasses.dataclass(frozen=True)
class RecogniserConfig:
    """The network, and the letters it writes; class 0 is CTC's blank, letter i is class i + 1."""

    language: str
    letters: str
    width: int = 192
    layers: int = 6
    kernel: int = 7
    audio: AudioConfig = AudioConfig()


def letters_of(text: str, language: str) -> str:
    """What can be heard of a text: its normal form without punctuation marks."""
    kept = (
        c if c == "'" or unicodedata.category(c)[0] in "LMN" else " "
        for c in normalise(text, language)
    )
    return re.sub(r"\s+", " ", "".join(kept)).strip()


def make_network(config: RecogniserConfig) -> keras.Model:
    """mel [B, M, mels] -> logits [B, ceil(M / 2), 1 + letters]."""
    layers = keras.layers
    mel = keras.Input((None, config.audio.n_mels), dtype="float32")
    x = layers.Rescaling(1 / 4, 1.5)(mel)  # espeak's log-mels have mean -6 and deviation 4
    x = layers.Conv1D(config.width, config.kernel, strides=2, padding="same")(x)
    for _ in range(config.layers):
        y = layers.LayerNormalization()(x)
        y = layers.Activation("gelu")(y)
        y = layers.Conv1D(config.width, config.kernel, padding="same")(y)
        y = layers.Dropout(0.1)(y)
        x = layers.Add()([x, y])
    x = layers.Activation("gelu")(layers.LayerNormalization()(x))
    return keras.Model(mel, layers.Dense(1 + len(config.letters))(x))


class Recogniser:
    """A trained network with its letters, and the texts it was trained on."""

    def __init__(self, config: RecogniserConfig, network: keras.Model, texts: Iterable[str] = ()):
        self.config, self.network = config, network
        self.texts = frozenset(texts)

    def transcribe(self, waveforms: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        """The letters heard in float waveforms of any length."""
        order = np.argsort([len(waveform) for waveform in waveforms])
        written = [""] * len(waveforms)
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            rate = self.config.audio.sample_rate
            clips = [resampled(waveforms[i], sample_rate, rate) for i in chosen]
            for i, text in zip(chosen, self._read(clips), strict=True):
                written[i] = text
        return written

    def _read(self, clips: list[np.ndarray]) -> list[str]:
        mel, mel_lengths = log_mels(clips, self.config.audio)
        logits = self.network(mel, training=False)
        (found,), _ = tf.nn.ctc_greedy_decoder(
            tf.transpose(logits, [1, 0, 2]), self.logit_lengths(mel_lengths), blank_index=0
        )
        rows = tf.sparse.to_dense(found, default_value=0).numpy()
        letters = np.array(["", *self.config.letters])
        return [" ".join("".join(letters[row]).split()) for row in rows]

    @staticmethod
    def logit_lengths(mel_lengths: tf.Tensor) -> tf.Tensor:
        return (mel_lengths + 1) // 2

    def save(self, directory: str | os.PathLike, result: dict | None = None) -> None:
        """Weights first and the description last: with it, everything is there. `result` is what
        shall be known of the training."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f"{os.getpid()}.partial.weights.h5"
        self.network.save_weights(partial)
        os.replace(partial, directory / _WEIGHTS)
        write_whole(directory / _TEXTS, "".join(f"{text}\n" for text in sorted(self.texts)))
        description = {
            "config": to_json(self.config),
            "digest": _digest(directory / _WEIGHTS),
            "result": result or {},
        }
        write_whole(
            directory / _DESCRIPTION, json.dumps(description, indent=2, ensure_ascii=False) + "\n"
        )

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Recogniser":
        directory = Path(directory)
        try:
            description = json.loads((directory / _DESCRIPTION).read_text(encoding="utf-8"))
            values, digest = description["config"], description["digest"]
            texts = (directory / _TEXTS).read_text(encoding="utf-8").splitlines()
            found = _digest(directory / _WEIGHTS)
        except FileNotFoundError as error:
            raise UserError(
                f"{error.filename} does not exist; there is no trained recogniser in {directory}"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{directory} does not hold a recogniser: {error!r}") from None
        if found != digest:
            raise UserError(
                f"{directory / _WEIGHTS} is damaged or of another training (its digest is not the "
                f"one in {_DESCRIPTION}); remove {directory} to have it trained anew"
            )
        config = from_json(RecogniserConfig, values, str(directory / _DESCRIPTION))
        network = make_network(config)
        network.load_weights(directory / _WEIGHTS)
        return cls(config, network, texts)

    @staticmethod
    def is_in(directory: str | os.PathLike) -> bool:
        return (Path(directory) / _DESCRIPTION).is_file()


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
