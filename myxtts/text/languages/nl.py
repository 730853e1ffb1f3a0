"""Dutch."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "áéíóúàèëïöü",
    point="komma",
    minus="min",
    to="tot",
    symbols={"%": "procent", "&": "en", "€": "euro", "°": "graden"},
)
