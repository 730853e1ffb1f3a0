"""Good clips become 22,050 Hz mono 16-bit; bad ones are named with a reason."""

import os
import struct

import numpy as np
import pytest
import soundfile

from myxtts.config import PrepareConfig
from myxtts.corpus import clips, wav
from myxtts.corpus.bad_clip import BadClip
from myxtts.corpus.clips import check_path, prepare_clip

SETTINGS = PrepareConfig()


@pytest.fixture
def prepared(tmp_path):
    def run(path, settings=SETTINGS, known=None):
        return prepare_clip(path, tmp_path / "copies", settings, known)

    return run


def samples_of(clip, path, tmp_path):
    """What the reader cuts out of the file."""
    file = tmp_path / "copies" / clip.copy if clip.copy else path
    content = file.read_bytes()
    end = clip.data_offset + 2 * clip.samples
    assert len(content) >= end
    return np.frombuffer(content[clip.data_offset : end], "<i2")


def test_a_clip_in_the_training_format_is_used_where_it_is(tmp_path, write_audio, prepared):
    path = write_audio(tmp_path / "a.wav")
    clip = prepared(path)
    assert (clip.copy, clip.data_offset, clip.samples) == ("", 44, 22050)
    np.testing.assert_array_equal(
        samples_of(clip, path, tmp_path), soundfile.read(path, dtype="int16")[0]
    )


def wav_bytes(pcm, chunks_before=b"", tag=1, declared=None):
    form = struct.pack("<HHIIHH", tag, 1, 22050, 44100, 2, 16)
    if tag == 0xFFFE:
        form += struct.pack("<HHI", 22, 16, 4) + bytes.fromhex("0100000000001000800000aa00389b71")
    size = len(pcm) if declared is None else declared
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + chunks_before
    body += b"data" + struct.pack("<I", size) + pcm
    return b"RIFF" + struct.pack("<I", min(len(body), 2**32 - 1)) + body


@pytest.mark.parametrize(
    "header",
    [
        {"chunks_before": b"LIST\x03\0\0\0abc\0"},
        {"tag": 0xFFFE},
        {"declared": 0xFFFFFFFF},
    ],
    ids=["odd chunk before the samples", "extensible header", "size not filled in"],
)
def test_unusual_headers_need_no_copy(tmp_path, prepared, header):
    pcm = (8000 * np.sin(np.arange(22050) / 9)).astype("<i2")
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(pcm.tobytes(), **header))
    clip = prepared(path)
    assert clip.reason == "" and clip.copy == ""
    np.testing.assert_array_equal(samples_of(clip, path, tmp_path), pcm)


@pytest.mark.parametrize(
    ("name", "audio"),
    [
        ("stereo.wav", {"channels": 2}),
        ("fast.wav", {"rate": 48000}),
        ("slow.wav", {"rate": 8000}),
        ("deep.wav", {"subtype": "PCM_24"}),
        ("bytes.wav", {"subtype": "PCM_U8"}),
        ("float.wav", {"subtype": "FLOAT"}),
        ("free.flac", {"rate": 44100}),
        ("vorbis.ogg", {"subtype": "VORBIS", "rate": 44100}),
        ("small.opus", {"subtype": "OPUS", "rate": 48000}),
        ("old.mp3", {"subtype": "MPEG_LAYER_III", "rate": 44100}),
    ],
)
def test_every_other_kind_is_copied_and_sounds_the_same(
    tmp_path, write_audio, prepared, name, audio
):
    clip = prepared(write_audio(tmp_path / name, 2.0, **audio))
    assert clip.reason == "", clip.detail
    heard = samples_of(clip, None, tmp_path) / 32768
    assert abs(clip.samples - 44100) < 3000  # lossy codecs pad
    time = np.arange(len(heard)) / 22050
    wanted = 0.3 * np.sin(2 * np.pi * (200 + 100 * time) * time)
    # Codecs shift by some milliseconds: the best alignment counts.
    best = min(
        np.abs(heard[4000 + shift : 34000 + shift] - wanted[4000:34000]).max()
        for shift in range(-1500, 1500)
    )
    assert best < 0.02


def test_a_flac_at_the_right_rate_loses_no_bit(tmp_path, write_audio, prepared):
    path = write_audio(tmp_path / "a.flac")
    clip = prepared(path)
    np.testing.assert_array_equal(
        samples_of(clip, path, tmp_path), soundfile.read(path, dtype="int16")[0]
    )


def cut(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def bad_clips(tmp_path, write_audio):
    """(path, reason, part of the detail)"""
    quiet = np.full(22050, 10 ** (-61 / 20)) * np.sin(np.arange(22050))
    nan = np.zeros(22050, np.float32) + 0.1
    nan[100] = np.nan
    clipped = np.sin(np.arange(22050) / 50)
    clipped[:400] = 1.0
    opposite = np.sin(np.arange(22050) / 9)[:, None] * [0.5, -0.5]
    (tmp_path / "nothing.wav").write_bytes(b"")
    (tmp_path / "noise.wav").write_bytes(os.urandom(5000))
    (tmp_path / "noise.flac").write_bytes(b"fLaC" + bytes(5000))
    (tmp_path / "noise.mp3").write_bytes(bytes(5000))
    (tmp_path / "noise.ogg").write_bytes(b"OggS" + bytes(5000))
    write_audio(tmp_path / "right.flac").rename(tmp_path / "wrong.wav")
    for name in ("cut.wav", "cut.flac"):
        cut(write_audio(tmp_path / name, 3.0), 0.6)
    cut(write_audio(tmp_path / "cut.ogg", 3.0, subtype="VORBIS"), 0.6)
    cut(write_audio(tmp_path / "cut.mp3", 3.0, subtype="MPEG_LAYER_III"), 0.6)
    return [
        (tmp_path / "nothing.wav", "empty", "no bytes"),
        (write_audio(tmp_path / "none.wav", 0.0), "empty", "no samples"),
        (write_audio(tmp_path / "quiet.wav", samples=quiet), "silent", "-6"),
        (write_audio(tmp_path / "opposite.wav", samples=opposite), "silent", "dBFS"),
        (
            write_audio(tmp_path / "nan.wav", samples=nan, subtype="FLOAT"),
            "not a number",
            "1 samples",
        ),
        (write_audio(tmp_path / "clip.wav", samples=clipped), "clipped", "2.4%"),
        (write_audio(tmp_path / "short.wav", 0.29), "too short", "0.29 s"),
        (write_audio(tmp_path / "long.wav", 20.1), "too long", "20.1 s"),
        (
            write_audio(tmp_path / "long.mp3", 25.0, subtype="MPEG_LAYER_III"),
            "too long",
            "s, the longest",
        ),
        (tmp_path / "noise.wav", "unreadable", ""),
        (tmp_path / "noise.flac", "unreadable", ""),
        (tmp_path / "noise.mp3", "unreadable", ""),
        (tmp_path / "noise.ogg", "unreadable", ""),
        (tmp_path / "wrong.wav", "wrong extension", ".wav holds fLaC data"),
        (tmp_path / "cut.wav", "truncated", "bytes of samples are missing"),
        (tmp_path / "cut.flac", "truncated", ""),
        (tmp_path / "cut.ogg", "truncated", ""),
        (tmp_path / "cut.mp3", "truncated", ""),
    ]


def test_every_kind_of_bad_clip_is_told_with_its_reason(tmp_path, write_audio, prepared):
    wrong = []
    for path, reason, detail in bad_clips(tmp_path, write_audio):
        clip = prepared(path)
        if clip.reason != reason or detail not in clip.detail:
            wrong.append((path.name, reason, clip))
    assert wrong == []
    assert not (tmp_path / "copies").exists()


def test_limits_are_settings(tmp_path, write_audio, prepared):
    path = write_audio(tmp_path / "a.wav", 0.2)
    assert prepared(path, PrepareConfig(min_seconds=0.1)).reason == ""
    path = write_audio(tmp_path / "b.wav", 2.0)
    assert prepared(path, PrepareConfig(max_seconds=1.9)).reason == "too long"


def test_silence_is_trimmed_and_loudness_brought_to_the_target(tmp_path, write_audio, prepared):
    tone = 0.05 * np.sin(np.arange(22050) / 9)
    path = write_audio(
        tmp_path / "a.wav", samples=np.concatenate([np.zeros(22050), tone, np.zeros(22050)])
    )
    clip = prepared(path, PrepareConfig(trim_silence_db=40.0, loudness_dbfs=-20.0))
    assert clip.copy and clip.samples + clip.trimmed == 3 * 22050
    assert 22050 <= clip.samples < 22050 + 2 * 1102 + 2048
    heard = samples_of(clip, path, tmp_path)[3000:-3000] / 32768
    assert 20 * np.log10(np.sqrt(np.mean(heard**2))) == pytest.approx(-20, abs=0.3)


def test_a_known_clip_is_decoded_again_only_when_its_content_changed(
    tmp_path, write_audio, prepared, monkeypatch
):
    path = write_audio(tmp_path / "a.flac", 1.0)
    first = prepared(path)
    decoded = []
    monkeypatch.setattr(clips, "_decode", lambda *a: decoded.append(a))
    os.utime(path, (1, 1))
    assert prepared(path, known=first) == first and decoded == []
    monkeypatch.undo()
    write_audio(path, 1.5)
    second = prepared(path, known=first)
    assert second.samples == 33075 and second.copy != first.copy


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        ("../a.wav", "path escapes the corpus", "../"),
        ("wavs/../../a.wav", "path escapes the corpus", "../"),
        ("wavs\\..\\a.wav", "path escapes the corpus", "../"),
        ("/etc/a.wav", "path escapes the corpus", "absolute"),
        ("C:/a.wav", "path escapes the corpus", "absolute"),
        ("out/a.wav", "path escapes the corpus", "symbolic link"),
        ("out.wav", "path escapes the corpus", "symbolic link"),
        ("", "path missing", ""),
        ("a.m4a", "wrong extension", ".m4a"),
        ("a", "wrong extension", "none"),
        ("a\t.wav", "unreadable", "control"),
    ],
)
def test_a_path_may_not_leave_the_corpus(tmp_path, write_audio, name, reason, detail):
    root = tmp_path / "corpus"
    write_audio(tmp_path / "outside" / "a.wav")
    root.mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out.wav").symlink_to(tmp_path / "outside" / "a.wav")
    with pytest.raises(BadClip) as bad:
        check_path(root, name)
    assert bad.value.reason == reason and detail in bad.value.detail


def test_links_inside_the_corpus_and_a_linked_corpus_are_fine(tmp_path, write_audio):
    write_audio(tmp_path / "real" / "a.wav")
    (tmp_path / "real" / "b.wav").symlink_to("a.wav")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    check_path(tmp_path / "real", "b.wav")
    check_path(tmp_path / "linked", "b.wav")


def test_what_is_no_file_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "folder.wav").mkdir()
    for name in ("pipe.wav", "folder.wav"):
        with pytest.raises(BadClip, match="not a regular file"):
            clips.file_state(tmp_path / name)
    with pytest.raises(BadClip, match="not found"):
        clips.file_state(tmp_path / "none.wav")


def test_a_written_wav_has_the_plain_header(tmp_path):
    wav.write_pcm16(tmp_path / "x" / "a.wav", bytes(2000), 22050)
    assert wav.read_header(tmp_path / "x" / "a.wav") == wav.WavHeader(
        True, channels=1, sample_rate=22050, data_offset=44, data_bytes=2000, missing_bytes=0
    )
    assert os.listdir(tmp_path / "x") == ["a.wav"]
