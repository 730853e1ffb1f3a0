"""The manifest: the prepared clips of a corpus, one per line, and the `Corpus` read from it.

A prepared directory holds

    manifest.tsv    path, text, speaker, language, seconds, frames, data_offset
    corpus.json     where the corpus is, and the settings it was prepared with
    rejected.tsv    the clips left out, each with its reason
    summary.txt     hours, speakers, languages, lengths, unusual characters
    clips/          22,050 Hz mono 16-bit copies of the clips that needed one
    clips.sqlite    the outcome for each clip, so that no clip is checked twice

Paths are relative to the prepared directory; they lead into the corpus or to a copy. Any other path
is refused. `data_offset` is the byte at which a clip's 16-bit samples begin.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from myxtts import UserError
from myxtts.config import PrepareConfig, from_json, mel_frames, to_json, write_whole
from myxtts.corpus.clips import Clip
from myxtts.corpus.formats import Row

COLUMNS = ("path", "text", "speaker", "language", "seconds", "frames", "data_offset")
COPIES = "clips"


def manifest_line(row: Row, clip: Clip, root: str, settings: PrepareConfig) -> str:
    """`root` is the path from the prepared directory to the corpus."""
    seconds = clip.samples / settings.sample_rate
    frames = mel_frames(clip.samples, settings.hop_length)
    path = f"{COPIES}/{clip.copy}" if clip.copy else f"{root}/{row.path}"
    cells = (path, row.text, row.speaker, row.language, f"{seconds:.6f}", frames, clip.data_offset)
    return "\t".join(str(cell) for cell in cells) + "\n"


def save_description(prepared: Path, root: str, corpus_format: str, settings: PrepareConfig):
    values = {"root": root, "format": corpus_format, "settings": to_json(settings)}
    write_whole(prepared / "corpus.json", json.dumps(values, indent=2) + "\n")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Prepared clips in memory, as columns; clip i is `paths[i]`, `texts[i]`, ...

    `fingerprint` changes with every change of the manifest. A run that is continued compares it, to
    be sure that it trains on the same clips in the same order.
    """

    paths: Sequence[str]
    texts: Sequence[str]
    speaker_ids: np.ndarray
    language_ids: np.ndarray
    samples: np.ndarray
    data_offsets: np.ndarray
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    sample_rate: int
    fingerprint: str

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def hours(self) -> float:
        return float(self.samples.sum()) / self.sample_rate / 3600

    def language_of(self, clip: int) -> str:
        return self.languages[self.language_ids[clip]]

    def subset(self, clips: np.ndarray) -> "Corpus":
        """The clips with these indices; speaker and language ids stay."""
        clips = np.asarray(clips)
        chosen = hashlib.blake2b(clips.astype("<i8").tobytes(), digest_size=8).hexdigest()
        return dataclasses.replace(
            self,
            paths=[self.paths[i] for i in clips],
            texts=[self.texts[i] for i in clips],
            speaker_ids=self.speaker_ids[clips],
            language_ids=self.language_ids[clips],
            samples=self.samples[clips],
            data_offsets=self.data_offsets[clips],
            fingerprint=f"{self.fingerprint}-{chosen}",
        )

    def joined(self, more: "Corpus") -> "Corpus":
        """These clips, then those of `more`, which was loaded with this corpus as `known`."""
        if self.sample_rate != more.sample_rate:
            raise UserError(
                f"clips at {self.sample_rate} and at {more.sample_rate} samples a second do not go "
                "together; prepare both alike"
            )
        columns = ("speaker_ids", "language_ids", "samples", "data_offsets")
        return dataclasses.replace(
            more,
            paths=[*self.paths, *more.paths],
            texts=[*self.texts, *more.texts],
            fingerprint=f"{self.fingerprint}+{more.fingerprint}",
            **{
                name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in columns
            },
        )

    def split(self, held_out: float) -> tuple["Corpus", "Corpus"]:
        """(training, held out). Which of them a clip is in depends only on its path and text, so it
        stays there when the corpus grows."""
        names = (
            f"{os.path.basename(path)}\t{text}".encode()
            for path, text in zip(self.paths, self.texts, strict=True)
        )
        digests = b"".join(hashlib.blake2b(name, digest_size=4).digest() for name in names)
        shares = np.frombuffer(digests, ">u4")
        out = shares < held_out * 2**32
        return self.subset(np.flatnonzero(~out)), self.subset(np.flatnonzero(out))

    @classmethod
    def load(cls, prepared: str | os.PathLike, known: "Corpus | None" = None) -> "Corpus":
        """Reads a prepared directory.

        With `known`, speakers and languages keep the ids they have in it; new ones are added at
        the end.
        """
        prepared = Path(os.path.realpath(prepared))
        manifest = prepared / "manifest.tsv"
        try:
            content = manifest.read_bytes()
            description = json.loads((prepared / "corpus.json").read_text(encoding="utf-8"))
            root, settings = description["root"], description["settings"]
        except FileNotFoundError as error:
            raise UserError(
                f"{error.filename} does not exist; prepare the corpus with "
                "`python -m myxtts.corpus --train_data=...`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{prepared} cannot be read as a prepared corpus: {error}") from None
        prepare = from_json(PrepareConfig, settings, "corpus.json")
        lines = content.decode("utf-8").split("\n")
        if lines[0].split("\t") != list(COLUMNS):
            raise UserError(f"{manifest} does not begin with the columns {', '.join(COLUMNS)}")
        places = {root: os.path.normpath(prepared / root), COPIES: str(prepared / COPIES)}
        rows = [_cells(manifest, number, line) for number, line in enumerate(lines[1:], 2) if line]
        if not rows:
            raise UserError(f"{manifest} holds no clip")
        paths, texts, speakers, languages, seconds, _, offsets = zip(*rows, strict=True)
        speaker_names, speaker_ids = _ids(speakers, known.speakers if known else ())
        language_names, language_ids = _ids(languages, known.languages if known else ())
        return cls(
            [_place(manifest, path, places) for path in paths],
            texts=texts,
            speaker_ids=speaker_ids,
            language_ids=language_ids,
            samples=np.rint(np.array(seconds, np.float64) * prepare.sample_rate).astype(np.int32),
            data_offsets=np.array(offsets, np.int32),
            speakers=speaker_names,
            languages=language_names,
            sample_rate=prepare.sample_rate,
            fingerprint=hashlib.blake2b(content, digest_size=16).hexdigest(),
        )


def _cells(manifest: Path, number: int, line: str) -> list[str]:
    cells = line.split("\t")
    if len(cells) != len(COLUMNS):
        raise UserError(
            f"{manifest} line {number} has {len(cells)} columns, needed are {len(COLUMNS)}"
        )
    return cells


def _place(manifest: Path, path: str, places: dict[str, str]) -> str:
    for start, place in places.items():
        rest = path.removeprefix(f"{start}/")
        if rest != path and ".." not in rest.split("/") and not rest.startswith("/"):
            return f"{place}/{rest}"
    raise UserError(f"{manifest} names {path!r}, which is outside the corpus; prepare it again")


def _ids(names: Sequence[str], known: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    order = (*known, *sorted(set(names) - set(known)))
    number = {name: i for i, name in enumerate(order)}
    return order, np.array([number[name] for name in names], np.int32)
