"""Griffin-Lim, and its comparison with a network."""

import librosa
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import make_log_mel
from myxtts.model.griffin_lim import griffin_lim, magnitudes
from myxtts.model.vocoder_comparison import compare_vocoders
from myxtts.model.vocoder_losses import mel_distance

AUDIO = AudioConfig()


@pytest.fixture(scope="module")
def clip(spoken_corpus):
    """A recording [1, T] and its mel."""
    waveform, _ = soundfile.read(spoken_corpus.paths[1], dtype="float32")
    waveform = tf.constant(waveform[4096 : 4096 + 60 * 256][None])
    return waveform, mel_of(waveform)


def mel_of(waveform):
    return make_log_mel(AUDIO)(waveform, tf.fill([waveform.shape[0]], waveform.shape[1]))[0]


def test_the_mel_of_what_it_makes_is_near_and_nearer_than_librosas(clip):
    _, mel = clip
    made = griffin_lim(mel, AUDIO)
    assert made.shape == (1, mel.shape[1] * 256)
    ours = float(mel_distance(mel_of(made), mel))
    theirs = librosa.feature.inverse.mel_to_audio(
        np.exp(mel[0].numpy().T), sr=22050, n_fft=1024, hop_length=256, n_iter=32, fmax=8000.0
    )
    theirs = np.pad(theirs, (0, 256))[None, : made.shape[1]].astype(np.float32)
    assert ours < 0.45
    assert ours < float(mel_distance(mel_of(tf.constant(theirs)), mel))


def test_it_is_deterministic_and_takes_one_mel_or_several_in_a_graph(clip):
    _, mel = clip
    once = griffin_lim(mel[0], AUDIO, 4)
    graph = tf.function(lambda mel: griffin_lim(mel, AUDIO, 4))
    np.testing.assert_allclose(graph(mel)[0], once, atol=1e-4)
    assert griffin_lim(tf.concat([mel, mel], 0), AUDIO, 1).shape == (2, once.shape[0])


def test_magnitudes_are_not_negative_and_have_the_mels(clip):
    _, mel = clip
    found = magnitudes(mel, AUDIO)
    assert float(tf.reduce_min(found)) >= 0
    filters = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmax=8000.0)
    again = np.log(np.maximum(np.square(found.numpy()) @ filters.T, 1e-5))
    assert np.abs(again - mel).mean() < 0.05


def test_it_works_on_a_gpu(clip):
    if not tf.config.list_logical_devices("GPU"):
        pytest.skip("no emulated GPUs in this process")
    _, mel = clip
    with tf.device("GPU:1"):
        found = tf.function(lambda mel: griffin_lim(mel, AUDIO, 3))(mel)
    assert "GPU:1" in found.device
    np.testing.assert_allclose(found, griffin_lim(mel, AUDIO, 3), atol=1e-3)


def test_the_nearer_vocoder_becomes_the_default(clip):
    waveform, mel = clip
    lengths, speaker = tf.constant([50]), tf.zeros([1, 8])

    def perfect(mel, speaker):
        return waveform

    def silent(mel, speaker):
        return tf.zeros_like(waveform)

    batches = [(mel, mel, lengths, speaker)] * 2
    judged = compare_vocoders(perfect, AUDIO, batches)
    assert judged["default_vocoder"] == "network"
    # But for the last frames, which see where the clip is cut off.
    assert judged["network"] < 0.1 < judged["griffin_lim"] < 0.5
    assert compare_vocoders(silent, AUDIO, batches)["default_vocoder"] == "griffin_lim"


def test_a_comparison_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one clip"):
        compare_vocoders(None, AUDIO, [])
