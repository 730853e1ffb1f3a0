"""Trains the recogniser and the judge: makes their speech, runs the loop, keeps the networks.

espeak-ng makes their speech, with voices and seeds that training corpora never use. It is deleted
once the network is trained.
"""

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from myxtts.config import AudioConfig
from myxtts.corpus.embedded import EmbeddedConfig, make
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.evaluation.sentences import read
from myxtts.evaluation.waveforms import griffin_lim_waveforms, log_mels
from myxtts.training import checkpoints


@dataclasses.dataclass(frozen=True)
class Lesson:
    """How a measuring network is trained, and on what."""

    speech: EmbeddedConfig
    steps: int
    batch_size: int = 16
    learning_rate: float = 1e-3
    warm_up_steps: int = 200
    griffin_lim_share: float = 0.25
    held_out: float = 0.03


def divided(corpus: Corpus, lesson: Lesson) -> tuple[Corpus, Corpus]:
    """(training clips, held-out clips)"""
    parts = corpus.split(lesson.held_out)
    if not all(map(len, parts)):
        raise ValueError(
            f"a lesson of {len(corpus)} clips cannot hold out {lesson.held_out:g} of them; give "
            "it more speech, or another held_out"
        )
    return parts


def learn(
    network: keras.Model,
    loss_of: Callable[..., tf.Tensor],
    batches: Iterator[tuple[np.ndarray, ...]],
    lesson: Lesson,
) -> float:
    """Trains the network on `loss_of(*batch, seed)`; returns the mean loss of the last tenth of
    the steps."""
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        lesson.steps,
        warmup_target=lesson.learning_rate,
        warmup_steps=min(lesson.warm_up_steps, lesson.steps // 2),
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.01, clipnorm=1.0)
    optimizer.build(network.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(batch, seed):
        with tf.GradientTape() as tape:
            loss = loss_of(*batch, seed)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    losses = []
    with tqdm(range(lesson.steps), desc="training", unit="step", mininterval=1.0) as bar:
        for number in bar:
            seed = tf.constant([lesson.speech.seed, number])
            losses.append(float(step(next(batches), seed)))
            bar.set_postfix_str(f"loss {np.mean(losses[-50:]):.3f}", refresh=False)
    return float(np.mean(losses[-max(1, lesson.steps // 10) :]))


def mels_of(corpus: Corpus, audio: AudioConfig, griffin_lim_share: float) -> list[np.ndarray]:
    """The log-mels of the clips; for a share of them, of the clip after Griffin-Lim. In half
    precision: 100 minutes take 80 MB."""
    mels = []
    for number, path in enumerate(tqdm(corpus.paths, desc="log-mels", unit="clip")):
        mel, lengths = log_mels([read(path)[0]], audio)
        if number * griffin_lim_share % 1 + griffin_lim_share >= 1:
            mel, _ = log_mels(griffin_lim_waveforms(mel, lengths, audio), audio)
        mels.append(mel[0].numpy().astype(np.float16))
    return mels


def taught(
    place: Path, lesson: Lesson, teach: Callable[[Corpus], tuple[dict, dict[str, keras.Model]]]
) -> None:
    """Makes the lesson's speech, calls `teach` with it and keeps what it returns in `place`: a
    description as plain JSON types, and the networks by name."""
    logging.info("training in %s, on %s", place, lesson.speech.describe())
    prepared, _ = prepare(Source(make(place / "speech", lesson.speech)))
    start = time.monotonic()
    keras.utils.set_random_seed(lesson.speech.seed)
    description, networks = teach(Corpus.load(prepared))
    description["lesson"] = dataclasses.asdict(lesson)
    description["training_minutes"] = round((time.monotonic() - start) / 60, 2)
    variables = {name: network.variables for name, network in networks.items()}
    checkpoints.save(place / "trained", description, variables)
    shutil.rmtree(place / "speech")


def is_taught(place: Path) -> bool:
    return (place / "trained").is_dir()


def description_in(place: Path) -> dict:
    return checkpoints.read_state(place / "trained")


def give_weights(place: Path, networks: dict[str, keras.Model]) -> None:
    checkpoints.read_weights(place / "trained", networks)
