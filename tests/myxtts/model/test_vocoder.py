"""The vocoder: its transform is exact, its sight is limited, and it learns."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import make_log_mel
from myxtts.model.config import VocoderConfig
from myxtts.model.vocoder import Vocoder
from myxtts.model.vocoder_losses import ReconstructionLoss

AUDIO = AudioConfig()
CONFIG = VocoderConfig(width=32, blocks=2, corrections=3)


@pytest.fixture
def vocoder(small):
    keras.utils.set_random_seed(1)
    return small.livened(Vocoder(CONFIG, AUDIO, speaker_size=8))


@pytest.fixture
def speaker():
    return tf.constant(np.random.default_rng(2).normal(size=(1, 8)).astype(np.float32))


def test_every_frame_becomes_a_hop_of_samples(vocoder, speaker, small):
    for frames in (1, 2, 37):
        mel, _ = small.mels(frames, frames)
        assert vocoder(mel, tf.tile(speaker, [2, 1])).shape == (2, frames * 256)


def test_a_sample_depends_on_no_frame_further_away_than_the_context(vocoder, speaker, small):
    mel, _ = small.mels(80)
    reach = vocoder.context_frames
    assert reach == 3 * 3 + 3 * 3 + 2
    before = vocoder(mel, speaker).numpy()[0].reshape(80, 256)
    changed = mel.numpy()
    changed[0, 40] += 3.0
    after = vocoder(tf.constant(changed), speaker).numpy()[0].reshape(80, 256)
    moved = np.flatnonzero(np.abs(after - before).max(1) > 1e-6)
    assert 40 in moved and moved.min() >= 40 - reach and moved.max() <= 40 + reach


def test_pieces_with_context_around_them_are_the_whole(vocoder, speaker, small):
    mel, _ = small.mels(90)
    whole, reach = vocoder(mel, speaker).numpy()[0], vocoder.context_frames
    for begin, end in ((0, 16), (16, 50), (50, 90)):
        low, high = max(0, begin - reach), min(90, end + reach)
        piece = vocoder(mel[:, low:high], speaker).numpy()[0]
        piece = piece[(begin - low) * 256 : (end - low) * 256]
        np.testing.assert_allclose(piece, whole[begin * 256 : end * 256], atol=1e-5)


def test_untrained_it_is_as_loud_as_the_mel_says():
    keras.utils.set_random_seed(1)
    vocoder = Vocoder(CONFIG, AUDIO, speaker_size=8)
    quiet = tf.random.stateless_normal([1, 60 * 256], [3, 4], stddev=0.01)
    for factor in (1.0, 20.0):
        mel, _ = make_log_mel(AUDIO)(quiet * factor, tf.constant([60 * 256]))
        made = vocoder(mel, tf.zeros([1, 8])).numpy()
        assert 0.2 < made.std() / (0.01 * factor) < 5


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_it_learns_a_clip(spoken_corpus, policy):
    samples = min(int(spoken_corpus.samples[0]) // 256, 60) * 256
    raw = tf.io.read_file(spoken_corpus.paths[0])
    offset = int(spoken_corpus.data_offsets[0])
    pcm = tf.io.decode_raw(tf.strings.substr(raw, offset, 2 * samples), tf.int16)[None]
    waveform = tf.cast(pcm, tf.float32) / 32768.0
    mel, _ = make_log_mel(AUDIO)(waveform, tf.constant([samples]))
    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_dtype_policy(policy)
    try:
        vocoder = Vocoder(CONFIG, AUDIO, speaker_size=8)
    finally:
        keras.mixed_precision.set_dtype_policy("float32")
    loss, optimizer = ReconstructionLoss(AUDIO), keras.optimizers.Adam(3e-3)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            figures = loss(waveform, vocoder(mel, tf.zeros([1, 8]), training=True))
        variables = vocoder.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(figures["loss"], variables), variables, strict=True)
        )
        return figures

    first = step()
    assert first["mel"].dtype == tf.float32
    for _ in range(40):
        last = step()
    assert float(last["mel"]) < 0.7 * float(first["mel"])


def test_it_sounds_alike_and_learns_on_a_gpu(vocoder, speaker, small):
    if not tf.config.list_logical_devices("GPU"):
        pytest.skip("no emulated GPUs in this process")
    mel, _ = small.mels(20)
    wanted = vocoder(mel, speaker)
    with tf.device("GPU:1"):
        twin = Vocoder(CONFIG, AUDIO, speaker_size=8)
        twin.set_weights(vocoder.get_weights())
        loss = ReconstructionLoss(AUDIO)

        @tf.function
        def made(mel, speaker, target):
            with tf.GradientTape() as tape:
                waveform = twin(mel, speaker)
                total = loss(target, waveform)["loss"]
            return waveform, tape.gradient(total, twin.trainable_variables)

        found, gradients = made(mel, speaker, tf.zeros([1, 20 * 256]))
    assert "GPU:1" in found.device
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
