"""English as it is spoken: money, dates, times, units, abbreviations and numbers in words."""

import re

from myxtts.text.number_words import cardinal, english_ordinal, english_year, number

_MONTHS = str.split(
    "january february march april may june july august september october november december"
)
_MONTH = r"(?P<month>" + "|".join(f"{m}|{m[:3]}" for m in _MONTHS) + r"|sept)\b\.?"
_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor",
    "st": "saint", "jr": "junior", "sr": "senior", "gen": "general", "col": "colonel",
    "capt": "captain", "lt": "lieutenant", "sgt": "sergeant", "maj": "major", "rev": "reverend",
    "hon": "honorable", "gov": "governor", "sen": "senator", "rep": "representative",
    "co": "company", "corp": "corporation", "inc": "incorporated", "ltd": "limited",
    "dept": "department", "ave": "avenue", "blvd": "boulevard", "mt": "mount", "ft": "fort",
    "etc": "et cetera", "vs": "versus", "approx": "approximately", "est": "established",
    "fig": "figure", "vol": "volume", "esq": "esquire", "drs": "doctors",
}  # fmt: skip
_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile",
    "ft": "foot", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "l": "liter", "ml": "milliliter",
    "gal": "gallon", "km/h": "kilometer per hour", "kph": "kilometer per hour",
    "mph": "mile per hour", "m/s": "meter per second", "s": "second", "sec": "second",
    "min": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "ms": "millisecond",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "kb": "kilobyte",
    "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "w": "watt", "kw": "kilowatt",
    "v": "volt", "mw": "megawatt", "kwh": "kilowatt hour", "db": "decibel", "°c": "degree celsius",
    "°f": "degree fahrenheit", "°": "degree", "km²": "square kilometer", "m²": "square meter",
    "m³": "cubic meter", "sq ft": "square foot",
}  # fmt: skip
_PLURALS = {"foot": "feet", "hertz": "hertz", "celsius": "celsius"}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_MAGNITUDES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "b": "billion",
               "tn": "trillion"}  # fmt: skip
_SYMBOLS = {"&": " and ", "@": " at ", "+": " plus ", "=": " equals ", "%": " percent ",
            "°": " degrees ", "©": " copyright ", "×": " times ", "÷": " divided by ",
            "±": " plus or minus ", "§": " section "}  # fmt: skip
_FRACTIONS = {
    (1, 2): "one half", (1, 4): "one quarter", (3, 4): "three quarters", (1, 3): "one third",
    (2, 3): "two thirds", (1, 5): "one fifth", (1, 8): "one eighth", (3, 8): "three eighths",
    (5, 8): "five eighths", (7, 8): "seven eighths", (1, 10): "one tenth",
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"


def _say(text: str) -> str:
    whole, _, places = text.replace(",", "").partition(".")
    return number(whole, places, "en")


def _is_one(text: str) -> bool:
    return text.replace(",", "") == "1"


def _plural(unit: str) -> str:
    first, _, rest = unit.partition(" ")
    if first in ("square", "cubic", "kilowatt"):
        return f"{first} {_plural(rest)}"
    return f"{_PLURALS.get(first, first + 's')} {rest}".strip()


def _money(match: re.Match) -> str:
    one, many, cent, cents = _CURRENCIES[match["sign"]]
    amount, scale = match["amount"], (match["scale"] or "").lower()
    if scale:
        return f"{_say(amount)} {_MAGNITUDES.get(scale, scale)} {many}"
    whole, _, places = amount.replace(",", "").partition(".")
    if len(places) not in (0, 2):
        return f"{_say(amount)} {many}"
    parts = []
    if int(whole) or not int(places or 0):
        parts.append(f"{_say(whole)} {one if int(whole) == 1 else many}")
    if int(places or 0):
        parts.append(f"{cardinal(int(places), 'en')} {cent if int(places) == 1 else cents}")
    return " and ".join(parts)


def _date(day: int, month: int, year: str | None) -> str | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    spoken = f"{_MONTHS[month - 1]} {english_ordinal(day)}"
    return f"{spoken}, {english_year(int(year))}" if year else spoken


def _named_date(match: re.Match) -> str:
    month = next(i for i, m in enumerate(_MONTHS, 1) if m.startswith(match["month"].lower()[:3]))
    return _date(int(match["day"]), month, match["year"]) or match[0]


def _numeric_date(match: re.Match) -> str:
    return _date(int(match["day"]), int(match["month"]), match["year"]) or match[0]


def _time(match: re.Match) -> str:
    hour, minute, half = int(match["hour"]), int(match["minute"]), match["half"]
    if hour > 24 or minute > 59:
        return match[0]
    spoken = cardinal(hour, "en")
    if minute:
        spoken += f" oh {cardinal(minute, 'en')}" if minute < 10 else f" {cardinal(minute, 'en')}"
    elif not half:
        spoken += " o'clock" if 1 <= hour <= 12 else " hundred hours"
    return f"{spoken} {half[0].lower()} m" if half else spoken


def _decade(match: re.Match) -> str:
    spoken = english_year(int(match[1])) if len(match[1]) == 4 else cardinal(int(match[1]), "en")
    return spoken[:-1] + "ies" if spoken.endswith("y") else spoken + "s"


def _fraction(match: re.Match) -> str:
    pair = int(match[2]), int(match[3])
    if pair in _FRACTIONS:
        words = _FRACTIONS[pair]
        return f"{_say(match[1])} and {words.replace('one ', 'a ', 1)}" if match[1] else words
    words = f"{_say(match[2])} over {_say(match[3])}"
    return f"{_say(match[1])} and {words}" if match[1] else words


def _unit(match: re.Match) -> str:
    unit = _UNITS[match["unit"].lower()]
    return f"{_say(match['n'])} {unit if _is_one(match['n']) else _plural(unit)}"


def _year_or_number(match: re.Match) -> str:
    text = match[0]
    if len(text) == 4 and text.isdigit() and 1100 <= int(text) <= 2099:
        return english_year(int(text))
    return _say(text)


_UNIT_NAMES = "|".join(re.escape(u) for u in sorted(_UNITS, key=len, reverse=True))
_SIGNS = "".join(map(re.escape, _CURRENCIES))
_RULES: list[tuple[re.Pattern, object]] = [
    (re.compile(pattern, re.IGNORECASE), spoken)
    for pattern, spoken in (
        # After a name it is a street, before one a saint.
        (r"(?-i:(?<=[a-z]\s)St\.(?!\s[A-Z]))", "street"),
        (r"\b\d+(?:\.\d+){2,}\b", lambda m: " point ".join(_say(n) for n in m[0].split("."))),
        (r"\be\.\s?g\.", "for example"),
        (r"\bi\.\s?e\.", "that is"),
        (r"\bNo\.\s?(?=\d)", "number "),
        (r"(?<=\d)\s?(?P<half>[ap])\.m\.", lambda m: f" {m['half']}m"),
        (rf"(?P<sign>[{_SIGNS}])\s?(?P<amount>{_NUMBER})"
         r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|mn|tn|[kmb])\b)?", _money),
        (r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b", _numeric_date),
        (r"\b(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})\b", _numeric_date),
        (rf"\b{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s(?P<year>\d{{4}})\b)?",
         _named_date),
        (rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s(?P<year>\d{{4}})\b)?",
         _named_date),
        (r"\b(?P<hour>\d{1,2}):(?P<minute>\d{2})\b(?!:)(?:\s?(?P<half>[ap]m)\b)?", _time),
        (r"\b(\d{1,2})\s?([ap])m\b", lambda m: f"{_say(m[1])} {m[2].lower()} m"),
        (r"\b(\d{3}0)s\b", _decade),
        (r"'([2-9]0)s\b", _decade),
        (r"\b(\d+)(?:st|nd|rd|th)\b", lambda m: english_ordinal(int(m[1]))),
        (r"(?:\b(\d+)\s)?\b(\d{1,3})[/⁄](\d{1,3})\b(?![/⁄])", _fraction),
        (rf"(?P<n>{_NUMBER})\s?(?P<unit>{_UNIT_NAMES})(?![\w/])", _unit),
        (r"(?<=\d)\s?[-–]\s?(?=\d)", " to "),
        (r"(?<![\w.])[-−](?=\d)", "minus "),
        (r"#(?=\d)", "number "),
        (r"(?<![\w.])\.(?=\d)", "0."),
        (_NUMBER, lambda m: f" {_year_or_number(m)} "),
        (r"\b(" + "|".join(_ABBREVIATIONS) + r")\.(?=\s|,|$)",
         lambda m: _ABBREVIATIONS[m[1].lower()]),
        ("|".join(map(re.escape, _SYMBOLS)), lambda m: _SYMBOLS[m[0]]),
    )
]  # fmt: skip


def speak_english(text: str) -> str:
    """Written English in words only; the case of what is not changed is kept."""
    for pattern, spoken in _RULES:
        text = pattern.sub(spoken, text)
    return text
