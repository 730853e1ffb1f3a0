"""One written form for everything that is spoken alike."""

import re
import unicodedata

from myxtts.text.alphabets import base_language
from myxtts.text.english import speak_english
from myxtts.text.number_words import NUMBER_LANGUAGES, number
from myxtts.text.persian import ZWNJ, speak_persian

_MARKS = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "´": "'", "`": "'", "ʼ": "'",
        "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"', "‹": "'", "›": "'",
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": " - ", "―": " - ", "−": "-",
        "…": "...", "\u00a0": " ", "\u2028": " ", "\u2029": " ",
    }
)  # fmt: skip
# Composed forms that NFKC would tear into something spoken otherwise (m² into m2).
_BEFORE_NFKC = str.maketrans({"²": "\ue002", "³": "\ue003"})
_AFTER_NFKC = str.maketrans({"\ue002": "²", "\ue003": "³"})
_PERCENT = {"de": "prozent", "es": "por ciento", "fr": "pour cent"}
_GROUPED = re.compile(r"(?<!\d)\d{1,3}(?:[.\u202f ]\d{3})+(?![.\d])(?:,\d+)?|\d+(?:,\d+)?")


def normalise(text: str, language: str) -> str:
    """The text as it is to be learnt and spoken: lower case, words for numbers, plain marks.

    English and Persian are put into words in full; German, Spanish and French have their numbers
    and percentages put into words; other languages keep their digits.
    """
    language = base_language(language)
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    text = text.translate(_BEFORE_NFKC)
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)  # 1½ is one and a half, not 11/2
    text = unicodedata.normalize("NFKC", text).translate(_AFTER_NFKC).translate(_MARKS)
    text = "".join(c for c in map(_visible, text) if c)
    if language == "en":
        text = speak_english(text)
    elif language == "fa":
        text = speak_persian(text)
    elif language in NUMBER_LANGUAGES:
        text = _GROUPED.sub(lambda m: _continental(m[0], language), text)
        text = re.sub(r"\s?%", f" {_PERCENT[language]}", text)
    if language == "tr":
        text = text.replace("I", "ı").replace("İ", "i")
    text = unicodedata.normalize("NFC", text.lower())
    text = re.sub(r" +([,.!?;:،؛؟)\]]+(?!\S))", r"\1", re.sub(r"\s+", " ", text))
    return re.sub(r"([(\[]) ", r"\1", text).strip()


def _visible(character: str) -> str:
    """Control characters are spaces; format characters go, but for ZWNJ and ZWJ."""
    category = unicodedata.category(character)
    if category == "Cc":
        return " "
    if category == "Cf" and character not in (ZWNJ, "\u200d"):
        return ""
    return " " if category in ("Zs", "Zl", "Zp") else character


def _continental(text: str, language: str) -> str:
    """1.234,5 as it is written on the continent."""
    whole, _, places = text.partition(",")
    return number(re.sub(r"\D", "", whole), places, language)
