"""Russian."""

from myxtts.text.languages import Language

LANGUAGE = Language(
    alphabet="абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    point="запятая",
    minus="минус",
    symbols={"%": "процентов", "&": "и", "€": "евро", "°": "градусов"},
)
