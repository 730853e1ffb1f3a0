"""Preparing: nothing lost, nothing done twice, stopped and continued, refused in one sentence."""

import hashlib
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts import UserError
from myxtts.config import PrepareConfig
from myxtts.corpus import prepare as prepare_module
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.corpus.workers import WorkerDied, in_order
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]


def run(root, settings=None, **kwargs):
    source = kwargs.pop("source", None) or Source(root)
    return prepare(source, settings, workers=2, progress=False, **kwargs)


def table(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


def test_a_corpus_becomes_a_manifest_in_its_own_order(ljspeech):
    root = ljspeech(12)
    prepared, summary = run(root)
    rows = table(prepared / "manifest.tsv")
    assert [row[0] for row in rows] == [f"../wavs/c{i:03d}.wav" for i in range(12)]
    assert rows[3] == [
        "../wavs/c003.wav", "This is sentence number 3.", "corpus", "en", "0.529977", "46", "44",
    ]  # fmt: skip
    assert table(prepared / "rejected.tsv") == []
    assert summary.clips == 12 and summary.copies == 0
    assert not list((prepared / "clips").iterdir())
    corpus = Corpus.load(prepared)
    assert corpus.samples.tolist() == [int((0.5 + 0.01 * i) * 22050) for i in range(12)]
    assert all(os.path.isfile(path) for path in corpus.paths)


def test_only_clips_that_need_it_are_copied(ljspeech, write_audio):
    root = ljspeech(6)
    write_audio(root / "wavs" / "c002.wav", 1.0, rate=44100)
    prepared, summary = run(root)
    paths = [row[0] for row in table(prepared / "manifest.tsv")]
    assert summary.copies == 1 and paths[2].startswith("clips/") and paths[1] == "../wavs/c001.wav"


def test_bad_clips_are_named_with_their_reason_and_the_good_ones_go_on(ljspeech, write_audio):
    root = ljspeech(20)
    (root / "wavs" / "c001.wav").write_bytes(b"")
    (root / "wavs" / "c002.wav").unlink()
    with open(root / "metadata.csv", "a", encoding="utf-8") as file:
        file.write("c003|Again.|Again.\n../../../etc/x|Out.|Out.\nc000b|x|...\n")
    write_audio(root / "wavs" / "c000b.wav")
    prepared, summary = run(root, max_rejected=0.25)
    rejected = {row[1]: (row[2], row[3]) for row in table(prepared / "rejected.tsv")}
    assert rejected == {
        "c001": ("empty", "the file holds no bytes"),
        "c002": ("not found", "No such file or directory"),
        "c003": ("duplicate id", "c003 stands for an earlier clip"),
        "../../../etc/x": ("path escapes the corpus", "it goes up with ../"),
        "c000b": ("text missing", "nothing to speak"),
    }
    assert summary.clips == 18 and len(table(prepared / "manifest.tsv")) == 18
    assert "rejected   5 (21.7%)" in (prepared / "summary.txt").read_text()


def test_too_many_bad_clips_stop_with_the_commonest_reasons(ljspeech):
    root = ljspeech(10)
    for i in range(3):
        (root / "wavs" / f"c00{i}.wav").write_bytes(b"")
    with pytest.raises(UserError, match=r"30% of the clips .* allowed are 20%: empty \(3\); see"):
        run(root)
    prepared = root / "prepared"
    assert len(table(prepared / "rejected.tsv")) == 3 and not (prepared / "manifest.tsv").exists()
    _, summary = run(root, max_rejected=0.3)
    assert summary.clips == 7


def counting(monkeypatch):
    """The paths that are sent to a worker."""
    sent = []

    def spy(module, settings, tasks, workers):
        def watched():
            for item, request in tasks:
                if request:
                    sent.append(request["path"])
                yield item, request

        return in_order(module, settings, watched(), workers)

    monkeypatch.setattr(prepare_module, "in_order", spy)
    return sent


def test_a_second_run_reads_only_what_changed(ljspeech, write_audio, monkeypatch):
    root = ljspeech(10, rate=44100)
    first, _ = run(root)
    manifest = (first / "manifest.tsv").read_bytes()
    sent = counting(monkeypatch)
    run(root)
    assert sent == [] and (first / "manifest.tsv").read_bytes() == manifest
    os.utime(root / "wavs" / "c004.wav")  # touched, but the same
    write_audio(root / "wavs" / "c007.wav", 1.7, rate=44100)
    before = {path.name for path in (first / "clips").rglob("*.wav")}
    run(root)
    after = {path.name for path in (first / "clips").rglob("*.wav")}
    assert sent == ["wavs/c004.wav", "wavs/c007.wav"]
    assert len(after) == 10 and len(before - after) == 1  # the copy of the old c007 is gone
    assert table(first / "manifest.tsv")[7][4] == "1.700000"


def test_other_settings_prepare_again_and_a_lost_copy_is_made_again(ljspeech, monkeypatch):
    root = ljspeech(4, rate=16000)
    prepared, _ = run(root)
    sent = counting(monkeypatch)
    next((prepared / "clips").rglob("*.wav")).unlink()
    run(root)
    assert len(sent) == 1
    run(root, PrepareConfig(loudness_dbfs=-25.0))
    assert len(sent) == 5 and len(list((prepared / "clips").rglob("*.wav"))) == 4


def test_clips_that_leave_the_corpus_leave_no_copy_behind(ljspeech):
    root = ljspeech(5, rate=16000)
    prepared, _ = run(root)
    lines = (root / "metadata.csv").read_text().splitlines(keepends=True)
    (root / "metadata.csv").write_text("".join(lines[:3]))
    run(root)
    assert len(list((prepared / "clips").rglob("*.wav"))) == 3


def test_a_corpus_that_cannot_be_written_is_prepared_elsewhere_and_found_there(ljspeech, tmp_path):
    root = ljspeech(5)
    prepared, _ = run(root, prepared=tmp_path / "else" / "where")
    assert not (root / "prepared").exists()
    assert Corpus.load(prepared).paths[0] == str(root / "wavs" / "c000.wav")


def test_the_audio_in_the_manifest_is_the_audio_of_the_clip(ljspeech):
    root = ljspeech(3, rate=44100)
    corpus = Corpus.load(run(root)[0])
    for i in range(3):
        content = Path(corpus.paths[i]).read_bytes()
        begin = corpus.data_offsets[i]
        heard = np.frombuffer(content[begin : begin + 2 * corpus.samples[i]], "<i2") / 32768
        time = np.arange(len(heard)) / 22050
        wanted = 0.3 * np.sin(2 * np.pi * (200 + 100 * time) * time)
        assert np.abs(heard - wanted)[1000:-1000].max() < 0.005


def lay_out_as(layout, root, spoken):
    """The first clips of the spoken corpus as another corpus would hold them."""
    rows = []
    for i in range(6):
        audio, _ = soundfile.read(spoken.paths[i])
        speaker = str(spoken.speaker_ids[i] + 1)
        text = spoken.texts[i]
        name, kind = {
            "common_voice": (f"clips/common_voice_en_{i}.mp3", "MPEG_LAYER_III"),
            "vctk": (f"wav48_silence_trimmed/p{speaker}/p{speaker}_{i:03d}_mic1.flac", "PCM_16"),
            "libritts": (f"train-clean/{speaker}/77/{speaker}_77_{i:06d}_000000.wav", "PCM_24"),
            "coqui": (f"sound/{i}.ogg", "VORBIS"),
        }[layout]
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, audio, 22050, subtype=kind)
        if layout == "vctk":
            transcript = root / "txt" / f"p{speaker}" / f"p{speaker}_{i:03d}.txt"
            transcript.parent.mkdir(parents=True, exist_ok=True)
            transcript.write_text(text)
        if layout == "libritts":
            path.with_suffix(".normalized.txt").write_text(text)
        rows.append((speaker, path.name, text))
    if layout == "common_voice":
        lines = ["client_id\tpath\tsentence\tlocale"]
        lines += [f"{speaker}\t{name}\t{text}\ten" for speaker, name, text in rows]
        (root / "train.tsv").write_text("\n".join(lines))
    if layout == "coqui":
        lines = [f"sound/{name}|{text}|{speaker}|en" for speaker, name, text in rows]
        (root / "metadata.csv").write_text("\n".join(lines))


@pytest.mark.parametrize("layout", ["common_voice", "vctk", "libritts", "coqui"])
def test_the_same_speech_in_any_layout_is_the_same_corpus(layout, tmp_path, spoken_corpus):
    root = tmp_path / layout
    lay_out_as(layout, root, spoken_corpus)
    prepared, summary = run(root)
    corpus = Corpus.load(prepared)
    assert summary.clips == 6 and summary.rejected.total() == 0
    by_text = {text: i for i, text in enumerate(corpus.texts)}
    assert by_text.keys() == set(spoken_corpus.texts[:6])
    for clip in range(6):
        i = by_text[spoken_corpus.texts[clip]]
        assert corpus.speakers[corpus.speaker_ids[i]].lstrip("p") == str(
            spoken_corpus.speaker_ids[clip] + 1
        )
        heard, wanted = (soundfile.read(c.paths[k])[0] for c, k in
                         ((corpus, i), (spoken_corpus, clip)))  # fmt: skip
        size = min(len(heard), len(wanted))
        spectra = np.fft.rfft(heard[:size], 2 * size), np.fft.rfft(wanted[:size], 2 * size)
        # Lossy codecs may shift by some milliseconds: the best alignment counts.
        match = np.fft.irfft(spectra[0] * spectra[1].conj()).max() / np.sqrt(
            np.square(heard).sum() * np.square(wanted).sum()
        )
        assert match > 0.99


def worker_processes(parent):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if b"myxtts.corpus.clips" in command and str(parent).encode() in command:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on_where_it_was(processes, ljspeech, sent, monkeypatch):
    root = ljspeech(400, rate=48000)
    process = processes.start(["-m", "myxtts.corpus", f"--train_data={root}", "--workers=2"])
    os.setpriority(os.PRIO_PROCESS, process.pid, 10)  # this test must not be the one that waits
    copies = root / "prepared" / "clips"
    # Long enough for some of the work to be on record, early enough for some to be left.
    wait_until(lambda: len(list(copies.rglob("*.wav"))) >= 150)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-9 if sent == signal.SIGKILL else 1)
    if sent == signal.SIGINT:
        assert errors.splitlines()[-1] == "stopped; the same command goes on from here"
    assert not (root / "prepared" / "manifest.tsv").exists()
    wait_until(lambda: not worker_processes(root))
    made = len(list(copies.rglob("*.wav")))
    assert made < 400
    before = counting(monkeypatch)
    prepared, summary = run(root)
    assert summary.clips == 400 and summary.rejected.total() == 0
    # At least 150 were done. Up to 64 of them were on their way to the ledger; a kill costs what
    # was not committed as well, at most 50 more.
    assert len(before) <= 400 - made + (70 if sent == signal.SIGINT else 120)
    assert len(before) <= 350
    assert not list(prepared.rglob("*.partial*"))
    monkeypatch.undo()
    fresh, _ = run(root, prepared=root.parent / "fresh")
    same = [row[1:] for row in table(prepared / "manifest.tsv")]
    assert same == [row[1:] for row in table(fresh / "manifest.tsv")]
    hashes = [
        sorted(hashlib.md5(p.read_bytes()).hexdigest() for p in d.rglob("*.wav"))
        for d in (prepared, fresh)
    ]
    assert hashes[0] == hashes[1]


def test_two_at_a_time_are_kept_apart(ljspeech):
    import sqlite3

    root = ljspeech(3)
    prepared, _ = run(root)
    other = sqlite3.connect(prepared / "clips.sqlite")
    other.execute("begin exclusive")
    with pytest.raises(UserError, match="another process is preparing this corpus"):
        run(root)
    other.close()


def test_a_clip_that_brings_the_decoder_down_is_rejected_not_the_run(ljspeech, monkeypatch):
    root = ljspeech(12)

    def deadly(module, settings, tasks, workers):
        for (item, _), answer in in_order(
            module, settings, (((i, r), r) for i, r in tasks), workers
        ):
            yield item, WorkerDied() if item[0].id == "c005" else answer

    monkeypatch.setattr(prepare_module, "in_order", deadly)
    prepared, _ = run(root)
    [row] = table(prepared / "rejected.tsv")
    assert row[1:] == ["c005", "unreadable", "decoding it ended the process"]
