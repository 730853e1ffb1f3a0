"""The letters a language is written with; anything else in a corpus is worth a look."""

import unicodedata

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_ALPHABETS = {
    "en": _LATIN,
    "de": _LATIN + "äöüß",
    "fr": _LATIN + "àâæçéèêëîïôœùûüÿ",
    "es": _LATIN + "áéíñóúü",
    "it": _LATIN + "àèéìíîòóùú",
    "pt": _LATIN + "áâãàçéêíóôõúü",
    "nl": _LATIN + "áéíóúàèëïöü",
    "pl": _LATIN + "ąćęłńóśźż",
    "cs": _LATIN + "áčďéěíňóřšťúůýž",
    "hu": _LATIN + "áéíóöőúüű",
    "tr": "abcçdefgğhıijklmnoöprsştuüvyzâîûqwx",
    "ru": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    "uk": "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
    "fa": "آابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهیءئؤًٌٍَُِّْٰٔ\u200c",
    "ar": "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئىةًٌٍَُِّْٰ",
}
PUNCTUATION = " .,!?;:'\"()-…¿¡،؛؟«»।。、，！？：；"


def base_language(language: str) -> str:
    """en-us and en_GB are English."""
    return language.lower().replace("_", "-").split("-")[0]


def outside_alphabet(text: str, language: str) -> list[str]:
    """The characters of normalised text that are neither letters of the language nor punctuation.

    A language whose alphabet is not listed may use any letter; digits that were not put into
    words count as outside.
    """
    letters = _ALPHABETS.get(base_language(language))
    return [
        c
        for c in text
        if c not in PUNCTUATION
        and (c not in letters if letters else unicodedata.category(c)[0] not in "LM")
    ]
