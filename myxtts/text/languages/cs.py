"""Czech."""

from myxtts.text.languages import LATIN, Language

LANGUAGE = Language(
    alphabet=LATIN + "áčďéěíňóřšťúůýž",
    point="celá",
    minus="minus",
    to="až",
    symbols={"%": "procent", "&": "a", "€": "eur", "°": "stupňů"},
)
