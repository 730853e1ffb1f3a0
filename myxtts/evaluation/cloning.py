"""Measures voice cloning: does speech in a new voice sound like its reference?

    rows = cloning(Voice.load("RUN"), sentences, trained_voice_judge("recogniser"))

Every clip is compared with the references of all voices. The figure is how many of the other voices
it is further from than from its own. Recordings give the ceiling, because voices may be too alike
for the judge; recordings through the tokenizer come next.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from myxtts.evaluation.intelligibility import cloned_voices, save_speech, through_codes
from myxtts.evaluation.sentences import Sentence, read
from myxtts.evaluation.speakers import VoiceJudge, others_beaten
from myxtts.evaluation.waveforms import resampled
from myxtts.voice import Speaking, Voice


@dataclasses.dataclass(frozen=True)
class Cloned:
    """Figures of one kind of speech: `recorded`, `tokenizer` (recorded, through codes) or
    `generated`.

    `clips_nearer` is the share of clips nearer to their own reference than to those of nine in ten
    other voices; `voices_nearer` is the same for the mean vector of each voice's clips; `beaten` is
    the mean share of other voices that a clip is further from; `own` and `others` are mean cosines
    with its own reference and with those of the other voices.
    """

    way: str
    clips_nearer: float
    voices_nearer: float
    beaten: float
    own: float
    others: float


def cloning(
    voice: Voice,
    sentences: Sequence[Sentence],
    judge: VoiceJudge,
    *,
    speaking: Speaking | None = None,
    save_dir: Path | None = None,
) -> list[Cloned]:
    """A row for each kind of speech; the sentences must be of two or more voices."""
    rate = voice.audio.sample_rate
    cloned = cloned_voices(voice, sentences)
    speakers = sorted({sentence.speaker for sentence in sentences})
    references = {sentence.speaker: sentence.references for sentence in sentences}
    own = [speakers.index(sentence.speaker) for sentence in sentences]
    vectors = []
    for speaker in speakers:
        clips = [resampled(*read(path), rate) for path in references[speaker]]
        vectors.append(_mean(judge.vectors(clips, rate)))
    vectors = np.stack(vectors)
    recorded = [resampled(*read(sentence.recording), rate) for sentence in sentences]
    spoken = {
        "recorded": recorded,
        "tokenizer": [
            through_codes(voice, waveform, cloned[sentence.references])
            for sentence, waveform in zip(sentences, recorded, strict=True)
        ],
        "generated": [
            voice.speak(s.text, s.language, cloned[s.references], speaking)
            for s in tqdm(sentences, desc="generated", unit="sentence")
        ],
    }
    if save_dir is not None:
        for name, waveforms in spoken.items():
            save_speech(save_dir / name, sentences, waveforms, rate)
    return [
        _judged(name, judge.vectors(waveforms, rate), vectors, np.array(own))
        for name, waveforms in spoken.items()
    ]


def _judged(way: str, vectors: np.ndarray, references: np.ndarray, own: np.ndarray) -> Cloned:
    others = len(references) - 1
    voices = np.stack([_mean(vectors[own == i]) for i in range(len(references))])
    beaten = others_beaten(vectors, references, own)
    voices_beaten = others_beaten(voices, references, np.arange(len(references)))
    likeness = vectors @ references.T
    is_own = own[:, None] == np.arange(len(references))[None]
    return Cloned(
        way,
        clips_nearer=float((beaten >= 0.9 * others).mean()),
        voices_nearer=float((voices_beaten >= 0.9 * others).mean()),
        beaten=float(beaten.mean() / others),
        own=float(likeness[is_own].mean()),
        others=float(likeness[~is_own].mean()),
    )


def _mean(vectors: np.ndarray) -> np.ndarray:
    mean = vectors.mean(0)
    return mean / np.linalg.norm(mean)
