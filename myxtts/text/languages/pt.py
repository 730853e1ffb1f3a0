"""Portuguese."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "áâãàçéêíóôõúü",
    point="vírgula",
    minus="menos",
    to="a",
    symbols={"%": "por cento", "&": "e", "€": "euros", "°": "graus"},
)
