"""Polish."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "ąćęłńóśźż",
    point="przecinek",
    minus="minus",
    to="do",
    symbols={"%": "procent", "&": "i", "€": "euro", "°": "stopni"},
)
