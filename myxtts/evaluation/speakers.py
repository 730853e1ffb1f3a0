"""Judges whose voice it is, by a speaker encoder that was trained on other voices.

    judge = trained_voice_judge("recogniser")
    vectors = judge.vectors([waveform, ...], sample_rate)   # unit vectors [clips, size]
    others_beaten(vectors, references, own=[0, ...])

The network's class is that of a run's own encoder (`model.speaker`), but this one is trained
separately, on 80 espeak-ng voices in all languages that neither training corpora nor evaluations
use.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import logging

from myxtts.config import AudioConfig, from_json, to_json
from myxtts.corpus.embedded import EmbeddedConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.sentences import LANGUAGES
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
from myxtts.evaluation.waveforms import log_mels, resampled
from myxtts.model.config import SpeakerConfig
from myxtts.model.speaker import SpeakerEncoder, speaker_loss

_FRAMES = 128  # 1.5 s of each clip in training
_BATCH = 16


def voice_lesson() -> Lesson:
    speech = EmbeddedConfig(60.0, 80, LANGUAGES, seed=930_001, first_voice=300)
    return Lesson(speech, steps=1500, batch_size=32, held_out=0.1)


class VoiceJudge:
    """Maps speech to vectors: clips of one voice are close together."""

    def __init__(self, network: SpeakerEncoder, audio: AudioConfig):
        self._network, self._audio = network, audio

    def vectors(self, waveforms: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
        """float32 unit vectors [clips, size] of float waveforms."""
        rate = self._audio.sample_rate
        clips = [resampled(waveform, sample_rate, rate) for waveform in waveforms]
        parts = [
            self._network(*log_mels(clips[start : start + _BATCH], self._audio)).numpy()
            for start in range(0, len(clips), _BATCH)
        ]
        return np.concatenate(parts)


def others_beaten(vectors: np.ndarray, references: np.ndarray, own: Sequence[int]) -> np.ndarray:
    """For every vector, how many of the other references it is further from than from its own,
    which is row `own[i]` of `references [voices, size]`."""
    likeness = vectors @ references.T
    mine = likeness[np.arange(len(own)), own][:, None]
    return (likeness < mine).sum(1)


def trained_voice_judge(directory: str | os.PathLike, lesson: Lesson | None = None) -> VoiceJudge:
    """The judge in `directory/speakers`; if there is none, it is trained first."""
    place = Path(directory) / "speakers"
    if not is_taught(place):
        taken = lesson or voice_lesson()
        taught(place, taken, lambda corpus: _teach(corpus, taken))
    description = description_in(place)
    config = from_json(SpeakerConfig, description["config"], str(place))
    audio = from_json(AudioConfig, description["audio"], str(place))
    network = SpeakerEncoder(config, audio.n_mels)
    give_weights(place, {"speaker": network})
    return VoiceJudge(network, audio)


def _teach(corpus: Corpus, taken: Lesson) -> tuple[dict, dict]:
    corpus, held_out = divided(corpus, taken)
    config, audio = SpeakerConfig(width=128, blocks=4, size=128), AudioConfig()
    network = SpeakerEncoder(config, audio.n_mels)
    roughen = Roughening()

    def loss_of(clips, clip_lengths, others, other_lengths, speakers, seed):
        seeds = tf.unstack(tf.random.split(seed, 2))
        return speaker_loss(
            network(roughen(clips, seeds[0]), clip_lengths, training=True),
            network(roughen(others, seeds[1]), other_lengths, training=True),
            speakers,
        )

    loss = learn(network, loss_of, _batches(corpus, audio, taken), taken)
    judge = VoiceJudge(network, audio)
    found = judge.vectors([read(path)[0] for path in held_out.paths], audio.sample_rate)
    chosen = [int(np.flatnonzero(corpus.speaker_ids == i)[0]) for i in range(len(corpus.speakers))]
    references = judge.vectors([read(corpus.paths[i])[0] for i in chosen], audio.sample_rate)
    others = others_beaten(found, references, held_out.speaker_ids)
    right = float((others == len(references) - 1).mean())
    logging.info(
        "the voice judge is trained: of %d held-out clips %.1f %% are nearest to their own voice "
        "among %d",
        len(held_out),
        100 * right,
        len(references),
    )
    description = {
        "config": to_json(config),
        "audio": to_json(audio),
        "loss": loss,
        "held_out_clips": len(held_out),
        "nearest_to_own_voice": right,
    }
    return description, {"speaker": network}


def _batches(corpus: Corpus, audio: AudioConfig, taken: Lesson) -> Iterator[tuple]:
    """An endless stream of segments: from two clips of each of `batch_size` voices."""
    mels = mels_of(corpus, audio, taken.griffin_lim_share)
    clips_of = [np.flatnonzero(corpus.speaker_ids == i) for i in range(len(corpus.speakers))]
    chance = np.random.Generator(np.random.Philox(taken.speech.seed))

    def stretches(chosen):
        rows = np.full([len(chosen), _FRAMES, audio.n_mels], np.log(audio.log_floor), np.float32)
        lengths = np.array([min(len(mels[clip]), _FRAMES) for clip in chosen], np.int32)
        for row, clip, length in zip(rows, chosen, lengths, strict=True):
            start = chance.integers(len(mels[clip]) - length + 1)
            row[:length] = mels[clip][start : start + length]
        return rows, lengths

    def endless():
        while True:
            size = min(taken.batch_size, len(clips_of))
            speakers = chance.permutation(len(clips_of))[:size]
            drawn = [chance.choice(clips_of[i], 2, replace=len(clips_of[i]) < 2) for i in speakers]
            first, second = np.array(drawn).T
            yield (*stretches(first), *stretches(second), speakers.astype(np.int32))

    return endless()
