"""Long texts in pieces that the model can say at once: sentences, or parts of long ones."""

import re
from collections.abc import Callable

from myxtts import UserError
from myxtts.text.alphabets import LetterCount
from myxtts.text.normalise import normalise

# After an end mark and whatever closes with it; or after ideographic ones, which no space follows.
_SENTENCE = re.compile(r"(?<=[.!?…؟۔])[\"')\]»”]*\s+|(?<=[。！？])")
_CLAUSE = re.compile(r"(?<=[,;:،؛、，；：])\s*|\s+-\s+")
_WORD = re.compile(r"\s+")


def split_text(
    text: str, language: str, tokens_of: Callable[[str], int], max_tokens: int
) -> list[str]:
    """The text in its normal form, sentence by sentence, none of more than `max_tokens` tokens.

    A sentence that is too long is split at commas and the like, then between words, then
    anywhere. What holds no letter or digit says nothing and is left out; when nothing is left,
    UserError says so. So it does of a text in another script than the language's.
    """
    pieces = []
    letters = LetterCount(language)
    for line in text.splitlines():
        normal = normalise(line, language)
        letters.add(normal)
        for sentence in _parts(normal, _SENTENCE):
            pieces += fitting(sentence, lambda part: tokens_of(part) <= max_tokens)
    pieces = [piece.strip() for piece in pieces if any(c.isalnum() for c in piece)]
    if not pieces:
        raise UserError(f"the text {text!r} holds nothing to say; give words to speak")
    letters.check(f"the text {shortened(text)!r}")
    return pieces


def fitting(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in as few pieces as possible, cut at clauses, between words, or anywhere."""
    return _fitting(text, fits, (_CLAUSE, _WORD, None))


def _fitting(text: str, fits: Callable[[str], bool], borders) -> list[str]:
    """The text in as few pieces as possible, split at the coarsest borders that are fine enough."""
    if fits(text):
        return [text]
    border, *finer = borders
    if border is None:
        if len(text) < 2:
            raise UserError(f"the text holds {text!r}, which alone is longer than the model reads")
        half = len(text) // 2
        return _fitting(text[:half], fits, borders) + _fitting(text[half:], fits, borders)
    pieces, held = [], ""
    for part in _parts(text, border):
        if held and fits(held + part):
            held += part
            continue
        pieces += [held] if held else []
        held = part
        if not fits(part):
            *whole, held = _fitting(part, fits, finer)
            pieces += whole
    return [*pieces, held]


def shortened(text: str, most: int = 40) -> str:
    """The beginning of a long text, for a message."""
    return text if len(text) <= most else f"{text[:most].rstrip()}..."


def _parts(text: str, border: re.Pattern) -> list[str]:
    """The text cut behind every border."""
    ends = [match.end() for match in border.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]
