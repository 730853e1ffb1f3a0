"""Hungarian."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "áéíóöőúüű",
    point="egész",
    minus="mínusz",
    symbols={"%": "százalék", "&": "és", "€": "euró", "°": "fok"},
)
