"""The BPE of a vocab.json, with the ids that PyPI's `tokenizers` gives.

    bpe = Bpe(directory.vocabulary)
    bpe.encode("[en]hello[SPACE]world.")

There is no fallback to bytes: a character that the vocabulary lacks becomes [UNK].
"""

import itertools
import json
import re
import unicodedata
from collections.abc import Iterator

from myxtts import UserError


class Bpe:
    """The BPE of `vocabulary`, the text of a vocab.json; the module's docstring shows its use."""

    def __init__(self, vocabulary: str):
        file = json.loads(vocabulary)
        model = file["model"]
        before = file.get("pre_tokenizer")
        if file.get("normalizer") or (before and before.get("type") != "Whitespace"):
            raise UserError(
                "vocab.json has a normalizer or a pre-tokenizer other than Whitespace, which the "
                "one of XTTS v2 does not have"
            )
        self.ids: dict[str, int] = model["vocab"]
        self.special = {token["content"]: token["id"] for token in file["added_tokens"]}
        self.unknown = self.special.get("[UNK]", self.ids.get("[UNK]", 1))
        merges = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
        # If a merge occurs twice, the last one counts.
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        longest_first = sorted(self.special, key=len, reverse=True)
        self._cut = re.compile(
            f"({'|'.join(map(re.escape, longest_first))})" if longest_first else "$^"
        )
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The ids of a text that may contain special tokens."""
        ids = []
        for part in self._cut.split(text):
            if part in self.special:
                ids.append(self.special[part])
                continue
            for word in words(part):
                if word not in self._known:
                    self._known[word] = self._merged(word)
                ids += self._known[word]
        return ids

    def _merged(self, word: str) -> list[int]:
        return [self.ids.get(piece, self.unknown) for piece in self.pieces(word)]

    def pieces(self, word: str) -> list[str]:
        """The pieces of a word after all merges; characters without a token stay as they are."""
        pieces = [*word]
        while True:
            found = [
                (self._ranks[pair], place)
                for place, pair in enumerate(itertools.pairwise(pieces))
                if pair in self._ranks
            ]
            if not found:
                return pieces
            place = min(found)[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


def words(text: str) -> Iterator[str]:
    """Runs of word characters and runs of others, without white space: \\w+|[^\\w\\s]+ in Rust."""
    held, kind = "", None
    for character in text:
        now = None if character.isspace() else _in_a_word(character)
        if now != kind or now is None:
            if held:
                yield held
            held, kind = "", now
        if now is not None:
            held += character
    if held:
        yield held


def _in_a_word(character: str) -> bool:
    """Rust's \\w; Python's leaves out the marks of Hindi and Arabic, and the joiners."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or character in "\u200c\u200d"
