"""Rounds of correction: exact transforms around them, and a mel that comes nearer."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import make_log_mel
from myxtts.model import mel_correction
from myxtts.model.mel_correction import MelCorrection
from myxtts.model.vocoder_losses import mel_distance


@pytest.mark.parametrize("audio", [AudioConfig(), AudioConfig(n_fft=512, power=1.0)])
def test_the_transforms_undo_one_another(audio):
    correction = MelCorrection(audio)
    size = 19 * audio.hop_length + audio.n_fft
    samples = tf.random.stateless_normal([2, size], [1, 2])
    bins = correction.bins_of(samples)
    assert bins.shape == (2, 20, audio.n_fft // 2 + 1)
    inner = slice(audio.n_fft, -audio.n_fft)
    np.testing.assert_allclose(correction.samples_of(bins)[:, inner], samples[:, inner], atol=1e-5)


@pytest.mark.parametrize("audio", [AudioConfig(), AudioConfig(power=1.0)])
def test_every_round_brings_the_mel_nearer(audio):
    correction, frames = MelCorrection(audio), 60
    margin = audio.n_fft // 2
    log_mel, samples_in = make_log_mel(audio), tf.constant([frames * audio.hop_length])
    voice = tf.random.stateless_normal([1, frames * audio.hop_length], [1, 2], stddev=0.1)
    loudness = 1.0 + tf.sin(tf.range(frames * audio.hop_length, dtype=tf.float32) / 3000.0)
    mel, _ = log_mel(voice * loudness, samples_in)
    other = tf.random.stateless_normal([1, (frames - 1) * audio.hop_length + 2 * margin], [3, 4])

    def distance(rounds):
        made = correction.correct(other, mel, rounds)[:, margin:]
        made = tf.pad(made, [[0, 0], [0, audio.hop_length]])[:, : frames * audio.hop_length]
        found, _ = log_mel(made, samples_in)
        return float(mel_distance(found[:, 4:-4], mel[:, 4:-4]))

    distances = [distance(rounds) for rounds in (0, 1, 2, 4, 8)]
    assert all(b < 0.95 * a for a, b in itertools.pairwise(distances))
    assert distances[-1] < 0.1 * distances[0]


def test_silence_is_not_turned_up():
    audio = AudioConfig()
    hiss = 1e-6 * tf.random.stateless_normal([1, 40 * 256 + 1024], [1, 2])
    floor = tf.fill([1, 41, 80], float(np.log(audio.log_floor)))
    made = MelCorrection(audio).correct(hiss, floor, 4)
    assert float(tf.reduce_max(tf.abs(made))) < 1.1e-5


def test_more_rounds_do_not_make_a_larger_graph(monkeypatch):
    audio = AudioConfig()
    correction = MelCorrection(audio)
    samples = tf.random.stateless_normal([2, 19 * 256 + 1024], [1, 2])
    mel = 2.0 * tf.random.stateless_normal([2, 20, 80], [3, 4]) - 5.0

    def traced(rounds):
        fn = tf.function(lambda *given: correction.correct(*given, rounds))
        return fn.get_concrete_function(samples, mel)

    loop, longer = traced(9), traced(16)
    assert len(loop.graph.get_operations()) == len(longer.graph.get_operations()) < 500
    assert loop(samples, mel).shape == samples.shape == loop.structured_outputs.shape
    monkeypatch.setattr(mel_correction, "_UNROLLED", 9)
    np.testing.assert_allclose(loop(samples, mel), correction.correct(samples, mel, 9), atol=1e-5)
    assert np.abs(loop(samples, mel) - longer(samples, mel)).max() > 1e-3
