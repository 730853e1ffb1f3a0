"""The command, in one process but for its own: files, batches, streams, and every mistake."""

import io
import sys
import wave

import numpy as np
import pytest
import soundfile
from absl import flags

from myxtts import UserError, synthesis
from myxtts.voice import Voice


@pytest.fixture(scope="module")
def loaded(finished_run):
    """Loading and tracing the voice takes seconds; this is done once for all these runs."""
    return Voice.load(finished_run.path)


@pytest.fixture
def say(finished_run, loaded, recordings, monkeypatch):
    """Runs the command with usual arguments and those given; None leaves one out."""
    load = Voice.load

    def load_once(path, vocoder=None):
        usual = str(path) == str(finished_run.path) and vocoder is None
        return loaded if usual else load(path, vocoder)

    monkeypatch.setattr(Voice, "load", load_once)

    def run(**given):
        values = flags.FlagValues()
        synthesis.define_flags(values)
        usual = {"checkpoint": finished_run.path, "text": "good day.", "language": "en"}
        usual["speaker_wav"] = recordings[0]
        arguments = {**usual, **given}
        values(["", *(f"--{k}={v}" for k, v in arguments.items() if v is not None)])
        synthesis.main([""], values)

    return run


def test_a_text_becomes_a_wav_file(say, tmp_path, capsys):
    say(out=tmp_path / "a" / "out.wav")
    info = soundfile.info(tmp_path / "a" / "out.wav")
    assert (info.samplerate, info.channels, info.subtype) == (22050, 1, "PCM_16")
    assert info.frames % 256 == 0 and info.frames > 0
    assert "out.wav: " in capsys.readouterr().out


def test_streamed_and_whole_files_hold_the_same(say, tmp_path, capsys):
    for name, stream in (("whole.wav", False), ("stream.wav", True), ("stream.raw", True)):
        say(out=tmp_path / name, stream=stream, text="good day. how are you, my friend?")
    assert "first chunk after" in capsys.readouterr().out
    whole, streamed = (
        soundfile.read(tmp_path / name, dtype="int16")[0] for name in ("whole.wav", "stream.wav")
    )
    raw = np.frombuffer((tmp_path / "stream.raw").read_bytes(), "<i2")
    np.testing.assert_array_equal(streamed, raw)
    assert np.abs(whole.astype(int) - streamed).max() <= 1


def test_the_file_is_a_whole_recording_after_every_chunk(tmp_path):
    with synthesis.chunk_writer(tmp_path / "a.wav", 22050) as write:
        for count in (1, 2, 3):
            write(synthesis.pcm16(np.full(1000, 0.5, np.float32)))
            with wave.open(str(tmp_path / "a.wav")) as so_far:
                assert so_far.getnframes() == 1000 * count
                assert len(so_far.readframes(9999)) == 2000 * count


def test_a_stream_to_standard_output_is_bare_samples(say, monkeypatch):
    out = io.BytesIO()
    out.buffer = out
    monkeypatch.setattr(sys, "stdout", out)
    say(out="-", stream=True)
    assert len(out.getvalue()) % 512 == 0 and len(out.getvalue()) > 512


def test_samples_beyond_full_scale_are_cut_off():
    found = np.frombuffer(synthesis.pcm16(np.array([0, 0.5, 1, 3, -3], np.float32)), "<i2")
    assert found.tolist() == [0, 16384, 32767, 32767, -32767]


def test_a_file_of_texts_becomes_a_directory(say, tmp_path, recordings):
    lines = tmp_path / "lines.tsv"
    voices = ",".join(recordings[:2])
    lines.write_text(f"one\tgood day.\n\ntwo.wav\tسلام\tfa\nthree\tgood day.\ten\t{voices}\n")
    say(text=None, batch_file=lines, out=tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "one.wav",
        "three.wav",
        "two.wav",
    ]
    say(out=tmp_path / "alone.wav")
    assert (tmp_path / "out/one.wav").read_bytes() == (tmp_path / "alone.wav").read_bytes()
    assert (tmp_path / "out/three.wav").read_bytes() != (tmp_path / "alone.wav").read_bytes()


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("one\n", r"line 1: 2 to 4 columns with tabs between them"),
        ("one\tgood day\n../two\tgood day\n", r"line 2: '../two' must be a file name without"),
        ("one\tgood\none.wav\tday\n", r"line 2: the name 'one' was given before"),
        ("one\tgood\ttlh\n", "no language 'tlh'"),
        ("one\tgood\ten\tnone.wav\n", "none.wav does not exist"),
        ("one\tgood day\ntwo\t...\n", "holds nothing to say"),
        ("\n", "holds no texts"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_line_is_told_before_anything_is_said(say, tmp_path, lines, sentence):
    path = tmp_path / "lines.tsv"
    if lines is not None:
        path.write_text(lines)
    with pytest.raises(UserError, match=sentence):
        say(text=None, batch_file=path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_are_told_in_one_sentence(say, tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(44100), 22050)
    soundfile.write(tmp_path / "short.wav", 0.1 * np.ones(6615), 22050)
    (tmp_path / "file").write_text("")
    for given, sentence in (
        ({"text": ""}, "holds nothing to say"),
        ({"text": None}, "either --text or --batch_file"),
        ({"checkpoint": None}, "--checkpoint is missing"),
        ({"checkpoint": tmp_path / "no"}, "no does not exist"),
        ({"checkpoint": tmp_path}, "is no training run"),
        ({"speaker_wav": None}, "--speaker_wav is missing"),
        ({"speaker_wav": tmp_path / "no.wav"}, "no.wav does not exist"),
        ({"speaker_wav": tmp_path / "silent.wav"}, "silent.wav is silent"),
        ({"speaker_wav": tmp_path / "short.wav"}, r"has 0\.30 s"),
        ({"language": "tlh"}, "no language 'tlh'"),
        ({"language": None}, "--language is missing; the voice speaks en, fa"),
        ({"out": tmp_path / "out.mp3"}, r"must end in \.wav"),
        ({"out": tmp_path / "file" / "out.wav"}, "cannot be written"),
        ({"temperature": -1}, "temperature must be"),
        ({"stream": True, "batch_file": "x", "text": None}, "leave it out with --batch_file"),
    ):
        with pytest.raises(UserError, match=sentence) as refused:
            say(**{"out": tmp_path / "out.wav", **given})
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.slow
def test_the_command_ends_with_one_sentence_and_code_1(run_python, finished_run):
    found = run_python(["-m", "myxtts.synthesis", f"--checkpoint={finished_run.path}", "--text=hi"])
    assert found.returncode == 1
    said = found.stderr.strip().splitlines()[-1]
    assert said.startswith("error: --speaker_wav is missing") and "Traceback" not in found.stderr
