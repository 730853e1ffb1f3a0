"""A small speech recogniser: log-mels to letters, by convolutions and CTC.

    recogniser = trained_recogniser("recogniser", "en")
    recogniser.transcribe([waveform], sample_rate=22050)  # ["the dusty bicycle ..."]

It sees less than a second around each letter and knows no words or sentences, so it cannot guess
mumbled words. The first call trains it, which takes a quarter of an hour on one core, and keeps
it in recogniser/en. Its training texts are kept with it, so that no evaluation uses them.
"""

import dataclasses
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from myxtts.config import AudioConfig, BatchConfig, from_json, to_json
from myxtts.corpus.embedded import EmbeddedConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.evaluation.distances import edits
from myxtts.evaluation.learning import (
    Lesson,
    description_in,
    divided,
    give_weights,
    is_taught,
    learn,
    mels_of,
    taught,
)
from myxtts.evaluation.roughening import Roughening
from myxtts.evaluation.sentences import read
from myxtts.evaluation.waveforms import griffin_lim_waveforms, log_mels, resampled
from myxtts.text.normalise import normalise

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


def lesson_in(language: str) -> Lesson:
    speech = EmbeddedConfig(100.0, 40, (language,), seed=910_001, first_voice=200)
    return Lesson(speech, steps=3500)


def letters_of(text: str, language: str) -> str:
    """The letters of a text that can be heard: its normal form without punctuation."""
    kept = (
        c if c == "'" or unicodedata.category(c)[0] in "LMN" else " "
        for c in normalise(text, language)
    )
    return re.sub(r"\s+", " ", "".join(kept)).strip()


def make_network(config: RecogniserConfig) -> keras.Model:
    """mel [B, M, mels] -> logits [B, ceil(M / 2), 1 + letters]."""
    layers = keras.layers
    mel = keras.Input((None, config.audio.n_mels), dtype="float32")
    x = layers.Rescaling(1 / 4, 1.5)(mel)  # log-mels of speech have mean -6 and deviation 4
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
    """A network with its letters; `texts` are those it was trained on."""

    def __init__(self, config: RecogniserConfig, network: keras.Model, texts: Iterable[str] = ()):
        self.config, self.network = config, network
        self.texts = frozenset(texts)

    def transcribe(self, waveforms: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        """The letters heard in float waveforms of any length."""
        rate = self.config.audio.sample_rate
        order = np.argsort([len(waveform) for waveform in waveforms])
        written = [""] * len(waveforms)
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            clips = [resampled(waveforms[i], sample_rate, rate) for i in chosen]
            for i, text in zip(chosen, self._read(clips), strict=True):
                written[i] = text
        return written

    def mistakes(
        self, waveforms: Sequence[np.ndarray], sample_rate: int, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(edits, letters) of each clip, between the text heard and the text spoken. The character
        error is the sum of edits over the sum of letters."""
        wanted = [letters_of(text, self.config.language) for text in texts]
        heard = self.transcribe(waveforms, sample_rate)
        return (
            np.array([edits(found, text) for found, text in zip(heard, wanted, strict=True)]),
            np.array([len(text) for text in wanted]),
        )

    def _read(self, clips: list[np.ndarray]) -> list[str]:
        mel, mel_lengths = log_mels(clips, self.config.audio)
        # Silence as far as a letter's context reaches, so that the result does not depend on the
        # batch. An even number of frames, as in training, because the stride's padding shifts by a
        # frame between even and odd.
        silence = (2 * self.config.layers + 1) * self.config.kernel
        silence += (mel.shape[1] + silence) % 2
        floor = float(np.log(self.config.audio.log_floor))
        mel = tf.pad(mel, [[0, 0], [0, silence], [0, 0]], constant_values=floor)
        (found,), _ = tf.nn.ctc_greedy_decoder(
            tf.transpose(self.network(mel, training=False), [1, 0, 2]),
            _logit_lengths(mel_lengths),
            blank_index=0,
        )
        rows = tf.sparse.to_dense(found, default_value=0).numpy()
        letters = np.array(["", *self.config.letters])
        return [" ".join("".join(letters[row]).split()) for row in rows]


def trained_recogniser(
    directory: str | os.PathLike, language: str, lesson: Lesson | None = None
) -> Recogniser:
    """The recogniser in `directory/language`; if there is none, it is trained first."""
    place = Path(directory) / language
    if not is_taught(place):
        lesson = lesson or lesson_in(language)
        taught(place, lesson, lambda corpus: _teach(corpus, language, lesson))
    description = description_in(place)
    config = from_json(RecogniserConfig, description["config"], str(place))
    network = make_network(config)
    give_weights(place, {"recogniser": network})
    return Recogniser(config, network, description["texts"])


def _teach(corpus: Corpus, language: str, lesson: Lesson) -> tuple[dict, dict]:
    corpus, held_out = divided(corpus, lesson)
    texts = [letters_of(text, language) for text in corpus.texts]
    config = RecogniserConfig(language, "".join(sorted(set("".join(texts)))))
    network = make_network(config)

    def loss_of(mel, mel_lengths, labels, label_lengths, seed):
        rows = tf.SparseTensor(
            tf.where(tf.sequence_mask(label_lengths)),
            labels,
            tf.cast([tf.shape(label_lengths)[0], tf.reduce_max(label_lengths)], tf.int64),
        )
        logits = tf.transpose(network(Roughening()(mel, seed), training=True), [1, 0, 2])
        lengths = _logit_lengths(mel_lengths)
        losses = tf.nn.ctc_loss(rows, logits, None, lengths, blank_index=0)
        return tf.reduce_mean(losses / tf.cast(label_lengths, tf.float32))

    loss = learn(network, loss_of, _batches(config, corpus, texts, lesson), lesson)
    recogniser = Recogniser(config, network)
    clips = [read(path)[0] for path in held_out.paths]
    rebuilt = griffin_lim_waveforms(*log_mels(clips, config.audio), config.audio)
    rate = config.audio.sample_rate
    description = {
        "config": to_json(config),
        "texts": sorted(corpus.texts),
        "loss": loss,
        "held_out_clips": len(held_out),
    }
    for name, heard in (("character_error", clips), ("character_error_griffin_lim", rebuilt)):
        wrong, letters = recogniser.mistakes(heard, rate, held_out.texts)
        description[name] = float(wrong.sum() / letters.sum())
    logging.info(
        "the recogniser is trained: character error %.3f on %d held-out clips, %.3f on what "
        "Griffin-Lim makes of them",
        description["character_error"],
        len(held_out),
        description["character_error_griffin_lim"],
    )
    return description, {"recogniser": network}


def _batches(
    config: RecogniserConfig, corpus: Corpus, texts: list[str], lesson: Lesson
) -> Iterator[tuple[np.ndarray, ...]]:
    """An endless stream of (mel, mel_lengths, all labels in one row, label_lengths)."""
    audio = config.audio
    classes = {letter: i + 1 for i, letter in enumerate(config.letters)}
    labels = [np.array([classes[letter] for letter in text], np.int32) for text in texts]
    mels = mels_of(corpus, audio, lesson.griffin_lim_share)
    settings = BatchConfig(lesson.batch_size, seed=lesson.speech.seed)
    plan = BatchPlan(
        corpus.samples,
        speaker_ids=corpus.speaker_ids,
        language_ids=corpus.language_ids,
        config=settings,
        audio=audio,
    )

    def endless():
        epoch = 0
        while True:
            this = plan.epoch(epoch)
            for clips, bucket in zip(this.clips, this.bucket, strict=True):
                shape = [len(clips), plan.bucket_frames[bucket], audio.n_mels]
                mel = np.full(shape, np.log(audio.log_floor), np.float32)
                for row, clip in zip(mel, clips, strict=True):
                    row[: len(mels[clip])] = mels[clip]
                yield (
                    mel,
                    np.array([len(mels[clip]) for clip in clips], np.int32),
                    np.concatenate([labels[clip] for clip in clips]),
                    np.array([len(labels[clip]) for clip in clips], np.int32),
                )
            epoch += 1

    return endless()


def _logit_lengths(mel_lengths: tf.Tensor) -> tf.Tensor:
    return (mel_lengths + 1) // 2
