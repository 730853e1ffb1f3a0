"""Cuts raw recordings of any length into a corpus of clips with texts.

    python -m myxtts.corpus cut --recordings=DIR --out=CORPUS
    python train.py --train_data=CORPUS

Clips of 1 to 11 seconds are cut at pauses. A recogniser writes their texts. If a transcript lies
next to a recording (talk.txt next to talk.wav), its words are used instead where the recogniser
agrees. The speaker of a recording is named after its folder.
"""

import csv
import dataclasses
import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
from absl import logging
from tqdm import tqdm

from myxtts import UserError
from myxtts.corpus import wav
from myxtts.corpus.formats import AUDIO_EXTENSIONS

SHORTEST, LONGEST = 1.0, 11.0  # seconds
_PAUSE = 0.25  # seconds; a shorter one belongs to speech
_WANTED = 3.0  # a clip that is longer ends at the next pause
_FRAME = 0.01
_BELOW_SPEECH_DB = 30.0
_AROUND = 0.1  # seconds of a pause that a clip keeps
_ALIKE = 0.6  # least likeness of what is heard and the transcript
_AT_ONCE = 16  # clips that are heard between two updates of the bar


@dataclasses.dataclass(frozen=True)
class Cut:
    """The result of cutting a directory: clips and their minutes, and what was left out and why."""

    clips: int
    minutes: float
    rejected: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.clips} clips, {self.minutes:.1f} minutes"]
        lines += [f"left out: {name}: {reason}" for name, reason in self.rejected]
        return "\n".join(lines)


def cut(
    recordings: str | os.PathLike,
    out: str | os.PathLike,
    recogniser,
    *,
    language: str = "en",
    speaker: str | None = None,
) -> Cut:
    """Cuts all recordings in and below a directory into `out`, which must be new or empty.

    `recogniser` is one of `myxtts.evaluation.other_recognisers`.
    """
    recordings, out = Path(recordings), Path(os.path.abspath(out))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out={out} exists; name a new directory, or delete it first")
    paths = sorted(p for p in recordings.rglob("*") if p.suffix.lower() in AUDIO_EXTENSIONS)
    if not paths:
        raise UserError(
            f"there is no recording in {recordings}; {', '.join(AUDIO_EXTENSIONS)} can be read"
        )
    rows, rejected, seconds = [], [], 0.0
    bar = tqdm(paths, desc="cutting", unit="recording")
    for path in bar:
        name = path.relative_to(recordings)
        try:
            samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        except (OSError, soundfile.SoundFileError) as error:
            rejected.append((str(name), f"it cannot be read as audio: {error}"))
            continue
        samples = samples.mean(1)
        places = list(clips_of(samples, rate))
        if not places:
            rejected.append((str(name), f"no {SHORTEST:g} s of speech was found in it"))
        heard = []
        for first in range(0, len(places), _AT_ONCE):  # a recording may last for hours
            bar.set_postfix_str(f"hearing clip {first + 1} of {len(places)} of {name}")
            some = [samples[a:b] for a, b in places[first : first + _AT_ONCE]]
            heard += recogniser.transcribe(some, rate)
        texts = _with_transcript(path.with_suffix(".txt"), heard)
        who = speaker or (name.parts[0] if len(name.parts) > 1 else "speaker")
        stem = "-".join(name.with_suffix("").parts)
        for number, ((begin, end), text) in enumerate(zip(places, texts, strict=True)):
            clip = f"wavs/{stem}-{number:04d}.wav"
            if not text:
                place = f"{name}, {begin / rate:.1f} to {end / rate:.1f} s"
                rejected.append((place, "nothing was heard, or not what its transcript says"))
                continue
            wav.write_pcm16(out / clip, _pcm16(samples[begin:end]), rate)
            rows.append([clip, " ".join(text.replace("|", " ").split()), who, language])
            seconds += (end - begin) / rate
    if not rows:
        raise UserError(f"no clip could be cut from {len(paths)} recordings: {rejected[0][1]}")
    _write(out / "metadata.csv", "|", rows)
    _write(out / "rejected.tsv", "\t", rejected)
    logging.info("%d clips of %d recordings are in %s", len(rows), len(paths), out)
    return Cut(len(rows), seconds / 60, tuple(rejected))


def clips_of(samples: np.ndarray, rate: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of clips of SHORTEST to LONGEST seconds, in samples."""
    begin = end = None
    for start, stop in _stretches(samples, rate):
        if begin is not None and (stop - begin > LONGEST * rate or end - begin >= _WANTED * rate):
            yield from _long_enough(begin, end, rate)
            begin = None
        begin, end = start if begin is None else begin, stop
    if begin is not None:
        yield from _long_enough(begin, end, rate)


def _long_enough(begin: int, end: int, rate: int) -> Iterator[tuple[int, int]]:
    if end - begin >= SHORTEST * rate:
        yield begin, end


def _stretches(samples: np.ndarray, rate: int) -> Iterator[tuple[int, int]]:
    """Stretches of speech between two pauses, with a little of each pause; none longer than
    LONGEST."""
    size = max(1, int(_FRAME * rate))
    if len(samples) < size:
        return
    frames = np.abs(samples[: len(samples) // size * size]).reshape(-1, size)
    level = 20 * np.log10(np.sqrt((frames**2).mean(1)) + 1e-6)
    speech = level > max(np.percentile(level, 95) - _BELOW_SPEECH_DB, -60.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], speech, [False]])))
    found: list[list[int]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        if found and (start - found[-1][1]) * _FRAME < _PAUSE:
            found[-1][1] = stop
        else:
            found.append([start, stop])
    around = int(_AROUND / _FRAME)
    for start, stop in found:
        start, stop = max(0, start - around), min(len(level), stop + around)
        for first, last in _short_enough(level, start, stop):
            yield first * size, last * size


def _short_enough(level: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cuts speech without pauses where it is quietest."""
    if (stop - start) * _FRAME <= LONGEST:
        yield start, stop
        return
    margin = int(_WANTED / _FRAME)
    smooth = np.convolve(level[start + margin : stop - margin], np.ones(5) / 5, "same")
    middle = start + margin + int(np.argmin(smooth))
    yield from _short_enough(level, start, middle)
    yield from _short_enough(level, middle, stop)


def _with_transcript(path: Path, heard: Sequence[str]) -> list[str]:
    """The transcript's words for each clip, or "" where they do not match what was heard. Without
    a transcript, what was heard."""
    if not path.is_file():
        return list(heard)
    words = path.read_text(encoding="utf-8-sig").split()
    found = [(clip, word) for clip, text in enumerate(heard) for word in text.split()]
    matcher = difflib.SequenceMatcher(
        None, [_bare(word) for _, word in found], [_bare(word) for word in words], autojunk=False
    )
    matched: dict[int, list[int]] = {}  # clip: places of its words in the transcript
    for block in matcher.get_matching_blocks():
        for i in range(block.size):
            matched.setdefault(found[block.a + i][0], []).append(block.b + i)
    texts = [""] * len(heard)
    for clip, (begin, end) in _spans(words, matched, len(heard)).items():
        said = " ".join(words[begin:end])
        pair = [" ".join(map(_bare, text.split())) for text in (heard[clip], said)]
        if difflib.SequenceMatcher(None, *pair, autojunk=False).ratio() >= _ALIKE:
            texts[clip] = said
    return texts


def _spans(
    words: Sequence[str], matched: dict[int, list[int]], clips: int
) -> dict[int, tuple[int, int]]:
    """Which words of the transcript belong to each clip: those matched. Misheard words between two
    clips go to the first up to the last punctuation mark, or up to the middle if there is no
    mark."""
    begins = {clip: places[0] for clip, places in matched.items()}
    ends = {clip: places[-1] + 1 for clip, places in matched.items()}
    if 0 in begins:
        begins[0] = 0
    if clips - 1 in ends:
        ends[clips - 1] = len(words)
    for clip in matched:
        if clip + 1 in matched:
            last, first = ends[clip], begins[clip + 1]
            marked = [i + 1 for i in range(last - 1, first) if not words[i][-1].isalnum()]
            ends[clip] = begins[clip + 1] = marked[-1] if marked else (last + first) // 2
    return {clip: (begins[clip], ends[clip]) for clip in matched}


def _bare(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def _pcm16(samples: np.ndarray) -> bytes:
    return np.round(np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()


def _write(path: Path, separator: str, rows: Sequence[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)
