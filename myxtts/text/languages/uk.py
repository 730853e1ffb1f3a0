"""Ukrainian."""

from myxtts.text.languages import Language

LANGUAGE = Language(
    alphabet="абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
    point="кома",
    minus="мінус",
    symbols={"%": "відсотків", "&": "і", "€": "євро", "°": "градусів"},
)
