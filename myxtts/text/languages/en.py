"""English. Numbers are said the American way, without "and" and without hyphens."""

import re

from myxtts.text.languages import LATIN, Currency, Language, roman

_SMALL = str.split(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = str.split("- ten twenty thirty forty fifty sixty seventy eighty ninety")
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"),
           (100, "hundred"))  # fmt: skip
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth",
              "eight": "eighth", "nine": "ninth", "twelve": "twelfth"}  # fmt: skip
_MONTHS = str.split(
    "january february march april may june july august september october november december"
)
# "may 5" and "march 5" in lower case are verbs.
_MONTH = (
    r"(?!(?-i:may|mar|march)\b)(?P<month>sept|"
    + "|".join(f"{m}|{m[:3]}" for m in _MONTHS)
    + r")\b\.?"
)
_TITLES = {
    "gen": "general", "col": "colonel", "capt": "captain", "lt": "lieutenant", "sgt": "sergeant",
    "maj": "major", "rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator",
    "rep": "representative", "mt": "mount", "ft": "fort", "st": "saint",
}  # fmt: skip
_BEFORE_NUMBER = {"no": "number", "nos": "numbers", "fig": "figure", "vol": "volume",
                  "ch": "chapter", "p": "page", "pp": "pages", "sec": "section",
                  "approx": "approximately"}  # fmt: skip
_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor",
    "jr": "junior", "sr": "senior", "co": "company", "corp": "corporation",
    "inc": "incorporated", "ltd": "limited", "dept": "department", "ave": "avenue",
    "blvd": "boulevard", "etc": "et cetera", "vs": "versus", "approx": "approximately",
    "est": "established", "esq": "esquire", "drs": "doctors",
}  # fmt: skip
_BEFORE_DECADE = str.split("the his her their my our your early mid late")
_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile",
    "ft": "foot", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "l": "liter", "L": "liter",
    "ml": "milliliter", "gal": "gallon", "km/h": "kilometer per hour",
    "kph": "kilometer per hour", "mph": "mile per hour", "m/s": "meter per second",
    "s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "hrs": "hour",
    "ms": "millisecond", "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz",
    "GHz": "gigahertz", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "W": "watt", "kW": "kilowatt", "MW": "megawatt", "V": "volt", "kWh": "kilowatt hour",
    "dB": "decibel", "°C": "degree celsius", "°F": "degree fahrenheit", "°": "degree",
    "km²": "square kilometer", "m²": "square meter", "m³": "cubic meter",
    "sq ft": "square foot", "¢": "cent",
}  # fmt: skip
_MAGNITUDES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "b": "billion",
               "tn": "trillion"}  # fmt: skip
_CURRENCIES = {
    "$": Currency("one dollar", "dollars", "one cent", "cents"),
    "£": Currency("one pound", "pounds", "one penny", "pence"),
    "€": Currency("one euro", "euros", "one cent", "cents"),
    "¥": Currency("one yen", "yen"),
    "₹": Currency("one rupee", "rupees", "one paisa", "paise"),
}
_SYMBOLS = {"&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", "°": "degrees",
            "©": "copyright", "×": "times", "÷": "divided by", "±": "plus or minus",
            "§": "section", "$": "dollars", "£": "pounds", "€": "euros"}  # fmt: skip


def _cardinal(n: int) -> str:
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return _TENS[n // 10] + (f" {_SMALL[n % 10]}" if n % 10 else "")
    size, name = next(scale for scale in _SCALES if n >= scale[0])
    return f"{_cardinal(n // size)} {name}" + (f" {_cardinal(n % size)}" if n % size else "")


def _ordinal(n: int) -> str:
    head, _, last = _cardinal(n).rpartition(" ")
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    else:
        last = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return f"{head} {last}".strip()


def _year(n: int) -> str:
    """1984: nineteen eighty four; 2005: two thousand five; 1900: nineteen hundred."""
    century, rest = divmod(n, 100)
    if not 11 <= century <= 20 or n in range(2000, 2010):
        return _cardinal(n)
    if rest == 0:
        return f"{_cardinal(century)} hundred"
    return f"{_cardinal(century)} {_two_places(rest)}"


def _two_places(n: int) -> str:
    return f"oh {_cardinal(n)}" if n < 10 else _cardinal(n)


def _plural(unit: str) -> str:
    first, _, rest = unit.partition(" ")
    if first in ("square", "cubic", "kilowatt") and rest:
        return f"{first} {_plural(rest)}"
    first = "feet" if first == "foot" else first if first.endswith("hertz") else f"{first}s"
    return f"{first} {rest}".strip()


def _scaled_money(match: re.Match, language: Language) -> str:
    scale = match["scale"].lower()
    many = language.currencies[match["sign"]].many
    return f"{language.number(match['amount'])} {_MAGNITUDES.get(scale, scale)} {many}"


def _date(match: re.Match, language: Language) -> str:
    found = match.groupdict()
    month = found["month"]
    if month.isdigit():
        month = int(month)
    else:
        month = 1 + next(i for i, m in enumerate(_MONTHS) if m.startswith(month.lower()[:3]))
    day, last, year = int(found["day"]), found.get("last"), found.get("year")
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    said = f"{_MONTHS[month - 1]} {_ordinal(day)}" + (f" to {_ordinal(int(last))}" if last else "")
    if found.get("of"):
        said = f"{_ordinal(day)} of {_MONTHS[month - 1]}"
    return f"{said}, {_year(int(year))}" if year else said


def _time(match: re.Match, language: Language) -> str:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if hour > 24 or minute > 59:
        return match[0]
    said = _cardinal(hour)
    if minute:
        said += f" {_two_places(minute)}"
    elif not half:
        said += " o'clock" if 1 <= hour <= 12 else " hundred hours"
    return f"{said} {half.lower()} m" if half else said


def _decade(match: re.Match, language: Language) -> str:
    said = _year(int(match[1])) if len(match[1]) == 4 else _cardinal(int(match[1]))
    return said[:-1] + "ies" if said.endswith("y") else said + "s"


def _fraction(match: re.Match, language: Language) -> str:
    above, below = int(match["above"]), int(match["below"])
    if 0 < above < below and (below <= 20 or below in (32, 64, 100)):
        part = {2: "half", 4: "quarter"}.get(below) or _ordinal(below)
        said = f"{_cardinal(above)} {part}{'s' if above > 1 else ''}"
    else:
        said = f"{_cardinal(above)} over {_cardinal(below)}"
    if not match["whole"]:
        return said
    return f"{language.number(match['whole'])} and {re.sub('^one (?!over)', 'a ', said)}"


def _telephone(match: re.Match, language: Language) -> str:
    groups = re.findall(r"\d+", match[0])
    return ", ".join(
        f"{_cardinal(int(g[0]))} hundred" if g in ("800", "900") else language.digits(g)
        for g in groups
    )


def _reign(match: re.Match, language: Language) -> str:
    n = roman(match[2])
    return f"{match[1]} the {_ordinal(n)}" if n else match[0]


def _part(match: re.Match, language: Language) -> str:
    n = roman(match[2])
    return f"{match[1]} {_cardinal(n)}" if n else match[0]


def _initials(match: re.Match, language: Language) -> str:
    return " ".join(letter for letter in match[0] if letter.isalpha())


def _table(words: dict[str, str]):
    return lambda match, language: words[match[1].lower()]


_HALF = r"(?P<half>[ap])\.?m\b\.?"
_NUMBER = Language(decimal_sign=".", group_signs=",").number_pattern
_RULES = (
    # After a name it is a street or a drive, before one a saint or a doctor.
    (r"(?-i:(?<=[a-z]\s)St\.(?!\s[A-Z]))", "street"),
    (r"(?-i:(?<=[a-z]\s)Dr\.(?=[,;:!?]|\s*$|\s[a-z]))", "drive"),
    (rf"(?-i:\b(?i:({'|'.join(_TITLES)}))\.(?=\s[A-Z]))", _table(_TITLES)),
    (rf"\b({'|'.join(_BEFORE_NUMBER)})\.\s?(?=\d)",
     lambda match, language: f"{_BEFORE_NUMBER[match[1].lower()]} "),
    (r"\be\.\s?g\.", "for example"),
    (r"\bi\.\s?e\.", "that is"),
    (r"\bPh\.\s?D\b\.?", "p h d"),
    (r"\bw/o\b", "without"),
    (r"\bhttps?://", ""),
    (r"\bwww\.(?=\w)", "w w w dot "),
    (r"(?<=\w)\.(?=(?:com|org|net|edu|gov|io|co|uk)\b)", " dot "),
    (r"\b9/11\b", "nine eleven"),
    (r"\b24/7\b", "twenty four seven"),
    (r"\b50/50\b", "fifty fifty"),
    (r"(?<![\d-])(?:\+?1[-. ])?(?:\(\d{3}\)|\d{3}[-.])[- ]?\d{3}[-. ]\d{4}(?![\d-])", _telephone),
    (r"(?<![\d-])\d{3}-\d{4}(?![\d-])", _telephone),
    (r"(?P<sign>[$£€¥₹])\s?(?P<amount>" + _NUMBER + r")\s?"
     r"(?P<scale>thousand|million|billion|trillion|bn|mn|tn|[kmb])\b", _scaled_money),
    (r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b", _date),
    (r"\b(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})\b", _date),
    (rf"\b{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:-(?P<last>\d{{1,2}}))?\b(?![:\d-])"
     r"(?:,?\s(?P<year>\d{4})\b)?", _date),
    (rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?P<of>of\s)?{_MONTH}(?:,?\s(?P<year>\d{{4}})\b)?",
     _date),
    (r"(?:(?<=\d)|(?<=\d[ap]m))\s?-\s?(?=\d{1,2}(?::\d\d|\s?[ap]\.?m\b))", " to "),
    (rf"\b(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?!\d|:)(?:\s?{_HALF})?", _time),
    (rf"\b(?P<hour>\d{{1,2}})(?P<minute>(?!))?\s?{_HALF}", _time),
    (r"\b(\d{3}0)'?s\b", _decade),
    (r"(?<!\w)'([2-9]0)s\b", _decade),
    # "30s" may be seconds.
    (r"(?:" + "|".join(f"(?<={word}[ -])" for word in _BEFORE_DECADE) + r")([2-9]0)s\b", _decade),
    (r"(?<!\w)'(\d\d)\b", lambda match, language: _two_places(int(match[1]))),
    (r"\b(\d)'\s?(\d{1,2})\"", lambda match, language: f"{language.words(int(match[1]))} foot "
     f"{language.words(int(match[2]))}"),
    (r"\b(\d+)(?:st|nd|rd|th)\b", lambda match, language: _ordinal(int(match[1]))),
    (r"(?:\b(?P<whole>\d+)\s)?\b(?P<above>\d{1,3})[/⁄](?P<below>\d{1,3})\b(?![/⁄])", _fraction),
    (r"(?-i:\b3M\b)", "three m"),  # the company
    (r"(?-i:\b(\d+(?:\.\d+)?)M\b)", r"\1 million"),
    (r"\b(\d+)x\b", r"\1 times"),
    (r"(?<=\d)\s?x\s?(?=\d)", " times "),
    (r"#(?=\d)", "number "),
    (r"~\s?(?=[\d$£€])", "about "),
    (r"(?<![\w.])\.(?=\d)", "0."),
    (r"(?-i:\b(World War|Chapter|Part|Act|Volume|Book|Type|Phase|Section|Super Bowl)"
     r"\s([IVXL]+)\b)", _part),
    (r"(?-i:\b((?:Pope |King |Queen )[A-Z]\w+|Henry|Louis|George|Elizabeth|Charles|Edward|James|"
     r"Richard|William|Philip|John Paul|Napoleon|Nicholas|Frederick)"
     r"\s([IVXL]{2,}|[VX]|I(?=[.,;:!?]|\s(?:of|and)\b|$))(?!\w))", _reign),
    (r"(?-i:(?<![\w.])(?:[A-Za-z]\.){2,}(?![A-Za-z]))", _initials),
    (r"(?-i:(?<![\w.])(?:[A-Z]\.\s){2,}(?=[A-Z][a-z]))",
     lambda match, language: f"{_initials(match, language)} "),
)  # fmt: skip

LANGUAGE = Language(
    alphabet=LATIN,
    cardinal=_cardinal,
    ordinal=_ordinal,
    year=_year,
    decimal_sign=".",
    group_signs=",",
    point="point",
    dot="point",
    minus="minus",
    to="to",
    units={unit: (f"one {name}", _plural(name)) for unit, name in _UNITS.items()},
    currencies=_CURRENCIES,
    money_joint=" and ",
    says_cents=True,
    abbreviations=_ABBREVIATIONS,
    symbols=_SYMBOLS,
    rules=_RULES,
)
