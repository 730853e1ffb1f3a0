"""Distances between two texts, and between two clips of speech."""

import dataclasses
from collections.abc import Sequence

import librosa
import numpy as np


def edits(found: Sequence, wanted: Sequence) -> int:
    """The fewest insertions, deletions and replacements that turn `found` into `wanted`
    (Levenshtein)."""
    wanted = np.array(list(wanted), object)
    steps = np.arange(len(wanted) + 1)
    row = steps
    for item in found:
        without_insertions = np.minimum(row[1:] + 1, row[:-1] + (wanted != item))
        best = np.concatenate([[row[0] + 1], without_insertions])
        # Insertions in a row cost one each; a running minimum finds their cheapest start.
        row = np.minimum.accumulate(best - steps) + steps
    return int(row[-1])


@dataclasses.dataclass(frozen=True)
class CharacterError:
    """Edits per letter over all clips, and how many percentage points that is above the same texts
    spoken in another way, with the standard error for this number of clips."""

    value: float
    points: float
    uncertain: float

    @classmethod
    def of(cls, edits: np.ndarray, letters: np.ndarray, edits_otherwise: np.ndarray):
        def above(rows):
            return 100 * (edits - edits_otherwise)[rows].sum(-1) / letters[rows].sum(-1)

        # Bootstrap over clips, not letters, because mishearings cluster in sentences.
        drawn = np.random.default_rng(0).integers(len(letters), size=[1000, len(letters)])
        everything = np.arange(len(letters))
        return cls(
            float(edits.sum() / letters.sum()),
            float(above(everything)),
            float(above(drawn).std()),
        )


def mel_cepstral_distance(
    found: np.ndarray, wanted: np.ndarray, power: float = 2.0, coefficients: int = 13
) -> float:
    """The distance in dB between two log-mels [frames, mels], after time is warped to align them.

    The cepstra are cosine transforms of the log-mels without the 0th coefficient, which is
    loudness; the distance is that of mel-cepstral distortion, (10 / ln 10) sqrt(2 sum of squares),
    its mean over the path of dynamic time warping. In the embedded corpus a clip through
    Griffin-Lim is 1 dB from itself, the same sentence by another voice 3 to 12 dB, another
    sentence by the same voice 8 dB.
    """
    a, b = (_cepstra(mel, power, coefficients) for mel in (found, wanted))
    costs, path = librosa.sequence.dtw(a, b, metric="euclidean")
    return float(10 / np.log(10) * np.sqrt(2) * costs[-1, -1] / len(path))


def _cepstra(mel: np.ndarray, power: float, coefficients: int) -> np.ndarray:
    """[coefficients, frames]"""
    amplitudes = np.asarray(mel, np.float64).T / power
    transformed = librosa.feature.mfcc(S=amplitudes, n_mfcc=coefficients + 1, norm="ortho")
    return transformed[1:] * np.sqrt(2 / len(amplitudes))
