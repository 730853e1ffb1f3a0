"""German."""

import re

from myxtts.text.languages import LATIN, Currency, Language, roman

_SMALL = str.split(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
_TENS = str.split("- zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_MONTHS = str.split(
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
)
_MONTH = "(?P<month>" + "|".join(_MONTHS) + r"|Jänner|(?:Jan|Feb|Apr|Aug|Sept?|Okt|Nov|Dez)\.)"
# What stands before an ordinal gives its ending.
_ENDS_IN_N = str.split(
    "am vom zum zur beim im dem den des der seit bis ab nach vor einem einen eines einer jedem "
    "jeden dieses diesem diesen dieser ihrem ihren seinem seinen meinem meinen unserem unseren"
)
_AFTER = "(?:in|zu|von|mit|aus|bei|an|auf|seit|nach|vor|ab)"  # in der fünften, but der fünfte
_ENDS_IN_E = str.split("der die das jede diese eine meine seine ihre unsere")
_ARTICLE = rf"{_AFTER} der|" + "|".join(dict.fromkeys(_ENDS_IN_N + _ENDS_IN_E + ["ein", "kein"]))
_ORDERED = (
    "Jahrhunderts?|Jahrtausends?|Weltkriegs?|Klasse|Platz|Stock|Mal|Liga|Bundesliga|Kapitel|Tag|"
    "Geburtstag|Auflage|FC|Etage|Runde|Halbzeit|Woche|Januar|Semester|Akt|Teil|Band"
)
_UNITS = {
    "km": ("ein Kilometer", "Kilometer"), "m": ("ein Meter", "Meter"),
    "cm": ("ein Zentimeter", "Zentimeter"), "mm": ("ein Millimeter", "Millimeter"),
    "kg": ("ein Kilogramm", "Kilogramm"), "g": ("ein Gramm", "Gramm"),
    "mg": ("ein Milligramm", "Milligramm"), "t": ("eine Tonne", "Tonnen"),
    "l": ("ein Liter", "Liter"), "L": ("ein Liter", "Liter"),
    "ml": ("ein Milliliter", "Milliliter"), "km/h": ("ein Kilometer pro Stunde",
    "Kilometer pro Stunde"), "m/s": ("ein Meter pro Sekunde", "Meter pro Sekunde"),
    "s": ("eine Sekunde", "Sekunden"), "Sek.": ("eine Sekunde", "Sekunden"),
    "min": ("eine Minute", "Minuten"), "Min.": ("eine Minute", "Minuten"),
    "h": ("eine Stunde", "Stunden"), "Std.": ("eine Stunde", "Stunden"),
    "m²": ("ein Quadratmeter", "Quadratmeter"), "km²": ("ein Quadratkilometer",
    "Quadratkilometer"), "m³": ("ein Kubikmeter", "Kubikmeter"),
    "°C": ("ein Grad Celsius", "Grad Celsius"), "°": ("ein Grad", "Grad"),
    "W": ("ein Watt", "Watt"), "kW": ("ein Kilowatt", "Kilowatt"),
    "kWh": ("eine Kilowattstunde", "Kilowattstunden"), "V": ("ein Volt", "Volt"),
    "Hz": ("ein Hertz", "Hertz"), "kHz": ("ein Kilohertz", "Kilohertz"),
    "MB": ("ein Megabyte", "Megabyte"), "GB": ("ein Gigabyte", "Gigabyte"),
}  # fmt: skip
_CURRENCIES = {
    "€": Currency("ein Euro", "Euro", "ein Cent", "Cent"),
    "$": Currency("ein Dollar", "Dollar", "ein Cent", "Cent"),
    "£": Currency("ein Pfund", "Pfund", "ein Penny", "Pence"),
}
_ABBREVIATIONS = {
    "Dr": "Doktor", "Prof": "Professor", "Hr": "Herr", "Fr": "Frau", "St": "Sankt",
    "usw": "und so weiter", "etc": "et cetera", "bzw": "beziehungsweise", "ca": "circa",
    "evtl": "eventuell", "inkl": "inklusive", "vgl": "vergleiche", "ggf": "gegebenenfalls",
    "sog": "sogenannte", "bspw": "beispielsweise", "max": "maximal", "min": "minimal",
    "Std": "Stunden", "Tel": "Telefon", "Abb": "Abbildung", "geb": "geboren",
}  # fmt: skip
_SYMBOLS = {"&": "und", "@": "at", "+": "plus", "=": "gleich", "%": "Prozent", "°": "Grad",
            "×": "mal", "÷": "geteilt durch", "±": "plus minus", "€": "Euro", "$": "Dollar",
            "£": "Pfund"}  # fmt: skip
_ROMAN = r"([IVXL]+)\."
_REIGNED = (
    "Karl|Ludwig|Friedrich|Wilhelm|Heinrich|Otto|Elisabeth|Katharina|Franz|Josef|Paul|Pius|"
    "Benedikt|Georg|Philipp|Peter|Alexander|Nikolaus|Napoleon|Leopold|Maximilian|Rudolf|Konrad"
)


def _cardinal(n: int) -> str:
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return (f"{_before(n % 10)}und" if n % 10 else "") + _TENS[n // 10]
    for size, name in ((100, "hundert"), (1000, "tausend")):
        if n < size * (10 if size == 100 else 1000):
            return _before(n // size) + name + (_cardinal(n % size) if n % size else "")
    for size, one, many in (
        (10**6, "eine million", "millionen"),
        (10**9, "eine milliarde", "milliarden"),
        (10**12, "eine billion", "billionen"),
    ):
        if n < size * 1000:
            count = one if n // size == 1 else f"{_cardinal(n // size)} {many}"
            return count + (f" {_cardinal(n % size)}" if n % size else "")
    raise ValueError(n)


def _before(n: int) -> str:
    """The number as a part of a longer one: ein-undzwanzig."""
    return "ein" if n == 1 else _cardinal(n)


def _ordinal(n: int) -> str:
    """erste, dritte, zwanzigste; -n and -r are put behind it."""
    for number, word in ((1, "erste"), (3, "dritte"), (7, "siebte"), (8, "achte")):
        if n % 100 == number:
            return _cardinal(n - number) + word if n > 100 else word
    return _cardinal(n) + ("te" if 0 < n % 100 < 20 else "ste")


def _year(n: int) -> str:
    """1984: neunzehnhundertvierundachtzig; from 2000 on the cardinal."""
    if n >= 2000:
        return _cardinal(n)
    return f"{_cardinal(n // 100)}hundert" + (_cardinal(n % 100) if n % 100 else "")


def _ending(article: str | None) -> str:
    article = (article or "").lower()
    if " " in article:
        return "n"
    if article in _ENDS_IN_E:
        return ""
    return "n" if article in _ENDS_IN_N else "r"


def _ordered(match: re.Match, language: Language) -> str:
    """An ordinal before a noun, in the case of the article before it."""
    article, n = match["article"], int(match["n"])
    return f"{article + ' ' if article else ''}{_ordinal(n)}{_ending(article)} "


def _date(match: re.Match, language: Language) -> str:
    day, month = int(match["day"]), match["month"]
    article, year = match["article"], match["year"]
    if not 1 <= day <= 31 or (month.isdigit() and not 1 <= int(month) <= 12):
        return match[0]
    ending = _ending(article)
    if month.isdigit():
        month = _ordinal(int(month)) + ending
    else:
        month = next((m for m in _MONTHS if m.startswith(month[:3])), month)
    said = f"{article + ' ' if article else ''}{_ordinal(day)}{ending} {month}"
    if not year:
        return said
    return f"{said} {_year(int(year)) if len(year) == 4 else _cardinal(int(year))}"


def _iso_date(match: re.Match, language: Language) -> str:
    month, day = int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    return f"{_ordinal(day)}r {_MONTHS[month - 1]} {_year(int(match[1]))}"


def _time(match: re.Match, language: Language) -> str:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if hour > 24 or minute > 59:
        return match[0]
    return f"{_before(hour)} Uhr" + (f" {_cardinal(minute)}" if minute else "")


def _fraction(match: re.Match, language: Language) -> str:
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if below == 2 and above == 1:
        return f"{_before(int(whole))}einhalb" if whole else "ein halb"
    if not 0 < above < below <= 100:
        return match[0].replace("/", " durch ").replace("⁄", " durch ")
    said = f"{_before(above)} {_ordinal(below).removesuffix('te')}tel"
    return f"{language.number(whole)} {said}" if whole else said


def _reign(match: re.Match, language: Language) -> str:
    n = roman(match[2])
    return f"{match[1]} der {_ordinal(n)}" if n else match[0]


_FEMININE = r"[A-ZÄÖÜ]\w+(?:e|ung|heit|keit|schaft|ion|tät)\b"
_RULES = (
    (r"\bz\.\s?B\.", "zum Beispiel"),
    (r"\bd\.\s?h\.", "das heißt"),
    (r"\bu\.\s?a\.", "unter anderem"),
    (r"\bu\.\s?s\.\s?w\.", "und so weiter"),
    (r"\bv\.\s?Chr\.", "vor Christus"),
    (r"\bn\.\s?Chr\.", "nach Christus"),
    (r"\bNr\.\s?(?=\d)", "Nummer "),
    (r"\bS\.\s?(?=\d)", "Seite "),
    (r"\bKap\.\s?(?=\d)", "Kapitel "),
    (r"§\s?(?=\d)", "Paragraf "),
    (r"(?-i:(?<=[a-zäöüß])str\.)", "straße"),
    (r"(?-i:\bStr\.)", "Straße"),
    (r"(?<=\d)\s?Mio\b\.?", " Millionen"),
    (r"(?<=\d)\s?Mrd\b\.?", " Milliarden"),
    (r"(?<=\d)\s?Tsd\b\.?", " Tausend"),
    (r"(?<=\d)\s?-\s?(?=\d{1,2}(?::\d\d)?\s?Uhr)", " bis "),
    (r"(?<=:\d\d)\s?-\s?(?=\d)", " bis "),
    (rf"(?:\b(?P<article>{_ARTICLE})\s)?\b(?P<day>\d{{1,2}})\.\s{_MONTH}(?!\w)"
     r"(?:\s(?P<year>\d{4})\b)?", _date),
    (rf"(?:\b(?P<article>{_ARTICLE})\s)?\b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\."
     r"\s?(?P<year>\d{4}|\d\d)\b", _date),
    (rf"(?:\b(?P<article>{_ARTICLE})\s)?\b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\."
     r"(?P<year>(?!))?(?!\s?\d)", _date),
    (r"\b(\d{4})-(\d\d)-(\d\d)\b", _iso_date),
    (rf"\b(?P<article>{_ARTICLE})\s(?P<n>\d{{1,3}})\.\s(?=[^\W\d_])", _ordered),
    (rf"(?P<article>(?!))?\b(?P<n>\d{{1,3}})\.\s(?=(?:{_ORDERED})\b)", _ordered),
    (r"\b(?P<hour>\d{1,2})[:.](?P<minute>\d\d)\sUhr\b", _time),
    (r"\b(?P<hour>\d{1,2}):(?P<minute>\d\d)(?![\d:])", _time),
    (r"\b(?P<hour>\d{1,2})(?P<minute>(?!))?\sUhr\b", _time),
    (r"\b(\d{1,2}):(\d)(?!\d)", r"\1 zu \2"),
    (r"\b(1\d\d0|[2-9]0)er\b", lambda match, language:
     f"{_year(int(match[1])) if len(match[1]) == 4 else _cardinal(int(match[1]))}er"),
    (r"(?:\b(?P<whole>\d+)\s)?\b(?P<above>\d{1,3})[/⁄](?P<below>\d{1,3})\b(?![/⁄])", _fraction),
    (r"(?<![\w/])0\d{2,4}[ /-]\s?\d{3,}(?:[ -]?\d+)*\b",
     lambda match, language: ", ".join(map(language.digits, re.findall(r"\d+", match[0])))),
    (r"(?<=\d)\s?x\s?(?=\d)", " mal "),
    (rf"(?-i:(?<![\w.,])(?<!Nummer )(?<!Seite )1(?=\s{_FEMININE}))", "eine"),
    (r"(?-i:(?<![\w.,])(?<!Nummer )(?<!Seite )(?<!Kapitel )(?<!Platz )1(?=\s[A-ZÄÖÜ][a-zäöüß]))",
     "ein"),
    (rf"(?-i:\b(Papst \w+|{_REIGNED})\s{_ROMAN})", _reign),
)  # fmt: skip

LANGUAGE = Language(
    alphabet=LATIN + "äöüß",
    cardinal=_cardinal,
    ordinal=_ordinal,
    year=_year,
    point="komma",
    dot="punkt",
    minus="minus",
    to="bis",
    units=_UNITS,
    currencies=_CURRENCIES,
    abbreviations=_ABBREVIATIONS,
    symbols=_SYMBOLS,
    rules=_RULES,
)
