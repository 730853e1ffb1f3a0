"""A published directory speaks: codes as the published code draws them, and exact streaming."""

import dataclasses

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts import UserError
from myxtts.config import Speaking
from myxtts.xtts_v2 import mels, sampling
from myxtts.xtts_v2.resampling import resampled
from tests.myxtts.xtts_v2 import formula

TEXT = "Hello world. It took me a long time."
DRAWN = Speaking(temperature=0.9, top_k=40, top_p=0.95, repetition_penalty=5.0, seed=3)


@pytest.fixture
def voice(published_voice):
    return published_voice


@pytest.fixture
def cloned(voice):
    return voice.speaker("Ana")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    for name, seconds, rate in (("a", 1.6, 22050), ("b", 1.1, 16000)):
        sound = formula.sound(seconds * rate / formula.RATE, 150, name)
        soundfile.write(folder / f"{name}.wav", sound, rate, subtype="FLOAT")
    return [folder / "a.wav", folder / "b.wav"]


def test_greedy_codes_and_their_latents_are_the_published_ones(voice, reference):
    text = tf.constant(formula.texts()[0][:1])
    options = dict(temperature=0.0, repetition_penalty=10.0, max_codes=12)
    latents = tf.constant(reference["conditioning/latents"][:1])
    parts = list(sampling.stream(voice.networks.gpt, latents, text, first=5, every=4, **options))
    assert [len(codes) for codes, _, _ in parts] == [5, 4, 3]
    assert [done for _, _, done in parts] == [False, False, True]
    codes = np.concatenate([codes for codes, _, _ in parts])
    assert codes.tolist() == reference["generated/codes"].tolist()
    found = np.concatenate([found for _, found, _ in parts], 1)
    assert reference.error("generated/latents", found) <= 1
    assert reference.error("generated/step_latents", found[0]) <= 1
    again = voice.networks.gpt.latents_of(
        latents, text, tf.constant([7]), codes[None], tf.constant([12])
    )
    assert reference.error("generated/latents", again) <= 1


def test_the_logits_of_every_step_are_the_published_ones(voice, reference):
    text, codes = tf.constant(formula.texts()[0][:1]), reference["generated/codes"]
    latents = tf.constant(reference["conditioning/latents"][:1])
    logits, _, cache = voice.networks.gpt.start(latents, text, tf.constant([7]), 12)
    made = [logits]
    for code in codes[:-1]:
        logits, _, cache = voice.networks.gpt.next(tf.constant([code], tf.int32), cache)
        made.append(logits)
    assert reference.error("generated/logits", np.concatenate(made)) <= 1


@pytest.mark.parametrize(
    "name, settings",
    [
        ("inference", (10.0, 0.75, 50, 0.85)),
        ("config", (5.0, 0.75, 20, 0.85)),
        ("wide", (1.5, 1.3, 0, 0.99)),
    ],
)
def test_what_may_be_drawn_has_the_published_scores(reference, name, settings):
    penalty, temperature, top_k, top_p = settings
    used = np.zeros([1, formula.CODES + 2], bool)
    used[0, [1, formula.CODES, *reference["generated/codes"][:8]]] = True
    options = {"repetition_penalty": penalty, "temperature": temperature, "top_p": top_p}
    options = {key: tf.constant(value) for key, value in options.items()}
    logits = tf.constant(reference["generated/logits"][8:9])
    found = sampling.filtered(logits, tf.constant(used), {**options, "top_k": tf.constant(top_k)})
    assert reference.error(f"generated/scores_{name}", found) <= 1


def test_top_k_holds_where_top_p_excludes_nothing():
    logits = tf.constant(np.random.default_rng(0).normal(0, 3, [200, 1026]), tf.float32)
    options = {"repetition_penalty": 1.0, "temperature": 0.75, "top_k": 5, "top_p": 1.0}
    options = {key: tf.constant(value) for key, value in options.items()}
    scores = sampling.filtered(logits, tf.zeros(logits.shape, tf.bool), options)
    # The shares of the five may add up to less than 1 by rounding.
    assert (np.isfinite(scores).sum(1) == 5).all()


def test_the_seed_decides_what_is_drawn(voice, cloned):
    said = [
        voice.speak(TEXT, "en", cloned, dataclasses.replace(DRAWN, seed=seed)) for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(said[0], said[1])
    assert len(said[0]) != len(said[2]) or not np.allclose(said[0], said[2])


def test_chunks_of_a_stream_are_the_waveform_spoken_at_once(voice, cloned):
    text = f"{TEXT} " * 4  # more tokens than the model reads at once
    whole = voice.speak(text, "en", cloned, DRAWN)
    chunks = list(voice.stream(text, "en", cloned, DRAWN))
    assert len(chunks) > 4
    # Of 8 codes four are sounded, the others being needed around them: 17 hops.
    assert len(chunks[0]) == 17 * 256
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-5)
    assert np.std(whole) > 0.01


def test_the_whole_waveform_is_that_of_the_hifigan_over_all_latents(voice, cloned):
    ids = voice.sentences("Hello world.", "en")[0]
    ((codes, latents, done),) = voice.codes(ids, cloned, DRAWN, first=37, every=37)
    assert done and len(codes) == latents.shape[1]
    wanted = voice.networks.hifigan(latents, cloned.speaker)[0]
    found = voice.speak("Hello world.", "en", cloned, DRAWN)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_higher_speed_gives_a_shorter_waveform(voice, cloned):
    plain = voice.speak("Hello world.", "en", cloned, DRAWN)
    fast = voice.speak("Hello world.", "en", cloned, DRAWN, speed=1.5)
    assert abs(len(plain) / len(fast) - 1.5) < 0.1
    with pytest.raises(UserError, match="speed must be"):
        voice.speak("Hello world.", "en", cloned, DRAWN, speed=0.0)


def test_a_voice_is_cloned_as_published(voice, recordings):
    """Latents are the mean over pieces of all recordings; vectors the mean over recordings."""
    networks = voice.networks
    waveforms = [voice._waveform(path, "") for path in recordings]
    vectors = [networks.speaker(resampled(w, mels.RATE, mels.SPEAKER_RATE)) for w in waveforms]
    voice.config = dataclasses.replace(voice.config, gpt_cond_chunk_len=1)
    found = voice.clone(recordings)
    whole = tf.concat(waveforms, 1)
    pieces = [whole[:, start : start + mels.RATE] for start in (0, mels.RATE, 2 * mels.RATE)]
    latents = [
        networks.conditioning(mels.log_mel(piece, networks.mel_stats, mels.CONDITIONING_FFT))
        for piece in pieces
    ]
    np.testing.assert_allclose(found.latents, sum(latents) / 3, atol=1e-4)
    np.testing.assert_allclose(found.speaker, sum(vectors) / 2, atol=1e-5)
    assert np.linalg.norm(found.speaker) < 1
    voice.config = dataclasses.replace(voice.config, gpt_cond_len=1)
    short = voice.clone(recordings)
    np.testing.assert_allclose(short.latents, latents[0], atol=1e-4)
    voice.config = voice.networks.source.config


def test_references_and_names_that_do_not_fit_are_refused(voice, tmp_path):
    with pytest.raises(UserError, match="no reference"):
        voice.clone([])
    with pytest.raises(UserError, match=r"missing\.wav cannot be read"):
        voice.clone([tmp_path / "missing.wav"])
    with pytest.raises(UserError, match="number 1 is silent"):
        voice.clone([np.zeros(30000, np.float32)])
    with pytest.raises(UserError, match="no speaker 'Bea'; it has Ana"):
        voice.speaker("Bea")


def test_config_json_says_how_codes_are_drawn(voice):
    speaking = voice.speaking
    assert (speaking.temperature, speaking.top_k, speaking.top_p) == (0.75, 50, 0.85)
    assert speaking.repetition_penalty == 5.0
    assert set(voice.languages) == {"en", "de", "es", "fr", "ru"}
    with pytest.raises(UserError, match="length_penalty"):
        voice.speak(TEXT, "en", voice.speaker("Ana"), Speaking(length_penalty=2.0))
