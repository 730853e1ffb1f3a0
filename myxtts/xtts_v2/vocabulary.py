"""A vocab.json with the interface that training needs of a vocabulary."""

import hashlib
import json
import os
from pathlib import Path

from myxtts.config import write_whole
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.text import Tokens


class PublishedVocabulary:
    """Maps texts to ids, like `myxtts.text.vocabulary.Vocabulary`; but a character that is not in
    it becomes the id `unknown`."""

    phonemes = False

    def __init__(self, text: str, normaliser: Normaliser | None = None):
        """`text` is the text of vocab.json."""
        self.text, self._tokens = text, Tokens(text, normaliser)
        file = json.loads(text)
        ids = [*file["model"]["vocab"].values(), *(t["id"] for t in file["added_tokens"])]
        self._size = 1 + max(ids)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "PublishedVocabulary":
        """The vocabulary of a directory in the published layout."""
        text = (Path(directory) / "vocab.json").read_text(encoding="utf-8")
        return cls(text, Normaliser.load(directory))

    def save(self, path: str | os.PathLike) -> None:
        write_whole(path, self.text)

    def __len__(self) -> int:
        return self._size

    @property
    def languages(self) -> tuple[str, ...]:
        return self._tokens.languages

    @property
    def unknown(self) -> int:
        return self._tokens.bpe.unknown

    @property
    def fingerprint(self) -> str:
        values = f"{self.text}\n{sorted(self._tokens.normaliser.own)}"
        return hashlib.sha256(values.encode()).hexdigest()[:16]

    def encode(self, text: str, language: str) -> list[int]:
        """The language's tag and the tokens; UserError if the language has no tag."""
        return self._tokens.ids(text, language)
