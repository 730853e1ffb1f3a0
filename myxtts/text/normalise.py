"""One written form for everything that is spoken alike."""

import re
import unicodedata

from myxtts.text.languages import find_language
from myxtts.text.written_forms import spoken

_MARKS = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "´": "'", "`": "'", "ʼ": "'",
        "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"', "‹": "'", "›": "'",
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": " - ", "―": " - ", "−": "-",
        "…": "...", "\u00a0": " ", "\u2028": " ", "\u2029": " ",
    }
)  # fmt: skip
# Composed forms that NFKC would tear into something spoken otherwise (m² into m2).
_COMPOSED = "²³ºª"
_KEPT = {ord(c): chr(0xE002 + i) for i, c in enumerate(_COMPOSED)}
_RESTORED = {0xE002 + i: c for i, c in enumerate(_COMPOSED)}
_JOINERS = "\u200c\u200d"


def normalise(text: str, language: str) -> str:
    """The text as it is learnt and spoken: lower case, words for numbers, plain marks.

    How much is put into words is up to the language's file in `myxtts.text.languages`.
    """
    known = find_language(language)
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)  # 1½ is one and a half, not 11/2
    text = unicodedata.normalize("NFKC", text.translate(_KEPT)).translate(_RESTORED)
    text = "".join(c for c in map(_visible, text.translate(_MARKS)) if c)
    text = spoken(text.translate(known.respelled), known)
    text = unicodedata.normalize("NFC", known.lower(text))
    text = re.sub(r" +([,.!?;:،؛؟)\]]+(?!\S))", r"\1", re.sub(r"\s+", " ", text))
    return re.sub(r"([(\[]) ", r"\1", text).strip()


def _visible(character: str) -> str:
    """Control characters are spaces; format characters go, but for ZWNJ and ZWJ."""
    category = unicodedata.category(character)
    if category == "Cc":
        return " "
    if category == "Cf" and character not in _JOINERS:
        return ""
    return " " if category in ("Zs", "Zl", "Zp") else character
