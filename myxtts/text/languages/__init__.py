"""The languages: one file each, named by its code, holds all that is known of a language.

To add one, write `xx.py` next to this file with a `LANGUAGE = Language(...)`. Every field is
optional: what a language does not state stays in its texts as it was written, or comes from
num2words where that package is installed. Start with the alphabet, then `cardinal` (or leave the
numbers to num2words), `point`, `minus`, `to` and the tables; `rules` are for forms that only this
language has. Add lines to tests/myxtts/text/written_forms.tsv. `de.py` is a good example.
"""

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping

from absl import logging

LATIN = "abcdefghijklmnopqrstuvwxyz"
_MOST_DIGITS = 15  # longer numbers are read digit by digit
# With larger ones some languages of num2words fail and others never return; Amharic already with
# nine digits.
_LARGEST_OF_NUM2WORDS = 10**9
_ENDLESS = ("am",)

# A pattern, and what takes its place: a template for `re.Match.expand`, or a function.
Rule = tuple[str, "str | Callable[[re.Match, Language], str]"]


@dataclasses.dataclass(frozen=True)
class Currency:
    """Each field is said as it stands: `Currency("one dollar", "dollars", "one cent", "cents")`."""

    one: str
    many: str
    one_cent: str = ""
    cents: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Language:
    """How a language is written, and how its written forms are spoken.

    Patterns ignore case unless they say `(?-i:...)`. They see the text before it becomes lower
    case, with plain quotes, hyphens and spaces.
    """

    # The letters, in lower case. Empty: any letter is one of the language's.
    alphabet: str = ""
    lower: Callable[[str], str] = str.lower
    # Characters that are replaced before anything else, as for str.translate.
    respelled: Mapping[int, str | None] = dataclasses.field(default_factory=dict)

    # Words of whole numbers, for 0 <= n < 10**15. None: num2words, or digits stay digits.
    cardinal: Callable[[int], str] | None = None
    ordinal: Callable[[int], str] | None = None
    # Words of a number of four digits from 1100 to 2099 that stands alone. None: the cardinal.
    year: Callable[[int], str] | None = None
    # Words of a number as they stand before the thing counted, given the phrase for one of it:
    # ("veintiuno", "un kilómetro") becomes "veintiún".
    before_noun: Callable[[str, str], str] | None = None
    decimal_sign: str = ","
    group_signs: str = ". "
    point: str = ""  # 3.5: three *point* five
    dot: str = ""  # 2.0.1: two *point* zero point one
    minus: str = ""  # -5: *minus* five
    to: str = ""  # 5-10: five *to* ten

    # "km": ("one kilometer", "kilometers"). The case of units of one letter matters.
    units: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    currencies: Mapping[str, Currency] = dataclasses.field(default_factory=dict)
    money_joint: str = " "  # 3.50: three dollars *and* fifty cents
    says_cents: bool = False
    # Written with a point behind it ("etc."), and said in full.
    abbreviations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    symbols: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Applied in this order before and after the forms that all languages share.
    rules: tuple[Rule, ...] = ()
    last_rules: tuple[Rule, ...] = ()

    @functools.cached_property
    def number_pattern(self) -> str:
        """A number as this language writes it: 1.234,5 or 1,234.5."""
        signs, decimal = re.escape(self.group_signs), re.escape(self.decimal_sign)
        places = rf"(?:{decimal}\d+)?"
        return rf"(?<!\d)\d{{1,3}}(?:[{signs}]\d{{3}})+(?!\d|[{signs}]\d){places}|\d+{places}"

    def words(self, n: int) -> str:
        """A whole number in words, or its digits where the language has no words for it."""
        if self.cardinal is None:
            return str(n)
        if n < 0:
            return f"{self.minus or '-'} {self.words(-n)}"
        return self.digits(str(n)) if n >= 10**_MOST_DIGITS else self.cardinal(n)

    def digits(self, text: str) -> str:
        """Digit by digit: a telephone number, the places behind the point."""
        return " ".join(self.words(int(d)) for d in text if d.isdigit())

    def number(self, text: str) -> str:
        """A number in words, as it is written, with group signs and decimal places."""
        if self.cardinal is None:
            return text
        whole, _, places = text.partition(self.decimal_sign)
        whole = re.sub(r"\D", "", whole)
        no_quantity = whole[:1] == "0" < whole[1:] or len(whole) > _MOST_DIGITS  # 007, 0044
        words = self.digits(whole) if no_quantity else self.words(int(whole or 0))
        if not places:
            return words
        return f"{words} {self.point or self.decimal_sign} {self.digits(places)}"


def digits_apart(text: str) -> str:
    """Puts spaces between the digits of numbers that are too long to be a quantity."""
    return re.sub(rf"\d{{{_MOST_DIGITS + 1},}}", lambda match: " ".join(match[0]), text)


def base_language(language: str) -> str:
    """en-us and en_GB are English."""
    return language.lower().replace("_", "-").split("-")[0]


def languages() -> tuple[str, ...]:
    """The codes of the languages that have a file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@functools.cache
def find_language(code: str) -> Language:
    """The language with this code; of one without a file, only what num2words knows."""
    code = base_language(code)
    known = Language()
    if code in languages():
        known = importlib.import_module(f"{__name__}.{code}").LANGUAGE
    return known if known.cardinal else _with_num2words(known, code)


def _with_num2words(language: Language, code: str) -> Language:
    try:
        import num2words
    except ImportError:
        if code in languages():
            logging.warning(
                "numbers in %r texts stay digits; `pip install num2words` puts them into words",
                code,
            )
        return language
    if code not in num2words.CONVERTER_CLASSES or code in _ENDLESS:
        return language
    says = num2words.CONVERTER_CLASSES[code]

    def cardinal(n: int) -> str:
        small = n < _LARGEST_OF_NUM2WORDS
        return _said(says.to_cardinal, n) if small else " ".join(cardinal(int(d)) for d in str(n))

    ordinal = functools.partial(_said, says.to_ordinal)
    return dataclasses.replace(
        language, cardinal=cardinal, ordinal=None if ordinal(1) == "1" else ordinal
    )


def _said(says: Callable[[int], str], n: int) -> str:
    """The words, or the digits of a number for which this language of num2words has none."""
    try:
        return (n < _LARGEST_OF_NUM2WORDS and says(n)) or str(n)
    except (NotImplementedError, ArithmeticError, LookupError, TypeError, ValueError):
        return str(n)


def roman(text: str) -> int:
    """The value of a Roman numeral up to 89; 0 of anything else."""
    match = re.fullmatch(r"(L?X{0,3}|XL)(IX|IV|V?I{0,3})", text)
    if not match:
        return 0
    values = [{"I": 1, "V": 5, "X": 10, "L": 50}[letter] for letter in text]
    return sum(-value if value < max(values[i:]) else value for i, value in enumerate(values))
