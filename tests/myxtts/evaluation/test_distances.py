"""Distances between texts, and between clips that say the same."""

import functools
import random

import librosa
import numpy as np
import pytest

from myxtts.config import AudioConfig
from myxtts.evaluation.distances import CharacterError, edits, mel_cepstral_distance
from myxtts.evaluation.sentences import read
from myxtts.evaluation.waveforms import griffin_lim_waveforms, log_mels

AUDIO = AudioConfig()


@pytest.mark.parametrize(
    ("found", "wanted", "count"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("same", "same", 0)],
)
def test_edits_of_known_pairs(found, wanted, count):
    assert edits(found, wanted) == count


def test_edits_are_those_of_the_definition():
    def by_definition(a, b):
        @functools.lru_cache(None)
        def least(i, j):
            if not i or not j:
                return i + j
            changed = least(i - 1, j - 1) + (a[i - 1] != b[j - 1])
            return min(least(i - 1, j) + 1, least(i, j - 1) + 1, changed)

        return least(len(a), len(b))

    chance = random.Random(0)
    for _ in range(200):
        a, b = ("".join(chance.choices("abc ", k=chance.randrange(12))) for _ in range(2))
        assert edits(a, b) == by_definition(a, b), (a, b)


def test_character_error_weighs_texts_by_their_length_and_compares_clip_by_clip():
    wrong, letters, before = np.array([0, 2, 3]), np.array([8, 2, 10]), np.array([0, 1, 3])
    error = CharacterError.of(wrong, letters, before)
    assert error.value == 5 / 20 and error.points == pytest.approx(100 * 1 / 20)
    assert error.uncertain > 0
    same = CharacterError.of(wrong, letters, wrong)
    assert (same.points, same.uncertain) == (0.0, 0.0)


def test_the_uncertainty_is_that_of_drawing_other_sentences():
    """Clips whose edits are drawn: it is the spread of their mean."""
    chance = np.random.default_rng(3)
    letters, before = np.full(400, 50), np.zeros(400, int)
    points = []
    for _ in range(200):
        points.append(CharacterError.of(chance.poisson(5, 400), letters, before).points)
    error = CharacterError.of(chance.poisson(5, 400), letters, before)
    assert error.uncertain == pytest.approx(np.std(points), rel=0.25)


@pytest.fixture(scope="module")
def clips(spoken_corpus):
    """Two clips of one voice and one of another, all English."""
    english = [i for i in range(len(spoken_corpus)) if spoken_corpus.language_of(i) == "en"]
    first = [i for i in english if spoken_corpus.speaker_ids[i] == 0][:2]
    other = [i for i in english if spoken_corpus.speaker_ids[i] == 1][:1]
    return [read(spoken_corpus.paths[i])[0] for i in first + other]


def mel_of(waveform):
    return log_mels([waveform], AUDIO)[0][0].numpy()


def test_a_clip_is_nearer_to_itself_resynthesised_or_slower_than_to_another_sentence(clips):
    mel = mel_of(clips[0])
    assert mel_cepstral_distance(mel, mel) == 0
    rebuilt = mel_of(griffin_lim_waveforms(*log_mels(clips[:1], AUDIO), AUDIO)[0])
    slower = mel_of(librosa.effects.time_stretch(clips[0], rate=0.8))
    resynthesised = mel_cepstral_distance(rebuilt, mel)
    stretched = mel_cepstral_distance(slower, mel)
    another = mel_cepstral_distance(mel_of(clips[1]), mel)
    assert 0 < resynthesised < 2 < another
    assert stretched < 0.6 * another


def test_loudness_is_no_distance(clips):
    # Well above the floor of the mels, which does not move with the loudness.
    mel = np.maximum(mel_of(clips[0]), -8.0)
    assert mel_cepstral_distance(mel + 1.0, mel) == pytest.approx(0, abs=1e-6)


def test_the_distance_is_mel_cepstral_distortion():
    """Against the formula, for frames that differ in one cepstral coefficient only."""
    bands, change = 80, 0.3
    wave = np.cos(np.pi * 3 * (np.arange(bands) + 0.5) / bands)
    mel = np.zeros([5, bands])
    # A log-amplitude of sum c_m cos(m w) changes by 2 * change in a log-power mel.
    found = mel + 2 * change * wave
    wanted = 10 / np.log(10) * np.sqrt(2) * change
    assert mel_cepstral_distance(found, mel, power=2.0) == pytest.approx(wanted)
