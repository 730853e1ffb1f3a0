"""Trains a `Recogniser` on espeak-ng speech that no training of a voice uses.

    recogniser = trained_recogniser("recogniser", "en")

loads the one in recogniser/en, or makes it first (in a quarter of an hour on one core) and keeps
it there. Its voices and its seed are far from those that corpora for training are made with, and
the texts it was trained on are kept beside it, so that an evaluation can leave them out.
"""

import dataclasses
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import soundfile
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from myxtts import UserError
from myxtts.config import AudioConfig, BatchConfig
from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.prepare import Source, prepare
from myxtts.evaluation.distances import character_error
from myxtts.evaluation.recogniser import Recogniser, RecogniserConfig, letters_of, make_network
from myxtts.evaluation.roughening import Roughening
from myxtts.evaluation.waveforms import griffin_lim_waveforms, log_mels


@dataclasses.dataclass(frozen=True)
class RecogniserTraining:
    """How a recogniser is trained."""

    minutes: float = 100.0
    voices: int = 40
    seed: int = 910_001
    first_voice: int = 200
    held_out: float = 0.03
    griffin_lim_share: float = 0.25
    steps: int = 3500
    batch_size: int = 16
    learning_rate: float = 1e-3
    warm_up_steps: int = 200
    width: int = 192
    layers: int = 6


def trained_recogniser(
    directory: str | os.PathLike,
    language: str,
    training: RecogniserTraining = RecogniserTraining(),
) -> Recogniser:
    """The recogniser in `directory/language`; where there is none yet it is trained first."""
    place = Path(directory) / language
    if Recogniser.is_in(place):
        return Recogniser.load(place)
    logging.info("there is no recogniser in %s yet: training one", place)
    corpus = _spoken(place / "speech", language, training)
    recogniser, result = train(corpus, language, training)
    try:
        recogniser.save(place, result)
    except OSError as error:
        raise UserError(
            f"the recogniser cannot be written to {place}: {error.strerror}; name another "
            "directory with --recogniser_dir"
        ) from None
    shutil.rmtree(place / "speech")
    return recogniser


def _spoken(directory: Path, language: str, training: RecogniserTraining) -> Corpus:
    settings = embedded.EmbeddedConfig(
        training.minutes, training.voices, (language,), training.seed, training.first_voice
    )
    prepared, _ = prepare(Source(embedded.make(directory, settings)))
    return Corpus.load(prepared)


def train(corpus: Corpus, language: str, training: RecogniserTraining) -> tuple[Recogniser, dict]:
    """A recogniser, and what is known of its training: character errors on held-out clips among
    others, as they are and out of Griffin-Lim."""
    keras.utils.set_random_seed(training.seed)
    start = time.monotonic()
    corpus, held_out = corpus.split(training.held_out)
    texts = [letters_of(text, language) for text in corpus.texts]
    letters = "".join(sorted(set("".join(texts))))
    config = RecogniserConfig(language, letters, training.width, training.layers)
    recogniser = Recogniser(config, make_network(config), corpus.texts)
    loss = _fit(recogniser, corpus, texts, training)
    result = {
        "training": dataclasses.asdict(training),
        "minutes_of_training": round((time.monotonic() - start) / 60, 2),
        "loss": round(loss, 4),
        "held_out_clips": len(held_out),
    }
    waveforms = [soundfile.read(path, dtype="float32")[0] for path in held_out.paths]
    rebuilt = griffin_lim_waveforms(*log_mels(waveforms, config.audio), config.audio)
    wanted = [letters_of(text, language) for text in held_out.texts]
    for name, clips in (("held_out", waveforms), ("held_out_griffin_lim", rebuilt)):
        error = character_error(recogniser.transcribe(clips, config.audio.sample_rate), wanted)
        result[f"character_error_{name}"] = round(error, 4)
    logging.info("the recogniser is trained: %s", result)
    return recogniser, result


def _fit(recogniser: Recogniser, corpus: Corpus, texts: list[str], training) -> float:
    """Trains the network and returns the mean loss per letter of the last 200 steps."""
    network = recogniser.network
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        training.steps,
        warmup_target=training.learning_rate,
        warmup_steps=training.warm_up_steps,
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.01, clipnorm=1.0)
    optimizer.build(network.trainable_variables)
    roughen = Roughening()

    @tf.function(reduce_retracing=True)
    def step(mel, mel_lengths, labels, label_lengths, key):
        rows = tf.SparseTensor(
            tf.where(tf.sequence_mask(label_lengths)),
            labels,
            tf.cast([tf.shape(label_lengths)[0], tf.reduce_max(label_lengths)], tf.int64),
        )
        with tf.GradientTape() as tape:
            logits = network(roughen(mel, key), training=True)
            losses = tf.nn.ctc_loss(
                rows,
                tf.transpose(logits, [1, 0, 2]),
                None,
                recogniser.logit_lengths(mel_lengths),
                blank_index=0,
            )
            loss = tf.reduce_mean(losses / tf.cast(label_lengths, tf.float32))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    losses = []
    mels = _mels(corpus, recogniser.config.audio, training.griffin_lim_share)
    batches = _batches(recogniser.config, corpus, mels, texts, training)
    with tqdm(range(training.steps), desc="training the recogniser", unit="step") as bar:
        for number in bar:
            losses.append(float(step(*next(batches), tf.constant([training.seed, number]))))
            if number % 50 == 0:
                bar.set_postfix(loss=f"{np.mean(losses[-50:]):.3f}")
    return float(np.mean(losses[-200:]))


def _batches(
    config: RecogniserConfig, corpus: Corpus, mels: list[np.ndarray], texts: list[str], training
) -> Iterator[tuple[np.ndarray, ...]]:
    """(mel, mel_lengths, labels one after the other, label_lengths) without end."""
    audio = config.audio
    classes = {letter: i + 1 for i, letter in enumerate(config.letters)}
    labels = [np.array([classes[letter] for letter in text], np.int32) for text in texts]
    settings = BatchConfig(training.batch_size, seed=training.seed)
    plan = BatchPlan(corpus.samples, corpus.speaker_ids, corpus.language_ids, settings, audio)
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


def _mels(corpus: Corpus, audio: AudioConfig, griffin_lim_share: float) -> list[np.ndarray]:
    """The log-mels of the clips; those of a share of them are of what Griffin-Lim made of them.
    In half precision: 100 minutes take 80 MB."""
    mels = []
    for number, path in enumerate(tqdm(corpus.paths, desc="mels", unit="clip")):
        mel, lengths = log_mels([soundfile.read(path, dtype="float32")[0]], audio)
        if number * griffin_lim_share % 1 + griffin_lim_share >= 1:
            mel, _ = log_mels(griffin_lim_waveforms(mel, lengths, audio), audio)
        mels.append(mel[0].numpy().astype(np.float16))
    return mels
