"""The networks that measure: what they are taught, that they learn it, and that it is kept."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.config import AudioConfig
from myxtts.corpus.embedded import EmbeddedConfig
from myxtts.evaluation import learning
from myxtts.evaluation import recogniser as recogniser_module
from myxtts.evaluation.distances import mel_cepstral_distance
from myxtts.evaluation.recogniser import (
    Recogniser,
    RecogniserConfig,
    lesson_in,
    letters_of,
    make_network,
    trained_recogniser,
)
from myxtts.evaluation.roughening import Roughening
from myxtts.evaluation.sentences import read
from myxtts.evaluation.speakers import (
    VoiceJudge,
    others_beaten,
    trained_voice_judge,
    voice_lesson,
)
from myxtts.evaluation.waveforms import log_mels
from myxtts.model.config import SpeakerConfig
from myxtts.model.speaker import SpeakerEncoder


def test_letters_are_what_can_be_heard():
    assert letters_of("Don't  stop - it's 3 o'clock!", "en") == "don't stop it's three o'clock"
    assert letters_of("«Grüß Gott», sagte er.", "de") == "grüß gott sagte er"
    assert "؟" not in letters_of("حال شما چطور است؟", "fa")


def test_measuring_networks_share_no_voice_and_no_seed_with_one_another_or_small_numbers():
    lessons = [lesson_in("en").speech, voice_lesson().speech]
    voices = [{s.first_voice + i for i in range(s.voices)} for s in lessons]
    # Corpora for training number their voices from 0; cloning is measured with 100 to 110.
    assert voices[0].isdisjoint(voices[1])
    assert all(number > 110 for numbers in voices for number in numbers)
    assert len({s.seed for s in lessons}) == 2 and all(s.seed > 900_000 for s in lessons)


def test_what_is_read_does_not_depend_on_what_it_is_read_with(spoken_corpus):
    config = RecogniserConfig("en", " abcdefghijklmnopqrstuvwxyz", width=16, layers=2)
    tf.keras.utils.set_random_seed(1)
    recogniser = Recogniser(config, make_network(config))
    clips = [read(path)[0] for path in spoken_corpus.paths[:4]]
    together = recogniser.transcribe(clips, 22050)
    assert together == [recogniser.transcribe([clip], 22050)[0] for clip in clips]
    assert len(set(together)) > 1
    longest = max(clips, key=len)
    assert recogniser.transcribe([longest, clips[0]], 22050)[1] == together[0]


def test_speech_of_another_sample_rate_is_brought_to_the_recognisers():
    config = RecogniserConfig("en", "abc", width=16, layers=1)
    recogniser = Recogniser(config, make_network(config))
    tone = 0.1 * np.sin(np.arange(8000) / 5).astype(np.float32)
    assert isinstance(recogniser.transcribe([tone], 16000)[0], str)
    assert recogniser.transcribe([np.zeros(0, np.float32)], 22050) == [
        recogniser.transcribe([np.zeros(0, np.float32)], 16000)[0]
    ]


def test_roughening_depends_on_its_seed_alone_and_leaves_the_words_in(spoken_corpus):
    mel, lengths = log_mels([read(path)[0] for path in spoken_corpus.paths[:4]], AudioConfig())
    rough = Roughening()
    first, again = (rough(mel, tf.constant([1, 2])).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = rough(mel, tf.constant([1, 3])).numpy()
    assert np.abs(other - first).max() > 0.1
    plain = [row[:length] for row, length in zip(mel.numpy(), lengths.numpy(), strict=True)]
    for i, length in enumerate(lengths.numpy()):
        apart = [mel_cepstral_distance(first[i, :length], row) for row in plain]
        assert apart[i] > 0.5 and np.argmin(apart) == i


def test_others_beaten_counts_the_references_that_are_further_away():
    references = np.eye(3)
    vectors = np.array([[0.9, 0.1, 0.4], [0.2, 0.3, 0.9], [0.5, 0.6, 0.7]])
    np.testing.assert_array_equal(others_beaten(vectors, references, [0, 0, 1]), [2, 0, 1])


def test_vectors_of_a_voice_do_not_depend_on_what_they_are_made_with(spoken_corpus):
    judge = VoiceJudge(SpeakerEncoder(SpeakerConfig(width=16, blocks=1, size=8), 80), AudioConfig())
    clips = [read(path)[0] for path in spoken_corpus.paths[:18]]
    together = judge.vectors(clips, 22050)
    assert together.shape == (18, 8)
    np.testing.assert_allclose(together[3], judge.vectors(clips[3:4], 22050)[0], atol=1e-5)


@pytest.mark.slow
def test_the_recogniser_learns_what_a_voice_says_and_is_kept(tmp_path, monkeypatch):
    def narrow(config):
        return make_network(dataclasses.replace(config, width=64, layers=2))

    monkeypatch.setattr(recogniser_module, "make_network", narrow)
    speech = EmbeddedConfig(1.0, 1, ("en",), seed=3, first_voice=200)
    few = dataclasses.replace(
        lesson_in("en"), speech=speech, steps=110, batch_size=8, learning_rate=3e-3
    )
    with pytest.raises(ValueError, match="cannot hold out 0"):
        trained_recogniser(tmp_path / "none", "en", dataclasses.replace(few, held_out=0.0))
    lesson = dataclasses.replace(few, held_out=0.2)
    recogniser = trained_recogniser(tmp_path, "en", lesson)
    description = learning.description_in(tmp_path / "en")
    # Of sentences that it was not taught it writes half of the letters. Silence has an error of 1,
    # letters drawn by their frequencies 0.85.
    assert description["character_error"] < 0.7
    assert recogniser.texts == set(description["texts"]) and len(recogniser.texts) > 10
    assert not (tmp_path / "en" / "speech").exists()
    clip = 0.1 * np.random.default_rng(0).standard_normal(22050).astype(np.float32)
    monkeypatch.setattr(learning, "learn", None)  # nothing is trained again
    again = trained_recogniser(tmp_path, "en", lesson)
    assert again.transcribe([clip], 22050) == recogniser.transcribe([clip], 22050)
    weights = next((tmp_path / "en" / "trained").glob("weights.data*"))
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(UserError, match=r"weights\.data.* is not what was written"):
        trained_recogniser(tmp_path, "en", lesson)


@pytest.mark.slow
def test_the_judge_learns_to_tell_voices_apart_and_is_kept(tmp_path):
    speech = EmbeddedConfig(2.5, 6, ("en",), seed=3, first_voice=300)
    lesson = dataclasses.replace(
        voice_lesson(), speech=speech, steps=45, batch_size=6, griffin_lim_share=0.0
    )
    judge = trained_voice_judge(tmp_path, lesson)
    # One in six by chance.
    assert learning.description_in(tmp_path / "speakers")["nearest_to_own_voice"] > 0.6
    clip = 0.1 * np.random.default_rng(0).standard_normal(22050).astype(np.float32)
    again = trained_voice_judge(tmp_path, lesson)
    np.testing.assert_array_equal(judge.vectors([clip], 22050), again.vectors([clip], 22050))
