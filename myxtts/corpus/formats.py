"""The corpus formats that can be read, and the registry for new ones.

A format is a generator of `Row`s; paths are relative to the corpus. A row that cannot be read
carries its `problem` and is listed in rejected.tsv like any other bad clip:

    @corpus_format("mine", "one folder per speaker, text beside each wav")
    def read_mine(root, options):
        for wav in sorted(root.glob("*/*.wav")):
            text = wav.with_suffix(".txt").read_text(encoding="utf-8")
            yield Row(wav.stem, f"{wav.parent.name}/{wav.name}", text, speaker=wav.parent.name)
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from myxtts import UserError
from myxtts.corpus.bad_clip import BadClip
from myxtts.corpus.tables import metadata_file, read_table

# Extensions that libsndfile decodes and speech corpora use.
AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3")


@dataclasses.dataclass(frozen=True)
class Row:
    """One clip as its corpus describes it. An empty speaker or language takes the corpus's
    default."""

    id: str
    path: str
    text: str
    speaker: str = ""
    language: str = ""
    problem: BadClip | None = None


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What the user may say about a corpus; None: it is detected."""

    metadata: str | None = None
    audio_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class CorpusFormat:
    name: str
    looks: str
    found: Callable[[Path, ReadOptions], bool]
    read: Callable[[Path, ReadOptions], Iterator[Row]]


FORMATS: dict[str, CorpusFormat] = {}


def corpus_format(
    name: str,
    looks: str,
    found: Callable[[Path, ReadOptions], bool] = lambda root, options: False,
):
    """Registers a reader. `found(root, options)` says whether a directory is in this format."""

    def register(read):
        if name in FORMATS:
            raise ValueError(f"corpus format {name!r} is registered already")
        FORMATS[name] = CorpusFormat(name, looks, found, read)
        return read

    return register


def choose_format(
    root: Path, name: str = "auto", options: ReadOptions = ReadOptions()
) -> CorpusFormat:
    """The named format, or the first registered one that recognises the directory."""
    if name != "auto":
        if name not in FORMATS:
            raise UserError(f"--format={name} is unknown; known: auto, {', '.join(FORMATS)}")
        return FORMATS[name]
    for candidate in FORMATS.values():
        if candidate.found(root, options):
            return candidate
    known = "; ".join(f"{f.name} ({f.looks})" for f in FORMATS.values())
    raise UserError(
        f"{root} is in no corpus format that is recognised; name one with --format, or the "
        f"metadata file with --metadata. Known: {known}"
    )


def _folders(root: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(root) if entry.is_dir())


def _text_beside(root: Path, *names: str) -> tuple[str, BadClip | None]:
    """(text, problem) of a transcript: of the first of these files that exists."""
    for name in names:
        path = root / name
        try:
            if not path.resolve().is_relative_to(root.resolve()):
                return "", BadClip("path escapes the corpus", f"{name} leads out of it")
            return path.read_text(encoding="utf-8-sig").strip(), None
        except FileNotFoundError:
            continue
        except UnicodeDecodeError:
            return "", BadClip("text missing", f"{path.name} is not UTF-8")
    return "", BadClip("text missing", f"no {Path(names[0]).name}")


# Formats recognised by their folders come first, because a Common Voice or LibriTTS download may
# also have a stray metadata file.


@corpus_format(
    "common_voice",
    "train.tsv or validated.tsv beside clips/",
    found=lambda root, options: (
        (root / "clips").is_dir() and any((root / f"{n}.tsv").is_file() for n in _COMMON_VOICE)
    ),
)
def read_common_voice(root: Path, options: ReadOptions) -> Iterator[Row]:
    names = [options.metadata] if options.metadata else [f"{n}.tsv" for n in _COMMON_VOICE]
    table = next((root / name for name in names if (root / name).is_file()), root / names[0])
    folder = options.audio_dir or "clips"
    for cells, problem in read_table(table, delimiter="\t", header=True):
        path = cells.get("path", "")
        if path and not Path(path).suffix:
            path += ".mp3"  # the oldest releases leave the extension out
        yield Row(
            path,
            path=f"{folder}/{path}" if path else "",
            text=cells.get("text", ""),
            speaker=cells.get("speaker", ""),
            language=cells.get("language", ""),
            problem=problem,
        )


_COMMON_VOICE = ("train", "validated", "dev", "test")


def _vctk_audio(root: Path) -> str | None:
    folders = ("wav48_silence_trimmed", "wav48", "wav22", "wav")
    return next((name for name in folders if (root / name).is_dir()), None)


@corpus_format(
    "vctk",
    "txt/p225/p225_001.txt and wav48*/p225/p225_001*.flac or .wav",
    found=lambda root, options: (root / "txt").is_dir() and _vctk_audio(root) is not None,
)
def read_vctk(root: Path, options: ReadOptions) -> Iterator[Row]:
    folder = options.audio_dir or _vctk_audio(root)
    if folder is None:
        raise UserError(f"{root} has no wav48 or wav48_silence_trimmed folder, as VCTK has")
    for speaker in _folders(root / folder):
        for name in sorted(os.listdir(root / folder / speaker)):
            stem, extension = os.path.splitext(name)
            # Release 0.92 has each sentence from two microphones; the first is the one in general
            # use.
            if extension.lower() not in AUDIO_EXTENSIONS or stem.endswith("_mic2"):
                continue
            sentence = stem.removesuffix("_mic1")
            text, problem = _text_beside(root, f"txt/{speaker}/{sentence}.txt")
            yield Row(
                sentence,
                path=f"{folder}/{speaker}/{name}",
                text=text,
                speaker=speaker,
                language="en",
                problem=problem,
            )


def _libritts_chapters(root: Path) -> Iterator[tuple[str, str]]:
    """(speaker, chapter path relative to root); subsets such as train-clean-100 are walked too."""
    for first in _folders(root):
        if first.isdigit():
            yield from ((first, f"{first}/{c}") for c in _folders(root / first) if c.isdigit())
        elif not first.startswith("."):
            yield from (
                (speaker, f"{first}/{speaker}/{chapter}")
                for speaker in _folders(root / first)
                if speaker.isdigit()
                for chapter in _folders(root / first / speaker)
                if chapter.isdigit()
            )


@corpus_format(
    "libritts",
    "speaker/chapter/*.wav with *.normalized.txt",
    found=lambda root, options: any(
        any((root / chapter).glob("*.normalized.txt"))
        for _, chapter in itertools.islice(_libritts_chapters(root), 3)
    ),
)
def read_libritts(root: Path, options: ReadOptions) -> Iterator[Row]:
    del options
    for speaker, chapter in _libritts_chapters(root):
        for name in sorted(os.listdir(root / chapter)):
            stem, extension = os.path.splitext(name)
            if extension.lower() not in AUDIO_EXTENSIONS:
                continue
            text, problem = _text_beside(
                root, f"{chapter}/{stem}.normalized.txt", f"{chapter}/{stem}.original.txt"
            )
            yield Row(
                stem,
                path=f"{chapter}/{name}",
                text=text,
                speaker=speaker,
                language="en",
                problem=problem,
            )


def _audio_paths(root: Path, options: ReadOptions) -> Callable[[str], str]:
    """A function from a clip's name in a table to its path: as written, or in the audio folder,
    with `.wav` by default."""
    folder = options.audio_dir
    if folder is None:
        folder = next((f for f in ("wavs", "wav", "audio", "clips") if (root / f).is_dir()), "")
    prefix = "" if folder in ("", ".") else f"{folder}/"

    def path(name: str) -> str:
        name = name.replace("\\", "/")
        written = name if "/" in name and options.audio_dir is None else prefix + name
        if Path(name).suffix.lower() in AUDIO_EXTENSIONS or os.path.lexists(root / written):
            return written
        return f"{written}.wav"

    return path


def _names_audio(root: Path, options: ReadOptions) -> bool | None:
    """Whether the table's first column holds file names; None if there is no table."""
    table = metadata_file(root, options.metadata)
    if table is None or not table.is_file():
        return None
    cells = next((cells for cells, _ in read_table(table)), {})
    if len(cells) < 2:
        return None
    first = cells.get("path", cells.get("0", ""))
    return "/" in first or Path(first).suffix.lower() in AUDIO_EXTENSIONS


@corpus_format(
    "coqui",
    "metadata.csv with wav|text|speaker[|language]",
    found=lambda root, options: _names_audio(root, options) is True,
)
def read_coqui(root: Path, options: ReadOptions) -> Iterator[Row]:
    yield from _metadata_rows(root, options, ("path", "text", "speaker", "language"))


@corpus_format(
    "ljspeech",
    "metadata.csv with id|text|normalised, and wavs/",
    found=lambda root, options: _names_audio(root, options) is False,
)
def read_ljspeech(root: Path, options: ReadOptions) -> Iterator[Row]:
    yield from _metadata_rows(root, options, ("id", "text", "normalised"))


def _metadata_rows(root: Path, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[Row]:
    table = metadata_file(root, options.metadata)
    if table is None:
        raise UserError(f"{root} holds no metadata table; name it with --metadata")
    path_of = _audio_paths(root, options)
    for cells, problem in read_table(table):
        if "0" in cells:
            cells = {c: cells.get(str(i), "") for i, c in enumerate(columns)}
        name = cells.get("path") or cells.get("id", "")
        yield Row(
            cells.get("id") or name,
            path=path_of(name) if name else "",
            text=cells.get("normalised") or cells.get("text", ""),
            speaker=cells.get("speaker", ""),
            language=cells.get("language", ""),
            problem=problem,
        )
