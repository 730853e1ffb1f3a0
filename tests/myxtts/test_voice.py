"""A voice from a run directory: cloned, speaking whole and in chunks."""

import dataclasses
import json
import logging
import shutil

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts import UserError
from myxtts.voice import Speaking, Voice

TEXT = "Good morning to you. Where have you been all day long?"
# A network that hardly learnt might stop at once.
LONG = Speaking(temperature=1.0, length_penalty=1e6)


@pytest.fixture(scope="module")
def voice(finished_run):
    return Voice.load(finished_run.path)


@pytest.fixture
def cloned(voice, recordings):
    return voice.clone(recordings[:1])


def test_the_same_arguments_give_the_same_samples_and_another_seed_others(voice, cloned):
    first = voice.speak(TEXT, "en", cloned)
    assert first.dtype == np.float32 and first.ndim == 1 and np.abs(first).max() > 1e-3
    np.testing.assert_array_equal(first, voice.speak(TEXT, "en", cloned))
    other = voice.speak(TEXT, "en", cloned, Speaking(seed=1))
    assert other.shape != first.shape or np.abs(other - first).max() > 1e-3


def test_text_language_and_voice_change_what_is_said(voice, cloned, recordings):
    usual = voice.speak("good day", "en", cloned, LONG)
    chance = np.random.default_rng(1)
    noise = (0.1 * chance.standard_normal(50000)).astype(np.float32)
    for text, language, of in (
        ("bad night", "en", cloned),
        ("روز خوب", "fa", cloned),
        ("good day", "en", voice.clone([noise])),
    ):
        other = voice.speak(text, language, of, LONG)
        assert other.shape != usual.shape or np.abs(other - usual).max() > 1e-4


def test_chunks_together_are_the_whole_and_the_first_is_short(voice, cloned):
    chunks = list(voice.stream(TEXT, "en", cloned, LONG))
    assert len(chunks) > 3 and all(len(chunk) for chunk in chunks)
    assert len(chunks[0]) <= 20 * voice.audio.hop_length
    whole = voice.speak(TEXT, "en", cloned, LONG)
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-5)


def test_every_sentence_is_said_with_a_pause_between(voice, cloned):
    options = Speaking(temperature=0.0, pause=0.5)
    first = voice.speak("good morning to you.", "en", cloned, options)
    both = voice.speak("Good morning to you. Bye.", "en", cloned, options)
    np.testing.assert_allclose(both[: len(first)], first, atol=1e-5)
    pause = both[len(first) : len(first) + voice.sample_rate // 2]
    assert not pause.any() and len(both) > len(first) + len(pause)


def test_sentences_beyond_the_models_limit_are_parted(voice, cloned):
    sentences = voice.sentences("this goes on and on, " * 6 + "for ever.", "en")
    assert len(sentences) > 2 and max(map(len, sentences)) <= 40
    assert sentences[0][0] == voice.vocabulary.language_tag("en")


def test_several_references_are_averaged(voice, recordings):
    single = [voice.clone([path]) for path in recordings]
    together = voice.clone(recordings)
    mean = np.mean([one.latents for one in single], 0)
    pieces = [-(-soundfile.info(path).frames // (6 * 22050)) for path in recordings]
    if set(pieces) == {1}:
        np.testing.assert_allclose(together.latents, mean, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(together.speaker), 1.0, atol=1e-5)
    for one in single:
        assert float(tf.reduce_sum(one.speaker * together.speaker)) > 0.5
    waveform, _ = soundfile.read(recordings[0], dtype="float32")
    from_samples = voice.clone([waveform])
    np.testing.assert_allclose(from_samples.latents, single[0].latents, atol=1e-5)


def test_griffin_lim_speaks_the_same_codes_sentence_by_sentence(finished_run, recordings, voice):
    plain = Voice.load(finished_run.path, "griffin_lim")
    cloned = plain.clone(recordings[:1])
    options = Speaking(pause=0)
    chunks = list(plain.stream(TEXT, "en", cloned, options))
    assert len(chunks) == 2
    whole = voice.speak(TEXT, "en", cloned, options)
    assert sum(map(len, chunks)) == len(whole)


def test_the_better_vocoder_of_the_run_is_the_default_and_is_named(
    finished_run, tmp_path, caplog
):
    run = shutil.copytree(finished_run.path, tmp_path / "run")
    with caplog.at_level(logging.INFO, logger="absl"):
        assert Voice.load(run).vocoder == "network"
        assert "waveforms by network" in caplog.text and "griffin_lim 0.500" in caplog.text
        result = {"default_vocoder": "griffin_lim", "comparison": {"network": 1, "griffin_lim": 0}}
        (run / "checkpoints/vocoder/finished.json").write_text(json.dumps(result))
        assert Voice.load(run).vocoder == "griffin_lim"
        assert Voice.load(run, "network").vocoder == "network"
        shutil.rmtree(run / "checkpoints/vocoder")
        assert Voice.load(run).vocoder == "griffin_lim"
        assert "no vocoder is trained yet" in caplog.text
    with pytest.raises(UserError, match="holds no trained vocoder"):
        Voice.load(run, "network")
    shutil.rmtree(run / "checkpoints/gpt")
    with pytest.raises(UserError, match="holds no trained gpt yet"):
        Voice.load(run)


def test_mistakes_are_told_in_one_sentence(voice, cloned, finished_run, tmp_path):
    for attempt, sentence in (
        (lambda: voice.speak("", "en", cloned), "holds nothing to say"),
        (lambda: voice.speak("hello", "xx", cloned), "no language 'xx'; it was trained on en, fa"),
        (lambda: voice.clone([]), "no reference was given"),
        (lambda: voice.clone([np.zeros(50000, np.float32)]), "reference number 1 is silent"),
        (lambda: Voice.load(tmp_path / "none"), "none does not exist"),
        (lambda: Voice.load(tmp_path), "is no training run"),
        (lambda: Voice.load(finished_run.path, "flute"), "vocoder must be one of"),
        (lambda: Speaking(temperature=-1), "temperature must be 0 or more, got -1"),
        (lambda: Speaking(top_p=0.0), "top_p must be above 0"),
        (lambda: dataclasses.replace(Speaking(), length_penalty=0), "length_penalty must be above"),
    ):
        with pytest.raises(UserError, match=sentence) as refused:
            attempt()
        assert "\n" not in str(refused.value)


def test_after_warming_up_nothing_is_traced_again(voice, cloned):
    voice.warm_up()
    before = [function.experimental_get_tracing_count() for function in voice.traced()]
    for text in ("so it is.", "what a long sentence that was.", "oh!"):
        list(voice.stream(text, "en", cloned))
        voice.speak(text, "en", cloned)
    after = [function.experimental_get_tracing_count() for function in voice.traced()]
    assert before == after
