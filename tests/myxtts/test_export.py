"""A SavedModel of a voice says what the voice says, and needs nothing of this package."""

import json

import numpy as np
import pytest
import soundfile

from myxtts import UserError
from myxtts.export import ExportedVoice, export
from myxtts.voice import Speaking, Voice

# An installed package would be found whatever the path is, so importing it is made to fail.
_ALONE = """
import sys
sys.modules["myxtts"] = sys.modules["dual_device_strategy"] = None
import numpy as np, soundfile, tensorflow as tf
with tf.device("CPU:0"):
    voice = tf.saved_model.load(sys.argv[1])
    waveform, rate = soundfile.read(sys.argv[2], dtype="float32")
    cloned = voice.clone(waveform)
    tokens = voice.tokens("Good  day, my friend.", "en")
    whole = voice.speak(tokens, cloned["latents"], cloned["speaker"])["waveform"]
    cold = voice.speak(tokens, cloned["latents"], cloned["speaker"], temperature=0.0, seed=3)
    try:
        voice.tokens("good", "tlh")
    except tf.errors.InvalidArgumentError as error:
        assert "no language" in str(error)
np.savez(sys.argv[3], whole=whole, cold=cold["waveform"], tokens=tokens, latents=cloned["latents"])
"""


@pytest.mark.slow
def test_it_says_the_same_in_a_process_without_the_package(
    finished_run, recordings, tmp_path, run_python
):
    voice = Voice.load(finished_run.path)
    out = export(voice, tmp_path / "exported")
    facts = json.loads((out / "voice.json").read_text())
    assert facts["sample_rate"] == 22050 and facts["languages"] == ["en", "fa"]
    (tmp_path / "alone.py").write_text(_ALONE)
    arguments = [tmp_path / "alone.py", out, recordings[0], tmp_path / "said.npz"]
    found = run_python(arguments)
    assert found.returncode == 0, found.stderr[-2000:]
    said = np.load(tmp_path / "said.npz")
    waveform, _ = soundfile.read(recordings[0], dtype="float32")
    cloned = voice.clone([waveform])
    np.testing.assert_allclose(said["latents"], cloned.latents, atol=1e-5)
    text = "good day, my friend."
    np.testing.assert_array_equal(said["tokens"], voice.vocabulary.encode(text, "en"))
    np.testing.assert_allclose(said["whole"], voice.speak(text, "en", cloned), atol=1e-5)
    cold = voice.speak(text, "en", cloned, Speaking(temperature=0.0, seed=3))
    np.testing.assert_allclose(said["cold"], cold, atol=1e-5)


def test_a_voice_of_phonemes_has_an_input_of_that_name(finished_run, monkeypatch):
    voice = Voice.load(finished_run.path)
    assert _inputs(ExportedVoice(voice)) == ["text", "language"]
    monkeypatch.setattr(voice.vocabulary, "phonemes", True)
    assert _inputs(ExportedVoice(voice)) == ["phonemes", "language"]


def _inputs(module):
    positional, named = module.tokens.get_concrete_function().structured_input_signature
    return [spec.name for spec in (*positional, *named.values())]


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="name a new directory"):
        export(None, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
