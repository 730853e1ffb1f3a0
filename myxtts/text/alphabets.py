"""The letters a language is written with; anything else in a corpus is worth a look."""

import unicodedata

from myxtts.text.languages import find_language

PUNCTUATION = " .,!?;:'\"()-…¿¡،؛؟«»।。、，！？：；"


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
