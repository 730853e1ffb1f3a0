"""Sentences for a trained voice to say, each with a recording of it and references to clone.

For the voices of an embedded corpus these are new sentences, recorded by espeak-ng with the
settings of the voice; for any other corpus they are its held-out clips.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from myxtts import UserError
from myxtts.corpus.embedded import EmbeddedClip, EmbeddedVoice
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.sentences import LANGUAGES, different_sentences
from myxtts.corpus.workers import WorkerDied, default_workers, in_order

_EMBEDDED_NAME = re.compile(r"voice(\d{3,})")

# Characters of about three seconds of speech, as long as a reference should be.
_LONG = 45


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A text to say. `recording` and `references` are paths of WAV files; the references have
    other texts."""

    text: str
    language: str
    speaker: str
    recording: str
    references: tuple[str, ...]


def embedded_voices(
    speakers: Iterable[str], languages: Iterable[str]
) -> list[EmbeddedVoice] | None:
    """The espeak-ng voices with these speakers' names; None if they are not such voices."""
    numbers = [_EMBEDDED_NAME.fullmatch(name) for name in speakers]
    if not all(numbers) or not set(languages) <= set(LANGUAGES):
        return None
    return [EmbeddedVoice.number(int(match[1])) for match in numbers]


def new_sentences(
    directory: Path,
    voices: Sequence[EmbeddedVoice],
    languages: Sequence[str],
    count: int,
    *,
    known: Iterable[str] = (),
    seed: int = 920_001,
    references: int = 2,
) -> list[Sentence]:
    """`count` sentences that are not in `known`, by all voices and languages in turn.

    The clips are made in `directory`; existing ones are kept.
    """
    known = set(known)
    texts = {
        language: (
            text
            for text in different_sentences(language, seed, for_judging=True)
            if text not in known
        )
        for language in languages
    }
    pairs = [(language, voice) for voice in voices for language in languages]
    said = list(itertools.islice(itertools.cycle(pairs), count))
    cloned = pairs[:count]
    try:
        clips = [EmbeddedClip(next(texts[language]), language, voice) for language, voice in said]
        for language, voice in cloned:
            long = (text for text in texts[language] if len(text) >= _LONG)
            clips += [EmbeddedClip(next(long), language, voice) for _ in range(references)]
    except StopIteration:
        raise UserError(
            f"there are not {count} new sentences in {', '.join(languages)}; ask for fewer"
        ) from None
    paths = _recorded(directory, clips)
    of_pair = {
        pair: tuple(paths[count + i * references : count + (i + 1) * references])
        for i, pair in enumerate(cloned)
    }
    return [
        Sentence(
            clip.text,
            language=clip.language,
            speaker=clip.voice.name,
            recording=path,
            references=of_pair[pair],
        )
        for clip, path, pair in zip(clips[:count], paths, said, strict=False)
    ]


def peoples_texts() -> list[str]:
    """English sentences that people might type, written for judging; no corpus contains them."""
    lines = Path(__file__).with_name("other_sentences_en.txt").read_text(encoding="utf-8")
    return [line for line in lines.splitlines() if line and not line.startswith("#")]


def recorded_sentences(
    directory: Path, voices: Sequence[EmbeddedVoice], language: str, texts: Sequence[str]
) -> list[Sentence]:
    """These texts, spoken by the voices in turn; with references as from `new_sentences`."""
    said = [
        EmbeddedClip(text, language, voice)
        for text, voice in zip(texts, itertools.cycle(voices), strict=False)
    ]
    known = new_sentences(directory, voices, [language], len(voices))
    references = {sentence.speaker: sentence.references for sentence in known}
    return [
        Sentence(
            clip.text,
            language=language,
            speaker=clip.voice.name,
            recording=path,
            references=references[clip.voice.name],
        )
        for clip, path in zip(said, _recorded(directory, said), strict=True)
    ]


def _recorded(directory: Path, clips: Sequence[EmbeddedClip]) -> list[str]:
    tasks = (
        (clip, None if (directory / clip.file_name).is_file() else dataclasses.asdict(clip))
        for clip in clips
    )
    settings = {"directory": str(directory)}
    for clip, answer in in_order("myxtts.corpus.embedded", settings, tasks, default_workers()):
        if isinstance(answer, WorkerDied) or (answer and "samples" not in answer):
            raise UserError(
                f"espeak-ng could not say {clip.text!r} as {directory / clip.file_name}: {answer}"
            )
    return [str(directory / clip.file_name) for clip in clips]


def held_out_sentences(training: Corpus, held_out: Corpus, count: int) -> list[Sentence]:
    """Clips spread evenly over `held_out`. References are training clips of the speaker, or other
    held-out clips for a speaker without training clips."""
    chosen = np.unique(np.linspace(0, len(held_out) - 1, min(count, len(held_out))).astype(int))
    sentences = []
    for i in chosen:
        speaker = held_out.speaker_ids[i]
        others = [
            corpus.paths[j]
            for corpus in (training, held_out)
            for j in np.flatnonzero(corpus.speaker_ids == speaker)
            if corpus.paths[j] != held_out.paths[i]
        ]
        # A speaker with a single clip has no other reference.
        references = tuple(others[:2]) or (held_out.paths[i],)
        sentences.append(
            Sentence(
                held_out.texts[i],
                language=held_out.language_of(i),
                speaker=held_out.speakers[speaker],
                recording=held_out.paths[i],
                references=references,
            )
        )
    return sentences


def read(path: str) -> tuple[np.ndarray, int]:
    """A clip as float32 mono samples, and its sample rate."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return samples.mean(1), rate
