"""Every corpus layout is recognised, read, and can be named."""

import pytest

from myxtts import UserError
from myxtts.corpus import formats
from myxtts.corpus.formats import ReadOptions, Row, choose_format


def read(root, name="auto", **options):
    options = ReadOptions(**options)
    chosen = choose_format(root, name, options)
    return chosen.name, list(chosen.read(root, options))


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_ljspeech_takes_the_normalised_text_and_keeps_quotation_marks(tmp_path):
    put(tmp_path / "metadata.csv", 'LJ1|Dr. "A"|Doctor "A"\nLJ2|only raw|\n\n')
    (tmp_path / "wavs").mkdir()
    assert read(tmp_path) == (
        "ljspeech",
        [
            Row("LJ1", "wavs/LJ1.wav", 'Doctor "A"'),
            Row("LJ2", "wavs/LJ2.wav", "only raw"),
        ],
    )


def test_a_header_names_the_columns_whatever_their_order(tmp_path):
    put(tmp_path / "metadata_val.csv", '\ufeffspeaker,text,audio_file\r\nann,"Hi, you",a.wav\r\n')
    (tmp_path / "wavs").mkdir()
    assert read(tmp_path) == ("coqui", [Row("a.wav", "wavs/a.wav", "Hi, you", "ann")])


def test_coqui_rows_carry_speaker_and_language(tmp_path):
    put(tmp_path / "metadata.csv", "wavs/a.wav|Hello.|ann|en\nwavs/b.flac|سلام|bob|fa\n")
    assert read(tmp_path) == (
        "coqui",
        [
            Row("wavs/a.wav", "wavs/a.wav", "Hello.", speaker="ann", language="en"),
            Row("wavs/b.flac", "wavs/b.flac", "سلام", speaker="bob", language="fa"),
        ],
    )


def test_train_and_val_directories_may_name_their_files_as_they_like(tmp_path):
    put(tmp_path / "train" / "list_of_mine.csv", "id|text\na|One.\n")
    put(tmp_path / "val" / "x.csv", "b|Two.|Two.\n")
    put(tmp_path / "val" / "y.csv", "")
    (tmp_path / "val" / "sound").mkdir()
    assert read(tmp_path / "train") == ("ljspeech", [Row("a", "a.wav", "One.")])
    assert read(tmp_path / "val", metadata="x.csv", audio_dir="sound") == (
        "ljspeech",
        [Row("b", "sound/b.wav", "Two.")],
    )


def test_vctk_takes_the_first_microphone_and_the_speaker_from_the_folder(tmp_path):
    put(tmp_path / "txt" / "p225" / "p225_001.txt", "Please call Stella.\n")
    for name in ("p225_001_mic1.flac", "p225_001_mic2.flac", "p225_002_mic1.flac", "log.txt"):
        put(tmp_path / "wav48_silence_trimmed" / "p225" / name)
    name, rows = read(tmp_path)
    assert name == "vctk"
    folder = "wav48_silence_trimmed/p225"
    assert rows[0] == Row(
        "p225_001",
        f"{folder}/p225_001_mic1.flac",
        "Please call Stella.",
        speaker="p225",
        language="en",
    )
    assert [row.path for row in rows[1:]] == [f"{folder}/p225_002_mic1.flac"]
    assert rows[1].problem.args == ("text missing", "no p225_002.txt")


def test_libritts_is_found_with_and_without_its_subset_folders(tmp_path):
    for root in (tmp_path / "a", tmp_path / "b" / "train-clean-100"):
        put(root / "19" / "198" / "19_198_000000_000000.wav")
        put(root / "19" / "198" / "19_198_000000_000000.normalized.txt", "Northanger.")
    for root, subset in ((tmp_path / "a", ""), (tmp_path / "b", "train-clean-100/")):
        stem = "19_198_000000_000000"
        path = f"{subset}19/198/{stem}.wav"
        assert read(root) == (
            "libritts",
            [Row(stem, path, "Northanger.", speaker="19", language="en")],
        )


def test_common_voice_reads_the_table_asked_for(tmp_path):
    header = "client_id\tpath\tsentence_id\tsentence\tlocale\n"
    put(tmp_path / "train.tsv", header + "abc\tx_1.mp3\t9\tسلام\tfa\n")
    put(tmp_path / "dev.tsv", header + 'abc\tx_2\t9\tHi "you\tfa\n')
    (tmp_path / "clips").mkdir()
    row = Row("x_1.mp3", "clips/x_1.mp3", "سلام", speaker="abc", language="fa")
    assert read(tmp_path) == ("common_voice", [row])
    row = Row("x_2.mp3", "clips/x_2.mp3", 'Hi "you', "abc", "fa")
    assert read(tmp_path, metadata="dev.tsv") == ("common_voice", [row])


def test_a_line_that_is_not_utf8_is_kept_with_its_problem(tmp_path):
    put(tmp_path / "metadata.csv", b"a|Caf\xe9|Caf\xe9\nb|Good|Good\n")
    _, rows = read(tmp_path)
    assert rows[0].problem.args == ("text missing", "line 1 of metadata.csv is not UTF-8")
    assert rows[1].problem is None and rows[1].text == "Good"


def test_a_new_format_is_a_few_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", dict(formats.FORMATS))

    @formats.corpus_format(
        "mine", "text beside each wav", found=lambda root, options: (root / "mine").exists()
    )
    def read_mine(root, options):
        for wav in sorted(root.glob("*/*.wav")):
            text = wav.with_suffix(".txt").read_text()
            yield Row(wav.stem, f"{wav.parent.name}/{wav.name}", text, wav.parent.name)

    put(tmp_path / "mine")
    put(tmp_path / "ann" / "1.wav")
    put(tmp_path / "ann" / "1.txt", "Hello.")
    assert read(tmp_path) == ("mine", [Row("1", "ann/1.wav", "Hello.", "ann")])
    with pytest.raises(ValueError, match="registered already"):
        formats.corpus_format("mine", "")(read_mine)


def test_what_cannot_be_recognised_or_found_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no corpus format that is recognised.*ljspeech"):
        read(tmp_path)
    with pytest.raises(UserError, match=r"--format=lj is unknown; known: auto.*vctk"):
        read(tmp_path, "lj")
    with pytest.raises(UserError, match="holds no metadata table"):
        read(tmp_path, "ljspeech")
    with pytest.raises(UserError, match=r"metadata file .*none.csv cannot be read"):
        read(tmp_path, "coqui", metadata="none.csv")
    put(tmp_path / "train.tsv", "no\theader\n")
    with pytest.raises(UserError, match="no header line"):
        read(tmp_path, "common_voice")
