"""The embedded corpus: speech made by espeak-ng on this machine, for users without data.

It is an ordinary corpus in the coqui format, prepared like any other. Its settings alone decide
which clips it holds. Every clip is the same on every run, because a child process forked from a
fresh synthesizer makes each one. Existing clips are kept, so making it can be interrupted and
continued, and the corpus can grow.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import logging
from tqdm import tqdm

from myxtts import UserError
from myxtts.config import write_whole
from myxtts.corpus import wav
from myxtts.corpus.sentences import LANGUAGES, different_sentences
from myxtts.corpus.workers import WorkerDied, default_workers, in_order, serve
from myxtts.text.normalise import normalise

SAMPLE_RATE = 22050
# The variants of espeak-ng that sound human, women and men in turn.
_VARIANTS = str.split(
    "f2 m3 f5 m1 Annie m7 f3 Michael linda m2 f1 Mike steph paul f4 rob Andrea m4 aunty adam "
    "anika edward Alicia max shelby m5 belinda david grandma m6 steph2 boris antonio pablo "
    "steph3 marcelo travis norbert Diogo Hugo"
)
_PAUSE = SAMPLE_RATE // 20  # silence left at both ends
_QUIET = 64  # of 32768: -54 dBFS


@dataclasses.dataclass(frozen=True)
class EmbeddedVoice:
    """A speaker of the embedded corpus: voice number i is the same in every corpus."""

    name: str
    variant: str
    rate: int
    pitch: int
    pitch_range: int

    @classmethod
    def number(cls, i: int) -> "EmbeddedVoice":
        chance = random.Random(f"voice/{i}")

        def between(low: int, high: int) -> int:
            return low + int(chance.random() * (high - low + 1))

        variant = _VARIANTS[i % len(_VARIANTS)]
        name = f"voice{i:03d}"
        return cls(
            name,
            variant,
            rate=between(145, 190),
            pitch=between(30, 70),
            pitch_range=between(35, 70),
        )


@dataclasses.dataclass(frozen=True)
class EmbeddedConfig:
    """How much speech, by how many voices (numbered from `first_voice`), in which languages."""

    minutes: float = 180.0
    voices: int = 4
    languages: tuple[str, ...] = ("en",)
    seed: int = 0
    first_voice: int = 0

    def __post_init__(self):
        unknown = [language for language in self.languages if language not in LANGUAGES]
        if unknown or not self.languages:
            raise UserError(
                f"the embedded corpus has no sentences in {unknown[0] if unknown else 'nothing'!r};"
                f" it has {', '.join(LANGUAGES)}"
            )
        if self.minutes <= 0 or self.voices < 1:
            raise UserError(
                "the embedded corpus needs at least one voice and more than 0 minutes, got "
                f"{self.voices} and {self.minutes:g}"
            )

    def describe(self) -> str:
        voices = "1 voice" if self.voices == 1 else f"{self.voices} voices"
        return f"{self.minutes:g} minutes of espeak-ng speech, {voices}, {'+'.join(self.languages)}"

    def clips(self) -> Iterator["EmbeddedClip"]:
        """All possible clips, in order; languages and voices take turns."""
        texts = [different_sentences(language, self.seed) for language in self.languages]
        for i in itertools.count():
            language = i % len(texts)
            voice = EmbeddedVoice.number(self.first_voice + i // len(texts) % self.voices)
            try:
                yield EmbeddedClip(next(texts[language]), self.languages[language], voice)
            except StopIteration:
                return


@dataclasses.dataclass(frozen=True)
class EmbeddedClip:
    text: str
    language: str
    voice: EmbeddedVoice

    @property
    def file_name(self) -> str:
        # Spelt out, so that it outlives the names of classes: it decides which clips are held out.
        voice = ", ".join(f"{key}={value!r}" for key, value in vars(self.voice).items())
        clip = f"text={self.text!r}, language={self.language!r}, voice=Voice({voice})"
        key = hashlib.blake2b(f"EmbeddedClip({clip})".encode(), digest_size=8).hexdigest()
        return f"wavs/{self.language}-{self.voice.name}-{key}.wav"


def make(
    directory: str | os.PathLike,
    settings: EmbeddedConfig,
    *,
    workers: int | None = None,
    progress: bool = True,
) -> Path:
    """Makes (or completes) the corpus and returns its directory."""
    if not hasattr(os, "fork"):
        raise UserError("the embedded corpus needs Linux or macOS; give --train_data instead")
    from myxtts.espeak import espeak

    espeak()  # if it is not installed, this says how to install it
    directory = Path(os.path.abspath(directory))
    try:
        (directory / "wavs").mkdir(parents=True, exist_ok=True)
        lines = list(_speak(directory, settings, workers or default_workers(), progress))
        write_whole(directory / "metadata.csv", "".join(lines))
    except OSError as error:
        raise UserError(
            f"the embedded corpus cannot be made in {directory}: {error.strerror}; name another "
            "place with --embedded_dir"
        ) from None
    return directory


def _speak(
    directory: Path, settings: EmbeddedConfig, workers: int, progress: bool
) -> Iterator[str]:
    def tasks():
        for clip in settings.clips():
            path = directory / clip.file_name
            there = wav.read_header(path) if path.is_file() else None
            samples = there.data_bytes // 2 if there else 0
            yield (clip, samples), None if samples else dataclasses.asdict(clip)

    wanted, made = settings.minutes * 60 * SAMPLE_RATE, 0
    outcomes = in_order("myxtts.corpus.embedded", {"directory": str(directory)}, tasks(), workers)
    with (
        contextlib.closing(outcomes),
        tqdm(
            desc="making speech",
            unit="min",
            total=round(settings.minutes, 2),
            disable=not progress,
            bar_format="{l_bar}{bar}| {n:.1f}/{total:g} min [{elapsed}<{remaining}]",
        ) as bar,
    ):
        for (clip, samples), answer in outcomes:
            if isinstance(answer, WorkerDied) or (answer and "failed_clip" in answer):
                raise UserError(
                    f"espeak-ng could not say {clip.text!r} with variant {clip.voice.variant}"
                )
            if answer and "disk" in answer:
                raise UserError(f"the embedded corpus cannot be written: {answer['disk']}")
            samples = answer["samples"] if answer else samples
            made += samples
            bar.update(min(samples / SAMPLE_RATE / 60, bar.total - bar.n))
            yield f"{clip.file_name}|{clip.text}|{clip.voice.name}|{clip.language}\n"
            if made >= wanted:
                return
    logging.warning(
        "the sentences are used up: %.1f of %.1f minutes were made; add languages for more",
        made / SAMPLE_RATE / 60,
        settings.minutes,
    )


def _without_silence(pcm: bytes) -> bytes:
    import numpy as np

    loud = np.flatnonzero(np.abs(np.frombuffer(pcm, "<i2").astype(np.int32)) > _QUIET)
    if not len(loud):
        return b""
    return pcm[2 * max(0, loud[0] - _PAUSE) : 2 * (loud[-1] + 1 + _PAUSE)]


def _serve() -> None:
    import json

    from myxtts.espeak import espeak

    directory = Path(json.loads(sys.argv[1])["directory"])
    synthesizer = espeak()
    synthesizer.list_voices()
    import numpy  # noqa: F401 -- both before the fork, not in every child

    def say(clip: EmbeddedClip) -> None:
        voice = clip.voice
        pcm = _without_silence(
            synthesizer.say(
                normalise(clip.text, clip.language),
                f"{clip.language}+{voice.variant}",
                rate=voice.rate,
                pitch=voice.pitch,
                pitch_range=voice.pitch_range,
            )
        )
        if not pcm:
            raise RuntimeError("nothing was said")
        wav.write_pcm16(directory / clip.file_name, pcm, SAMPLE_RATE)

    def answer(request: dict) -> dict:
        clip = EmbeddedClip(**{**request, "voice": EmbeddedVoice(**request["voice"])})
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                say(clip)
                code = 0
            except OSError as error:
                code = min(error.errno or 2, 255)
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code > 1:
            return {"disk": os.strerror(code)}
        if code != 0:
            return {"failed_clip": code}
        header = wav.read_header(directory / clip.file_name)
        return {"samples": header.data_bytes // 2}

    serve(answer)


if __name__ == "__main__":
    _serve()
