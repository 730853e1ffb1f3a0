"""Speech made on the spot: many sentences and voices, the same on every run."""

import hashlib
import os

import numpy as np
import pytest
import soundfile

from myxtts import UserError
from myxtts.corpus import embedded
from myxtts.corpus.embedded import EmbeddedConfig, EmbeddedVoice, make
from myxtts.corpus.manifest import Corpus
from myxtts.text.normalise import normalise
from tests.waiting import at_rest, wait_until


def hashes(directory):
    return {
        path.name: hashlib.md5(path.read_bytes()).hexdigest()
        for path in (directory / "wavs").iterdir()
    }


def test_sentences_and_voices_follow_from_the_seed():
    def first(seed):
        clips = EmbeddedConfig(languages=("en", "fa"), seed=seed).clips()
        return [next(clips).file_name for _ in range(50)]

    assert first(1) == first(1) and not set(first(1)) & set(first(2))
    assert EmbeddedVoice.number(3) == EmbeddedVoice.number(3)
    voices = {
        (v.variant, v.rate, v.pitch, v.pitch_range) for v in map(EmbeddedVoice.number, range(200))
    }
    assert len(voices) == 200


def test_the_names_of_files_stay_as_they_are():
    """They decide which clips are held out, and a run goes on with the clips it has."""
    first = next(EmbeddedConfig(voices=2).clips())
    assert first.file_name == "wavs/en-voice000-ef7e14b8478619e4.wav"


def test_every_clip_is_the_same_on_every_run_whatever_was_said_before(spoken_directory, tmp_path):
    settings = EmbeddedConfig(minutes=0.5, voices=3, languages=("en", "fa"), seed=7)
    alone = hashes(make(tmp_path, settings, workers=1, progress=False))
    larger = hashes(spoken_directory)
    assert len(alone) >= 8
    assert {name: larger[name] for name in alone} == alone


def test_the_corpus_is_as_large_as_asked_and_can_grow(tmp_path):
    def minutes(wanted):
        make(tmp_path, EmbeddedConfig(minutes=wanted, voices=2), workers=2, progress=False)
        names = [line.split("|")[0] for line in (tmp_path / "metadata.csv").open()]
        return names, sum(soundfile.info(tmp_path / name).duration for name in names) / 60

    few, before = minutes(0.3)
    times = {name: os.stat(tmp_path / name).st_mtime_ns for name in few}
    more, after = minutes(0.8)
    assert 0.3 <= before < 0.4 and 0.8 <= after < 0.9
    assert more[: len(few)] == few
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in few} == times


def test_the_speech_is_speech(spoken_corpus):
    """What an ear would tell: loudness, pace, pauses, and voices that differ."""
    pitch: dict[int, list[float]] = {}
    for clip in range(len(spoken_corpus)):
        audio, rate = soundfile.read(spoken_corpus.paths[clip])
        assert rate == 22050 and 0.05 < np.abs(audio).max() < 1.0
        text = normalise(spoken_corpus.texts[clip], spoken_corpus.language_of(clip))
        letters = sum(c.isalpha() for c in text)
        assert 6 < letters / (len(audio) / rate) < 25, spoken_corpus.texts[clip]
        lead = np.flatnonzero(np.abs(audio) > 0.002)[[0, -1]]
        assert lead[0] <= 1200 and len(audio) - lead[1] <= 1200
        frames = np.lib.stride_tricks.sliding_window_view(audio, 1024)[::512]
        loud = frames[np.square(frames).mean(1) > 0.25 * np.square(frames).mean(1).max()]
        spectra = np.abs(np.fft.rfft(loud * np.hanning(1024), 4096)) ** 2
        auto = np.fft.irfft(spectra)[:, 70:300]  # 74 to 315 Hz
        pitch.setdefault(int(spoken_corpus.speaker_ids[clip]), []).append(
            float(np.median(22050 / (70 + auto.argmax(1))))
        )
    medians = sorted(float(np.median(values)) for values in pitch.values())
    assert len(medians) == 3 and 70 < medians[0] < medians[-1] < 320
    assert medians[-1] / medians[0] > 1.15


def test_speakers_and_languages_are_in_the_manifest(spoken_corpus):
    assert spoken_corpus.speakers == ("voice000", "voice001", "voice002")
    assert spoken_corpus.languages == ("en", "fa")
    counts = np.bincount(spoken_corpus.language_ids)
    assert abs(counts[0] - counts[1]) <= 1
    assert 3.0 <= spoken_corpus.hours * 60 < 3.2


def test_killed_in_the_middle_it_goes_on(processes, tmp_path):
    command = ["-m", "myxtts.corpus", "--embedded_minutes=30", "--workers=2"]
    process = processes.start([*command, f"--embedded_dir={tmp_path}/made"])
    wavs = tmp_path / "made" / "wavs"
    wait_until(lambda: wavs.exists() and len(os.listdir(wavs)) >= 40)
    process.kill()
    process.wait()
    at_rest(lambda: sorted(os.listdir(wavs)), turns=50)  # its workers end by themselves
    before = {p.name: p.stat().st_mtime_ns for p in wavs.glob("*.wav")}
    assert before
    settings = EmbeddedConfig(minutes=0.8)
    directory = make(tmp_path / "made", settings, workers=2, progress=False)
    fresh = make(tmp_path / "fresh", settings, workers=2, progress=False)
    made, wanted = hashes(directory), hashes(fresh)
    assert {name: made[name] for name in wanted} == wanted
    kept = {n: t for n, t in before.items() if n in wanted}
    assert kept and {n: (wavs / n).stat().st_mtime_ns for n in kept} == kept


def test_the_command_makes_and_prepares_it_and_says_so(run_python, tmp_path):
    flags = ["--embedded_minutes=0.2", "--embedded_voices=2", "--embedded_languages=en,fa"]
    done = run_python(["-m", "myxtts.corpus", *flags, f"--embedded_dir={tmp_path}/made"])
    assert done.returncode == 0, done.stderr
    said = "no --train_data: making 0.2 minutes of espeak-ng speech, 2 voices, en+fa in "
    assert sum(said in line for line in done.stderr.splitlines()) == 1
    assert len(Corpus.load(tmp_path / "made" / "prepared")) >= 3


def test_without_espeak_one_sentence_names_the_command_to_install_it(run_python, tmp_path):
    (tmp_path / "espeakng_loader.py").write_text("raise ImportError('not here')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"sys.argv = ['corpus', '--embedded_dir={tmp_path}/made']\n"
        "from absl import app; from myxtts.corpus import __main__ as c; app.run(c._run)"
    )
    done = run_python(code)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert last.startswith("error: espeak-ng is not installed; install it with `pip install")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"languages": ("en", "xx")}, "no sentences in 'xx'; it has de, en, es, fa, fr"),
        ({"voices": 0}, "at least one voice and more than 0 minutes, got 0 and 180"),
        ({"minutes": 0.0}, "got 4 and 0"),
    ],
)
def test_wrong_settings_are_said(wrong, message):
    with pytest.raises(UserError, match=message):
        EmbeddedConfig(**wrong)


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made in .*file.*--embedded_dir"):
        embedded.make(tmp_path / "file" / "x", EmbeddedConfig(), progress=False)
