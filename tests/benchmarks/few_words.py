"""A language of few words that a small model learns to speak in minutes, and judges who know it.

old, new = corpora(place, voices=6, minutes=12)
judges = Judges(place / "judges")        # trained when they are not there yet, two minutes
"""

import dataclasses
import itertools
import random
from collections.abc import Collection
from pathlib import Path

import numpy as np

from myxtts.config import PrepareConfig
from myxtts.corpus import embedded
from myxtts.corpus.embedded import EmbeddedClip, EmbeddedConfig, EmbeddedVoice
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.evaluation.learning import Lesson
from myxtts.evaluation.recogniser import trained_recogniser
from myxtts.evaluation.sentences import read
from myxtts.evaluation.speakers import trained_voice_judge
from myxtts.evaluation.waveforms import resampled

WORDS = (
    *("seven", "orange", "lake", "mister", "window", "cold"),
    *("funny", "garden", "blue", "tomato", "river", "shop"),
)
_LENGTHS = (1, 2, 2, 3, 3, 4, 5)


@dataclasses.dataclass(frozen=True)
class FewWords(EmbeddedConfig):
    """Sentences of one to five of WORDS, in any order."""

    def clips(self):
        chance, said = random.Random(f"few words/{self.seed}"), set()
        for i in itertools.count():
            voice = EmbeddedVoice.number(self.first_voice + i % self.voices)
            text = " ".join(chance.choice(WORDS) for _ in range(chance.choice(_LENGTHS))) + "."
            if (text, voice.name) not in said:
                said.add((text, voice.name))
                yield EmbeddedClip(text, "en", voice)


def corpora(place: Path, voices: int, minutes: float, rate: int = 24000) -> tuple[Corpus, Corpus]:
    """Clips of the old voices, and of the last voice, which is the new one."""
    settings = FewWords(minutes=minutes, voices=voices, seed=3)
    source = Source(embedded.make(place / "speech", settings, progress=False))
    prepared, _ = prepare(source, PrepareConfig(sample_rate=rate), progress=False)
    corpus = Corpus.load(prepared)
    new = corpus.speaker_ids == len(corpus.speakers) - 1
    return corpus.subset(np.flatnonzero(~new)), corpus.subset(np.flatnonzero(new))


class Judges:
    """A recogniser and a judge of voices, of voices that the corpora do not have."""

    def __init__(self, place: Path):
        common = {"warm_up_steps": 50, "griffin_lim_share": 0.05}
        words = FewWords(minutes=14, voices=24, first_voice=200, seed=7)
        self._recogniser = trained_recogniser(place, "en", Lesson(words, 450, **common))
        voices = FewWords(minutes=14, voices=40, first_voice=300, seed=8)
        lesson = Lesson(voices, 300, batch_size=32, held_out=0.1, **common)
        self._voices = trained_voice_judge(place, lesson)

    def character_error(self, waveforms: list, rate: int, texts: list[str]) -> float:
        """The share of letters that are heard otherwise."""
        wrong, letters = self._recogniser.mistakes(waveforms, rate, texts)
        return float(wrong.sum() / letters.sum())

    def mistakes(self, waveforms: list, rate: int, texts: list[str]) -> np.ndarray:
        """The same of every text."""
        wrong, letters = self._recogniser.mistakes(waveforms, rate, texts)
        return wrong / letters

    def likeness(self, waveforms: list, rate: int, recordings: list, recorded_rate: int) -> float:
        """The mean cosine between what was said and a voice's recordings."""
        said = self._voices.vectors(waveforms, rate)
        voice = self._voices.vectors(recordings, recorded_rate).mean(0)
        return float((said @ (voice / np.linalg.norm(voice))).mean())


def sentences(count: int, without: Collection[str]) -> list[str]:
    """More texts of the corpora's kind, none of them among `without`."""
    known, made = set(without), []
    for clip in FewWords(seed=9).clips():
        if len(made) == count:
            return made
        if clip.text not in known:
            known.add(clip.text)
            made.append(clip.text)


def recordings(corpus: Corpus, rate: int) -> list[np.ndarray]:
    """The clips as float waveforms."""
    return [resampled(*read(path), rate) for path in corpus.paths]
