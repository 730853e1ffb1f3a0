"""Italian."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "àèéìíîòóùú",
    point="virgola",
    minus="meno",
    to="a",
    symbols={"%": "per cento", "&": "e", "€": "euro", "°": "gradi"},
)
