"""Text as the published GPT reads it: a language tag, then BPE over the written form.

    tokens = Tokens(directory.vocabulary)
    tokens.encode("Dr. Smith paid $20.", "en")   # [en]doctor[SPACE]smith[SPACE]paid ...
    tokens.pieces(a_long_text, "en", most=401)   # the same, piece by piece

The normaliser makes the written form: by the published cleaners, except in added languages.
"""

import re
from collections.abc import Iterable

from absl import logging

from myxtts import UserError
from myxtts.text.alphabets import LetterCount
from myxtts.text.languages import base_language
from myxtts.text.sentences import fitting, shortened
from myxtts.xtts_v2.bpe import Bpe
from myxtts.xtts_v2.cleaners.pieces import longest, pieces
from myxtts.xtts_v2.normaliser import Normaliser


class Tokens:
    """The ids of texts; the module's docstring shows its use. `vocabulary` is the text of
    vocab.json."""

    def __init__(self, vocabulary: str, normaliser: Normaliser | None = None):
        self.bpe = Bpe(vocabulary)
        self.normaliser = normaliser or Normaliser()
        tags = (re.fullmatch(r"\[([a-z]{2,3}(?:-[a-z]+)?)\]", name) for name in self.bpe.special)
        self.languages = tuple(tag[1] for tag in tags if tag)

    def language_tag(self, language: str) -> str:
        """The tag of a language, with or without a country; UserError if there is none."""
        base = base_language(language)
        for known in self.languages:
            if known.split("-")[0] == base:
                return f"[{known}]"
        raise UserError(
            f"the model has no language {language!r}; it has {', '.join(sorted(self.languages))}. "
            f"To teach it one more, train it with --add_language={base}"
        )

    def written(self, text: str, language: str) -> str:
        """The written form of a text, which is encoded after the tag."""
        return self.normaliser.written(text, language)

    def encode(self, text: str, language: str) -> list[int]:
        """The ids of a text. Logs a warning if the model lacks some of its tokens, or if the text
        is longer than the model can safely speak."""
        ids, most = self.ids(text, language), longest(language)
        if len(text) > most:
            logging.warning(
                "the text %r has %d characters; above %d the model may lose its end",
                *(shortened(text), len(text), most),
            )
        unknown = ids.count(self.bpe.unknown)
        if unknown:
            logging.warning(
                "%d of %d tokens of %r are unknown to the model (%.0f %%)",
                *(unknown, len(ids), self.written(text, language), 100 * unknown / len(ids)),
            )
        return ids

    def pieces(self, text: str, language: str, most: int) -> list[list[int]]:
        """The ids of a text of any length, in pieces of at most `most` tokens.

        Cut as in the published code; pieces that are still longer than `most` are cut again.
        UserError if the text has no words or is in another script.
        """
        self.language_tag(language)
        if not any(character.isalnum() for character in text):
            raise UserError(f"the text {text!r} holds nothing to say; give words to speak")
        LetterCount(base_language(language), text.lower()).check(f"the text {shortened(text)!r}")
        found = []
        for piece in pieces(text, language):
            found += fitting(piece, lambda part: len(self.ids(part, language)) <= most)
        said = [piece for piece in found if any(character.isalnum() for character in piece)]
        return [self.encode(piece, language) for piece in said]

    def unknown_share(self, texts: Iterable[str], language: str) -> float:
        """The share of [UNK] in the ids of a corpus."""
        unknown = total = 0
        for text in texts:
            ids = self.ids(text, language)
            unknown, total = unknown + ids.count(self.bpe.unknown), total + len(ids)
        return unknown / total if total else 0.0

    def ids(self, text: str, language: str) -> list[int]:
        tag, written = self.language_tag(language), self.written(text, language)
        return self.bpe.encode((tag + written).replace(" ", "[SPACE]"))
