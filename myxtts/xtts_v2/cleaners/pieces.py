"""Splits long texts as the published code does, into pieces of a limited number of characters.

A text below the limit of its language is one piece, however many sentences it has. In a longer
text, sentences are joined as long as they fit; a sentence that is itself too long is cut between
words. (Here an opening mark stays with its sentence; the published code leaves it with the one
before.) The limits are the lengths up to which the published model was seen to speak without losing
the end.
"""

import re
import textwrap
from collections.abc import Iterator

from myxtts.text.languages import base_language
from myxtts.xtts_v2.cleaners.tables import WORDINGS

_OTHERS = 250
LIMITS = {
    "en": 250, "de": 253, "fr": 273, "es": 239, "it": 213, "pt": 203, "pl": 224, "zh": 82,
    "ar": 166, "cs": 186, "ru": 182, "nl": 251, "tr": 226, "ja": 71, "hu": 224, "ko": 95, "hi": 150,
}  # fmt: skip
_CLOSING = "\"'”’»)\\]}」』"
# No space follows ideographic marks.
_END = re.compile(rf"([.!?؟۔।॥]+)[{_CLOSING}]*(?=\s|$)|[。｡！？．]+[{_CLOSING}]*")
_ABBREVIATED = str.split("mr mrs ms dr st jr co corp inc ltd prof gen gov rep rev sen")


def longest(language: str) -> int:
    """The most characters of a text that is spoken as one piece."""
    return LIMITS.get(base_language(language), _OTHERS)


def pieces(text: str, language: str) -> list[str]:
    """The text split into pieces that fit."""
    most, found = longest(language), [""]
    text = text.strip()
    if len(text) < most:
        return [text]
    for sentence in _sentences(text, base_language(language)):
        if len(found[-1]) + len(sentence) <= most:
            found[-1] = f"{found[-1]} {sentence}".lstrip()
        elif len(sentence) > most:
            found += textwrap.wrap(sentence, width=most, break_on_hyphens=False, tabsize=1)
        else:
            found.append(sentence)
    return [piece for piece in found if piece]


def _sentences(text: str, language: str) -> Iterator[str]:
    wording = WORDINGS.get(language)
    short = {*_ABBREVIATED, *(wording.abbreviations if wording else ())}
    start = 0
    for end in _END.finditer(text):
        word = text[start : end.start()].rpartition(" ")[2].lower()
        goes_on = end[1] == "." and (word in short or ("." in word and word[:1].isalpha()))
        if goes_on or (end[1] and len(end[1]) > 1 and set(end[1]) == {"."}):
            continue
        yield text[start : end.end()].strip()
        start = end.end()
    if text[start:].strip():
        yield text[start:].strip()
