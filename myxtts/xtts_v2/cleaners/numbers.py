"""Numbers in words, by num2words: grouped numbers, money, decimals, ordinals, cardinals.

All as in the published cleaners, right or wrong, so that a number is read as the model learnt it:
in a Polish text with pounds no money is put into words, Turkish decimals are read in two parts, and
Arabic amounts are riyals.
"""

import functools
import re

from myxtts import UserError
from myxtts.xtts_v2.cleaners.libraries import library
from myxtts.xtts_v2.cleaners.tables import Wording

# Languages that group digits with commas. The others group them with points or any other sign
# between groups of three digits.
_WITH_COMMAS = ("en", "ru")
_GROUPED_BY_COMMAS = re.compile(r"\b\d{1,3}(?:,\d{3})*(?:\.\d+)?\b")
_GROUPED_BY_POINTS = re.compile(r"\b\d{1,3}(?:.\d{3})*(?:,\d+)?\b")
_AMOUNT = "[0-9.,]*[0-9]+"
_CURRENCIES = [
    (code, re.compile(f"{sign}{_AMOUNT}|{_AMOUNT}{sign}"))
    for code, sign in (("GBP", "£"), ("USD", r"\$"), ("EUR", "€"))
]
_DECIMAL = re.compile("[0-9]+[.,][0-9]+")
_WHOLE = re.compile("[0-9]+")
# The exceptions of num2words for numbers that a language has no words for.
_NO_WORDS = (
    *(NotImplementedError, ArithmeticError, LookupError, RecursionError),
    *(AssertionError, AttributeError, TypeError, ValueError),
)
# The search for amounts takes minutes in a number of thousands of digits.
_TOO_LONG = re.compile("[0-9.,]{300}")


class NoWords(UserError):
    """Raised for a text with a number that has no words in its language; other texts can be
    read."""


def numbers_in_words(text: str, language: str, wording: Wording) -> str:
    """The text with its numbers in words. NoWords names a number that num2words has no words
    for."""
    if found := _TOO_LONG.search(text):
        raise NoWords(f"the number {found[0][:20]}... is too long to be said; write it out")
    if language in _WITH_COMMAS:
        text = _GROUPED_BY_COMMAS.sub(lambda match: match[0].replace(",", ""), text)
    else:
        text = _GROUPED_BY_POINTS.sub(lambda match: match[0].replace(".", ""), text)
    text = _money_in_words(text, language, wording)
    if language != "tr":
        text = _DECIMAL.sub(
            lambda match: _said(float(match[0].replace(",", ".")), match[0], language), text
        )
    text = re.sub(
        f"([0-9]+)(?:{wording.ordinal})",
        lambda match: _said(int(match[1]), match[0], language, ordinal=True),
        text,
    )
    return _WHOLE.sub(lambda match: _said(int(match[0]), match[0], language), text)


def _money_in_words(text: str, language: str, wording: Wording) -> str:
    """Puts amounts into words, currency by currency. A currency with an amount that num2words has
    no words for stays as it is written, and so do the currencies after it."""

    def said(code: str, match: re.Match) -> str:
        digits = re.sub(r"[^\d.]", "", match[0].replace(",", "."))
        amount = float(digits)
        words = _said(amount, match[0], language, to="currency", currency=code)
        if amount.is_integer() and wording.joint in words:
            words = words[: words.rindex(wording.joint)]
        return words

    for code, pattern in _CURRENCIES:
        try:
            text = pattern.sub(functools.partial(said, code), text)
        except (NoWords, ValueError):  # ValueError: 1.2.3 is no amount
            break
    return text


def _said(number: int | float, written: str, language: str, **options) -> str:
    num2words = library("num2words", language).num2words
    try:
        return num2words(number, lang=language, **options)
    except _NO_WORDS as error:
        raise NoWords(
            f"num2words has no words for {written!r} in {language!r} texts "
            f"({type(error).__name__}); write it out"
        ) from None
