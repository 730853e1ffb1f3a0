"""Forms that all languages write alike: ranges, money, units, numbers, abbreviations, signs.

What they are called is in the language's file; see `myxtts.text.languages`.
"""

import functools
import re
from collections.abc import Callable, Iterator

from myxtts.text.languages import Language, Rule, digits_apart

Replacement = Callable[[re.Match], str]


def spoken(text: str, language: Language) -> str:
    """The text with its written forms in words; the case of what is not changed is kept."""
    text = digits_apart(text)
    for pattern, replacement in _compiled(language):
        text = pattern.sub(replacement, text)
    return text


@functools.cache
def _compiled(language: Language) -> list[tuple[re.Pattern, Replacement]]:
    def replacement(by) -> Replacement:
        if callable(by):
            return lambda match: by(match, language)
        return lambda match: match.expand(by)

    rules = [*language.rules, *_shared(language), *language.last_rules]
    return [(re.compile(pattern, re.IGNORECASE), replacement(by)) for pattern, by in rules]


def _shared(language: Language) -> Iterator[Rule]:
    number = language.number_pattern
    if language.dot:
        yield r"(?<![\d.])\d+(?:\.\d+){2,}(?![\d,])", _version
    if language.to:
        yield r"(?<=\d)\s?-\s?(?=\d)", f" {language.to} "
    if language.minus:
        yield r"(?<![\w.])-(?=\d)", f"{language.minus} "
    # COVID-19, 5-year-old: a hyphen that is not heard.
    yield r"(?<=[^\W\d_])-(?=\d)|(?<=\d)-(?=[^\W\d_])", " "
    if language.currencies:
        signs = "".join(map(re.escape, language.currencies))
        to = rf"(?:(?P<low>{number})\s{language.to}\s)?" if language.to else "(?P<low>(?!))?"
        yield rf"(?P<sign>[{signs}])\s?{to}(?P<amount>{number})", _money
        yield rf"(?P<low>(?!))?(?P<amount>{number})\s?(?P<sign>[{signs}])(?!\d)", _money
    if language.units:
        names = "|".join(re.escape(u) for u in sorted(language.units, key=len, reverse=True))
        yield rf"(?P<n>{number})\s?(?P<unit>{names})(?![\w/])", _unit
    if language.ordinal:
        yield r"\b(\d+)\.?[ºª]", lambda match, language: f"{language.ordinal(int(match[1]))} "
    if language.cardinal:
        yield number, lambda match, language: f" {_year_or_number(match[0], language)} "
    if language.abbreviations:
        names = "|".join(re.escape(a) for a in language.abbreviations)
        yield rf"(?<!\w)({names})\.(?=[\s,;:)]|$)", _abbreviation
    if language.symbols:
        names = "|".join(re.escape(s) for s in language.symbols)
        yield names, lambda match, language: f" {language.symbols[match[0]]} "


def _version(match: re.Match, language: Language) -> str:
    """2.0.1, but not 1.234.567."""
    if re.fullmatch(language.number_pattern, match[0]):
        return match[0]
    said = f" {language.dot} ".join(language.words(int(n)) for n in match[0].split("."))
    return f" {said} "


def _money(match: re.Match, language: Language) -> str:
    currency = language.currencies[match["sign"]]
    if match["low"]:
        low, high = language.number(match["low"]), language.number(match["amount"])
        return f"{low} {language.to} {high} {currency.many}"
    whole, _, places = match["amount"].partition(language.decimal_sign)
    if len(places) not in (0, 2) or (places and not currency.cents) or len(whole) > 15:
        return f"{language.number(match['amount'])} {currency.many}"
    parts = []
    units, cents = int(re.sub(r"\D", "", whole)), int(places or 0)
    if units or not cents:
        parts.append(counted(units, currency.one, currency.many, language))
    if cents and (language.says_cents or not parts):
        parts.append(counted(cents, currency.one_cent, currency.cents, language))
    elif cents:
        parts.append(language.words(cents))
    return language.money_joint.join(parts)


def _unit(match: re.Match, language: Language) -> str:
    written = match["unit"]
    names = language.units.get(written)
    if names is None and len(written) > 1:  # KM is km, but 3M is not three meters
        names = {name.lower(): both for name, both in language.units.items()}.get(written.lower())
    if names is None:
        return match[0]
    if match["n"].isdigit():
        return counted(int(match["n"]), *names, language)
    return f"{language.number(match['n'])} {names[1]}"


def counted(n: int, one: str, many: str, language: Language) -> str:
    """A number of things: "one kilometer", "two kilometers"."""
    if n == 1:
        return one
    words = language.words(n)
    return f"{language.before_noun(words, one) if language.before_noun else words} {many}"


def _year_or_number(text: str, language: Language) -> str:
    if language.year and len(text) == 4 and text.isdigit() and 1100 <= int(text) <= 2099:
        return language.year(int(text))
    return language.number(text)


def _abbreviation(match: re.Match, language: Language) -> str:
    said = language.abbreviations.get(match[1])
    if said is None:
        said = next(v for k, v in language.abbreviations.items() if k.lower() == match[1].lower())
    return said
