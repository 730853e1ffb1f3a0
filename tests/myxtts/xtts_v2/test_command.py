"""`python -m myxtts.synthesis` with a published directory."""

import dataclasses

import numpy as np
import pytest
import soundfile
from absl import flags

from myxtts import UserError, synthesis
from myxtts.xtts_v2.voice import PublishedVoice
from tests.myxtts.xtts_v2 import formula


@pytest.fixture
def say(published_directory, published_voice, monkeypatch):
    """Runs the command; the voice is loaded and traced once for all runs."""
    monkeypatch.setattr(PublishedVoice, "of", lambda source: published_voice)

    def run(**given):
        values = flags.FlagValues()
        synthesis.define_flags(values)
        arguments = {
            "checkpoint": published_directory,
            "text": "good day.",
            "language": "en",
            **given,
        }
        values(["", *(f"--{k}={v}" for k, v in arguments.items() if v is not None)])
        synthesis.main([""], values)

    return run


def test_a_published_directory_speaks_with_a_voice_of_its_own(
    say, published_voice, tmp_path, capsys
):
    say(out=tmp_path / "a.wav", speaker="Ana", seed=5)
    assert soundfile.info(tmp_path / "a.wav").samplerate == 24000
    assert "a.wav: " in capsys.readouterr().out
    # Drawn as config.json says, but for the seed.
    loaded = published_voice
    speaking = dataclasses.replace(loaded.speaking, seed=5)
    wanted = loaded.speak("good day.", "en", loaded.speaker("Ana"), speaking)
    found, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    np.testing.assert_allclose(found, np.clip(wanted, -1, 1), atol=1e-4)


def test_a_recording_gives_the_voice_and_streams_hold_the_same(say, tmp_path, capsys):
    soundfile.write(tmp_path / "voice.wav", formula.sound(1.5, 150, "a"), formula.RATE)
    voice = tmp_path / "voice.wav"
    for name, stream in (("whole.wav", False), ("stream.wav", True)):
        say(out=tmp_path / name, stream=stream, speaker_wav=voice, temperature=0.4)
    assert "first chunk after" in capsys.readouterr().out
    whole, streamed = (
        soundfile.read(tmp_path / name, dtype="int16")[0] for name in ("whole.wav", "stream.wav")
    )
    assert np.abs(whole.astype(int) - streamed).max() <= 1


def test_a_higher_speed_makes_a_shorter_file(say, tmp_path):
    for name, speed in (("a.wav", None), ("b.wav", 2.0)):
        say(out=tmp_path / name, speaker="Ana", speed=speed)
    plain, fast = (soundfile.info(tmp_path / name).frames for name in ("a.wav", "b.wav"))
    assert 1.8 < plain / fast < 2.2


@pytest.mark.parametrize(
    "given, told",
    [
        ({"speaker": "Bea"}, "no speaker 'Bea'; it has Ana"),
        ({"speaker": "Ana", "speaker_wav": "a.wav"}, "both name a voice"),
        ({"speaker": None}, "--speaker_wav is missing"),
        ({"speaker": "Ana", "vocoder": "griffin_lim"}, "leave --vocoder out"),
        ({"speaker": "Ana", "stream": True, "speed": 1.5}, "leave it out with --stream"),
        ({"speaker": "Ana", "language": "fa"}, "no language 'fa'"),
        ({"speaker": "Ana", "checkpoint": "."}, "is no training run"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(say, tmp_path, given, told):
    with pytest.raises(UserError, match=told):
        say(out=tmp_path / "a.wav", **given)
    assert not (tmp_path / "a.wav").exists()


def test_a_speaker_by_name_is_refused_for_a_run_of_ours(say, finished_run, tmp_path):
    with pytest.raises(UserError, match="--speaker is for a published XTTS v2"):
        say(out=tmp_path / "a.wav", speaker="Ana", checkpoint=finished_run.path)
