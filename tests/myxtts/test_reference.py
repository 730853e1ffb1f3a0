"""Which recordings a voice can be cloned from, and what becomes of them."""

import numpy as np
import pytest
import soundfile

from myxtts import UserError
from myxtts.config import AudioConfig
from myxtts.reference import pieces_of, read_reference

AUDIO = AudioConfig()


def speech(seconds, rate=22050, seed=0):
    """Noise with pauses in it, as loud as speech."""
    chance = np.random.default_rng(seed)
    there = np.sin(np.arange(int(seconds * rate)) / rate * 6) > -0.5
    return (0.1 * chance.standard_normal(len(there)) * there).astype(np.float32)


@pytest.fixture
def written(tmp_path):
    def write(waveform, rate=22050, name="a.wav"):
        soundfile.write(tmp_path / name, waveform, rate)
        return tmp_path / name

    return write


def test_a_recording_of_any_rate_and_number_of_channels_becomes_mono_at_the_models_rate(written):
    both = np.stack([speech(3, 44100, seed) for seed in (1, 2)], 1)
    found = read_reference(written(both, 44100, "b.flac"), AUDIO)
    assert found.dtype == np.float32 and abs(len(found) - 3 * 22050) <= 1
    assert 0.03 < found.std() < 0.1


@pytest.mark.parametrize(
    ("waveform", "sentence"),
    [
        (speech(0.3), r"has 0\.30 s; it must have at least 1 s"),
        (np.zeros(44100, np.float32), "is silent"),
        (1e-4 * speech(3), "is silent"),
        (np.concatenate([speech(0.3), np.zeros(66150)]), r"only 0\.\d\d s of 3\.30 s are not"),
        (np.zeros(0, np.float32), r"has 0\.00 s"),
    ],
)
def test_an_unfit_recording_is_refused_in_one_sentence(written, waveform, sentence):
    path = written(waveform)
    with pytest.raises(UserError, match=sentence) as refused:
        read_reference(path, AUDIO)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_no_recording_is_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"none\.wav does not exist"):
        read_reference(tmp_path / "none.wav", AUDIO)
    (tmp_path / "text.wav").write_text("this is no audio")
    with pytest.raises(UserError, match=r"text\.wav cannot be read as audio \(.*such as m4a"):
        read_reference(tmp_path / "text.wav", AUDIO)
    with pytest.raises(UserError, match="cannot be read as audio"):
        read_reference(tmp_path, AUDIO)


def test_a_nan_is_refused(written):
    waveform = speech(2)
    waveform[100] = np.nan
    path = written(waveform)
    soundfile.write(path, waveform, 22050, subtype="FLOAT")
    with pytest.raises(UserError, match="no numbers"):
        read_reference(path, AUDIO)


def test_of_a_long_recording_the_first_minute_is_used(written):
    assert len(read_reference(written(speech(90, 8000), 8000), AUDIO)) == 60 * 22050


@pytest.mark.parametrize("seconds", [1.0, 5.99, 6.0, 6.01, 13.7, 60.0])
def test_equal_pieces_of_at_most_six_seconds_hold_every_sample_once(seconds):
    waveform = speech(seconds)
    pieces, lengths = (value.numpy() for value in pieces_of(waveform, AUDIO))
    assert len(pieces) == -(-len(waveform) // (6 * 22050))
    assert lengths.max() <= 6 * 22050 and lengths.max() - lengths.min() <= 1
    assert pieces.shape[1] % AUDIO.hop_length == 0
    together = np.concatenate([p[:n] for p, n in zip(pieces, lengths, strict=True)])
    np.testing.assert_array_equal(together, waveform)
    for piece, length in zip(pieces, lengths, strict=True):
        assert not piece[length:].any()
