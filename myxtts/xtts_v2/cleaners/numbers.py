"""Numbers in words, by num2words: grouped numbers, money, decimals, ordinals, cardinals.

As in the published cleaners, so that a number is heard as the model learnt it, right or wrong:
one pound in a Polish text leaves all its money to the words for signs, Turkish decimals are read in
two parts, and Arabic amounts are riyals.
"""

import functools
import re

from myxtts import UserError
from myxtts.xtts_v2.cleaners.libraries import library
from myxtts.xtts_v2.cleaners.tables import Wording

# Where numbers are grouped with commas. Elsewhere with points, or with any other sign that stands
# between three digits each.
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
# What num2words raises for numbers that one of its languages cannot say.
_NO_WORDS = (
    *(NotImplementedError, ArithmeticError, LookupError, RecursionError),
    *(AssertionError, AttributeError, TypeError, ValueError),
)
# The search for amounts takes minutes in thousands of digits.
_TOO_LONG = re.compile("[0-9.,]{300}")


class NoWords(UserError):
    """A text with a number that has no words in its language; others can be read."""


def numbers_in_words(text: str, language: str, wording: Wording) -> str:
    """NoWords names a number that num2words cannot say in this language."""
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
    """The first currency that num2words cannot say stays as it is written, and those after it."""

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
