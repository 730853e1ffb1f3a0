"""Cleaners: the written form in which the published XTTS v2 was trained on texts of 17 languages.

    cleaned("Dr. Smith paid $20.", "en")      # doctor smith paid twenty dollars.

| file | what it holds |
|---|---|
| tables.py | words for signs and abbreviations, a row per language |
| numbers.py | numbers in words, by num2words |
| chinese.py | numbers and punctuation in Chinese texts |
| pieces.py | splits long texts |
| libraries.py | the libraries that each language needs |

Chinese becomes pinyin with tone numbers, Japanese romaji and Korean Latin letters. VERSION goes up
with every change that words some text differently.
"""

import functools
import re

from myxtts import UserError
from myxtts.text.languages import base_language
from myxtts.xtts_v2.cleaners.chinese import chinese_in_words
from myxtts.xtts_v2.cleaners.libraries import library
from myxtts.xtts_v2.cleaners.numbers import numbers_in_words
from myxtts.xtts_v2.cleaners.tables import SIGNS, WORDINGS, Wording

VERSION = 1
LANGUAGES = (*WORDINGS, "ja")


def cleaned(text: str, language: str) -> str:
    """The text as it was written in training. UserError names a missing library, a number without
    words, or a language without cleaners.

    A language code may include a country.
    """
    language = base_language(language)
    if language == "ja":
        return _romaji().romaji(text).lower()
    if language not in WORDINGS:
        raise UserError(
            f"XTTS v2 was not trained on {language!r} texts; it reads {', '.join(LANGUAGES)}"
        )
    wording = WORDINGS[language]
    text = text.replace('"', "")
    if language == "tr":  # lower() turns it into two characters; the plain I becomes i as well
        text = text.replace("İ", "i")
    text = text.lower()
    chinese = language == "zh"
    text = chinese_in_words(text) if chinese else numbers_in_words(text, language, wording)
    text = re.sub(r"\s+", " ", _with_signs_in_words(text, wording)).strip()
    if chinese:
        return _pinyin(text)
    return _romanised_korean(text) if language == "ko" else text


def _with_signs_in_words(text: str, wording: Wording) -> str:
    end = r"\." if wording.ends_with_point else r"\b"
    for short, long in wording.abbreviations.items():
        text = re.sub(rf"\b{short}{end}", long, text, flags=re.IGNORECASE)
    for sign, words in zip(SIGNS, wording.signs, strict=True):
        text = text.replace(sign, f" {words} ").replace("  ", " ")
    return text.strip()


def _pinyin(text: str) -> str:
    if text.isascii():
        return text  # nothing to romanise
    pypinyin = library("pypinyin", "zh")
    syllables = pypinyin.pinyin(
        text, style=pypinyin.Style.TONE3, heteronym=False, neutral_tone_with_five=True
    )
    return "".join(syllable[0] for syllable in syllables)


@functools.cache
def _romaji():
    return library("cutlet", "ja").Cutlet()


def _romanised_korean(text: str) -> str:
    return text if text.isascii() else _transliterator().translit(text)


@functools.cache
def _transliterator():
    module = library("hangul_romanize", "ko")
    from hangul_romanize.rule import academic

    return module.Transliter(academic)
