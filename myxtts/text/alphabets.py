"""The letters of each language; finds texts with letters of other scripts."""

import collections
import functools
import unicodedata

from absl import logging

from myxtts import UserError
from myxtts.text.languages import find_language, languages

PUNCTUATION = " .,!?;:'\"()-…¿¡،؛؟«»।。、，！？：；"
_MANY = 0.05  # of the letters outside the alphabet is worth a warning


def outside_alphabet(text: str, language: str) -> list[str]:
    """The characters of normalised text that are neither letters of the language nor punctuation.

    A language whose alphabet is not listed may use any letter; digits that were not put into
    words count as outside.
    """
    letters = find_language(language).alphabet
    return [
        c
        for c in text
        if c not in PUNCTUATION
        and (c not in letters if letters else unicodedata.category(c)[0] not in "LM")
    ]


class LetterCount:
    """The letters of normalised texts in one language. `check` finds texts in another script."""

    def __init__(self, language: str, text: str = ""):
        self.language = language
        self._letters: collections.Counter[str] = collections.Counter()
        self.add(text)

    def add(self, text: str) -> None:
        self._letters.update(c for c in text if unicodedata.category(c)[0] == "L")

    def check(self, what: str) -> None:
        """UserError if at least half of the letters are of another script; a warning if more than
        5 % are outside the alphabet. An accent does not make another script.

        `what` names the texts, as the subject of a sentence: "the text".
        """
        alphabet = find_language(self.language).alphabet
        if not alphabet or not self._letters:
            return
        total = self._letters.total()
        outside = {c: n for c, n in self._letters.items() if c not in alphabet}
        foreign = sum(n for c, n in outside.items() if _without_accent(c) not in alphabet)
        commonest = ", ".join(sorted(outside, key=outside.get, reverse=True)[:5])
        found = (
            f"{what} has {sum(outside.values()):,} of {total:,} letters outside the alphabet of "
            f"{self.language!r} ({commonest})"
        )
        if 2 * foreign >= total:
            fitting = ", ".join(self._fitting())
            raise UserError(
                f"{found}: it is written in another script; name its language with --language"
                + (f" (the letters are those of {fitting})" if fitting else "")
            )
        if sum(outside.values()) > _MANY * total:
            _warn_once(f"{found}; check its language and its spelling")

    def _fitting(self) -> list[str]:
        """The three languages that have nearly all of the letters with the fewest of their own."""
        outside = {
            code: sum(n for c, n in self._letters.items() if c not in find_language(code).alphabet)
            for code in languages()
        }
        best = sorted(outside, key=lambda code: (outside[code], len(find_language(code).alphabet)))
        return [code for code in best if outside[code] <= _MANY * self._letters.total()][:3]


def _without_accent(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0]


@functools.lru_cache(maxsize=256)
def _warn_once(sentence: str) -> None:
    """A text is checked before it is spoken, and again when it is."""
    logging.warning("%s", sentence)
