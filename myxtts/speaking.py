"""What our voices and the published one share: sentences and pauses, in one piece or in chunks."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from myxtts.config import Speaking


@dataclasses.dataclass(frozen=True)
class ClonedVoice:
    """A cloned speaker: averages over all pieces of all references."""

    latents: tf.Tensor  # [1, latents, width]
    speaker: tf.Tensor  # [1, size], of about length 1


class SpeakingVoice:
    """A base class. A subclass has the `sample_rate`, and declares `sentences` and `sentence`;
    `speaking` is how it draws codes by default."""

    speaking = Speaking()

    def sentences(self, text: str, language: str) -> list[list[int]]:
        """The tokens of the text, in pieces that the model can speak."""
        raise NotImplementedError(f"{type(self).__name__} declares no sentences")

    def sentence(
        self, ids: list[int], cloned: ClonedVoice, speaking: Speaking, *, streamed: bool = False
    ) -> Iterator[np.ndarray]:
        """Yields one of them: if `streamed`, each chunk as soon as all codes that it depends on are
        there."""
        raise NotImplementedError(f"{type(self).__name__} declares no sentence")

    def speak(
        self,
        text: str,
        language: str,
        cloned: ClonedVoice,
        speaking: Speaking | None = None,
        **options,
    ) -> np.ndarray:
        """The text as one waveform; `options` are those of `sentence`."""
        return np.concatenate(list(self.spoken(text, language, cloned, speaking, **options)))

    def spoken(
        self,
        text: str,
        language: str,
        cloned: ClonedVoice,
        speaking: Speaking | None = None,
        **options,
    ) -> Iterator[np.ndarray]:
        """Yields the sentences of the text and the pauses between them, together what `speak`
        returns."""
        speaking = speaking or self.speaking
        pause = np.zeros(int(speaking.pause * self.sample_rate), np.float32)
        sentences = self.sentences(text, language)
        for number, ids in enumerate(sentences):
            drawn = dataclasses.replace(speaking, seed=(speaking.seed + number) % 2**31)
            yield from self.sentence(ids, cloned, drawn, **options)
            if number + 1 < len(sentences) and len(pause):
                yield pause

    def stream(
        self, text: str, language: str, cloned: ClonedVoice, speaking: Speaking | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the text in chunks, the first of them short."""
        return self.spoken(text, language, cloned, speaking, streamed=True)
