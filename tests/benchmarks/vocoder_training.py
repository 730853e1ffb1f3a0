"""Shared by vocoder_heads.py and vocoder_quality.py: recordings, a training loop, distances."""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np
import soundfile
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.corpus import embedded
from myxtts.features import make_log_mel
from myxtts.model.vocoder_losses import ReconstructionLoss, mel_distance

AUDIO = AudioConfig()
HOP = AUDIO.hop_length
_log_mel = make_log_mel(AUDIO)


def recordings(directory: Path, minutes: float, voices: int, seed: int, first_voice: int = 0):
    """Clips of the embedded corpus as (waveform, mel), made where they are not there yet."""
    settings = embedded.EmbeddedConfig(
        minutes, voices=voices, languages=("en",), seed=seed, first_voice=first_voice
    )
    embedded.make(directory, settings, progress=False)
    clips = []
    for path in sorted((directory / "wavs").glob("*.wav")):
        waveform, _ = soundfile.read(path, dtype="float32")
        waveform = np.pad(waveform, (0, -len(waveform) % HOP))
        clips.append((waveform, mel_of(waveform[None])[0].numpy()))
    return clips


def mel_of(waveforms) -> tf.Tensor:
    waveforms = tf.convert_to_tensor(waveforms)
    return _log_mel(waveforms, tf.fill([waveforms.shape[0]], waveforms.shape[1]))[0]


_loss = ReconstructionLoss(AUDIO)


def distances(vocode, clips) -> tuple[float, float]:
    """Between clips and what is made of their mels, by frames: mean absolute difference of the
    log-mels, and of log-magnitudes at three resolutions, which no vocoder is given."""
    sums, frames = np.zeros(2), 0
    for waveform, mel in clips:
        made = tf.convert_to_tensor(vocode(tf.constant(mel[None])))
        magnitude = _loss(tf.constant(waveform[None]), made)["magnitude"]
        sums += len(mel) * np.array([mel_distance(mel_of(made), mel[None]), magnitude])
        frames += len(mel)
    return tuple(sums / frames)


class Training:
    """A vocoder in training: `spend(seconds)` of processor time at a time.

    The learning rate warms up and then falls with a cosine until `budget` is spent.
    """

    def __init__(self, vocode, variables, clips, budget: float, *, batch=16, frames=64, rate=1e-3):
        self.vocode, self.clips, self.budget = vocode, clips, budget
        self.batch, self.frames, self.rate = batch, frames, rate
        self.spent, self.steps = 0.0, 0
        self.chance = np.random.default_rng(0)
        optimizer = keras.optimizers.AdamW(
            rate, weight_decay=0.01, beta_2=0.99, global_clipnorm=1.0
        )
        optimizer.build(variables)

        @tf.function
        def step(waveform, mel):
            with tf.GradientTape() as tape:
                figures = _loss(waveform, vocode(mel))
            gradients = tape.gradient(figures["loss"], variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return figures["mel"]

        self.optimizer, self.step = optimizer, step
        step(*self.segments())  # traced outside the budget

    def segments(self):
        waveforms, mels = [], []
        while len(mels) < self.batch:
            waveform, mel = self.clips[self.chance.integers(len(self.clips))]
            if len(mel) > self.frames:
                start = self.chance.integers(len(mel) - self.frames)
                mels.append(mel[start : start + self.frames])
                waveforms.append(waveform[start * HOP : (start + self.frames) * HOP])
        return tf.constant(np.stack(waveforms)), tf.constant(np.stack(mels))

    def spend(self, seconds: float) -> None:
        until = min(self.spent + seconds, self.budget)
        while self.spent < until:
            falling = 0.5 * (1 + np.cos(np.pi * self.spent / self.budget))
            warm = min(1.0, (self.steps + 1) / 100)
            self.optimizer.learning_rate.assign(self.rate * warm * max(falling, 0.01))
            start = time.process_time()
            float(self.step(*self.segments()))
            self.spent += time.process_time() - start
            self.steps += 1
