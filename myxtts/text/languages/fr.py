"""French. Numbers are said without hyphens."""

import re

from myxtts.text.languages import LATIN, Currency, Language, roman

_SMALL = str.split(
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
)
_TENS = ["-", "dix", "vingt", "trente", "quarante", "cinquante", "soixante", "-", "quatre vingt"]
_SCALES = ((10**12, "billion"), (10**9, "milliard"), (10**6, "million"))
_MONTHS = str.split(
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
)
_FEMININE = (
    "fois|heures?|minutes?|secondes?|années?|semaines?|journées?|personnes?|pages?|places?|"
    "maisons?|femmes?|filles?|pièces?|voitures?|questions?|chambres?|tasses?|bouteilles?"
)
_UNITS = {
    "km": ("un kilomètre", "kilomètres"), "m": ("un mètre", "mètres"),
    "cm": ("un centimètre", "centimètres"), "mm": ("un millimètre", "millimètres"),
    "kg": ("un kilogramme", "kilogrammes"), "g": ("un gramme", "grammes"),
    "mg": ("un milligramme", "milligrammes"), "t": ("une tonne", "tonnes"),
    "l": ("un litre", "litres"), "L": ("un litre", "litres"), "ml": ("un millilitre",
    "millilitres"), "cl": ("un centilitre", "centilitres"),
    "km/h": ("un kilomètre heure", "kilomètres heure"),
    "s": ("une seconde", "secondes"), "min": ("une minute", "minutes"),
    "h": ("une heure", "heures"), "m²": ("un mètre carré", "mètres carrés"),
    "km²": ("un kilomètre carré", "kilomètres carrés"), "m³": ("un mètre cube", "mètres cubes"),
    "°C": ("un degré celsius", "degrés celsius"), "°": ("un degré", "degrés"),
    "W": ("un watt", "watts"), "kW": ("un kilowatt", "kilowatts"),
    "kWh": ("un kilowattheure", "kilowattheures"), "V": ("un volt", "volts"),
    "Hz": ("un hertz", "hertz"), "Mo": ("un mégaoctet", "mégaoctets"),
    "Go": ("un gigaoctet", "gigaoctets"),
}  # fmt: skip
_CURRENCIES = {
    "€": Currency("un euro", "euros", "un centime", "centimes"),
    "$": Currency("un dollar", "dollars", "un cent", "cents"),
    "£": Currency("une livre", "livres", "un penny", "pence"),
}
_SYMBOLS = {"&": "et", "@": "arobase", "+": "plus", "=": "égale", "%": "pour cent",
            "°": "degrés", "×": "fois", "÷": "divisé par", "±": "plus ou moins",
            "§": "paragraphe", "€": "euros", "$": "dollars", "£": "livres"}  # fmt: skip
_TITLES = {"M": "monsieur", "MM": "messieurs", "Mme": "madame", "Mmes": "mesdames",
           "Mlle": "mademoiselle", "Me": "maître", "Dr": "docteur", "Pr": "professeur",
           "Mgr": "monseigneur", "St": "saint", "Ste": "sainte"}  # fmt: skip


def _cardinal(n: int, plural: bool = True) -> str:
    """`plural`: cent and vingt take an s at the end of the number, not before mille."""
    if n < 17:
        return _SMALL[n]
    if n < 20:
        return f"dix {_SMALL[n - 10]}"
    if n < 100:
        tens, unit = divmod(n, 10)
        if tens in (7, 9):
            tens, unit = tens - 1, unit + 10
        if n == 80:
            return "quatre vingts" if plural else "quatre vingt"
        if unit == 0:
            return _TENS[tens]
        link = " et " if unit in (1, 11) and tens != 8 else " "
        return _TENS[tens] + link + _cardinal(unit)
    if n < 1000:
        count = "cent" if n // 100 == 1 else f"{_SMALL[n // 100]} cent"
        if n % 100 == 0:
            return count + ("s" if plural and n > 100 else "")
        return f"{count} {_cardinal(n % 100, plural)}"
    if n < 10**6:
        count = "mille" if n // 1000 == 1 else f"{_cardinal(n // 1000, False)} mille"
        return count + (f" {_cardinal(n % 1000, plural)}" if n % 1000 else "")
    size, name = next(scale for scale in _SCALES if n >= scale[0])
    count = f"{_cardinal(n // size)} {name}" + ("s" if n // size > 1 else "")
    return count + (f" {_cardinal(n % size, plural)}" if n % size else "")


def _ordinal(n: int) -> str:
    if n == 1:
        return "premier"
    words = _cardinal(n, plural=False)
    for end, changed in (("cinq", "cinqu"), ("neuf", "neuv"), ("e", "")):
        if words.endswith(end):
            return words.removesuffix(end) + changed + "ième"
    return f"{words}ième"


def _before_noun(words: str, one: str) -> str:
    return f"{words}e" if one.startswith("une ") and re.search(r"\bun$", words) else words


def _ordinal_written(match: re.Match, language: Language) -> str:
    written, ending = match[1], match[2].lower()
    n = int(written) if written.isdigit() else roman(written)
    if not n:
        return match[0]
    if n == 1:
        return "premier" if ending in ("er", "ers") else "première"
    if n == 2 and ending.startswith("nd"):
        return "seconde" if ending.startswith("nde") else "second"
    return _ordinal(n) + ("s" if ending.endswith("s") else "")


def _day(n: int) -> str:
    return "premier" if n == 1 else _cardinal(n)


def _date(match: re.Match, language: Language) -> str:
    day, month, year = (int(match[part]) for part in ("day", "month", "year"))
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    return f"{_day(day)} {_MONTHS[month - 1]} {_cardinal(year)}"


def _time(match: re.Match, language: Language) -> str:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if hour > 24 or minute > 59:
        return match[0]
    hours = "une heure" if hour == 1 else _before_noun(_cardinal(hour), "une ") + " heures"
    if hour == 0:
        hours = "zéro heure"
    return hours + (f" {_before_noun(_cardinal(minute), 'une ')}" if minute else "")


def _fraction(match: re.Match, language: Language) -> str:
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if not 0 < above < below:
        return match[0].replace("/", " sur ").replace("⁄", " sur ")
    part = {2: "demi", 3: "tiers", 4: "quart"}.get(below) or _ordinal(below)
    said = f"{_cardinal(above)} {part}" + ("s" if above > 1 and below != 3 else "")
    return f"{language.number(whole)} et {said}" if whole else said


def _and_a_half(match: re.Match, language: Language) -> str:
    """2½ heures: deux heures et demie."""
    feminine = re.fullmatch(_FEMININE, match[2])
    number = _before_noun(language.number(match[1]), "une " if feminine else "un ")
    return f"{number} {match[2]} et demi{'e' if feminine else ''}"


def _reign(match: re.Match, language: Language) -> str:
    n = roman(match[2])
    return f"{match[1]} {_day(n)}" if n else match[0]


def _century(match: re.Match, language: Language) -> str:
    n = roman(match[1])
    return f"{'premier' if n == 1 else _ordinal(n)} siècle" if n else match[0]


def _pairs(match: re.Match, language: Language) -> str:
    """01 23 45 67 89: a telephone number."""
    return ", ".join(language.number(pair) for pair in re.findall(r"\d\d", match[0]))


_RULES = (
    (rf"(?-i:\b({'|'.join(_TITLES)})\.?(?=\s[A-ZÀ-Ý]))",
     lambda match, language: _TITLES[match[1]] if match[0][-1] == "." or len(match[1]) > 1
     else match[0]),
    (r"\bp\.\s?ex\.", "par exemple"),
    (r"\bc\.?-à-d\.", "c'est à dire"),
    (r"\bav\.\s?J\.?-C\.", "avant Jésus Christ"),
    (r"\bapr?\.\s?J\.?-C\.", "après Jésus Christ"),
    (r"\bn[°ºo]\s?(?=\d)", "numéro "),
    (r"\bp\.\s?(?=\d)", "page "),
    (r"\bpp\.\s?(?=\d)", "pages "),
    (r"\bchap\.\s?(?=\d)", "chapitre "),
    (r"\b0\d(?:[ .]\d\d){4}\b", _pairs),
    (r"(?-i:\b([IVX]+)e\ss(?:iècle|\.))", _century),
    (r"\b(\d+)(ers?|res?|ères?|ndes?|nds?|e|es|è|èmes?|ièmes?|ème)(?![\w-])", _ordinal_written),
    (r"(?-i:\b([IVX]+)(er|re|e|ème)\b)", _ordinal_written),
    (r"(?-i:\b(Louis|Henri|Charles|François|Philippe|Napoléon|Jean-Paul|Jean Paul|Guillaume|"
     r"Élisabeth|Elisabeth|Pie|Benoît|Benoit|Nicolas|Guerre mondiale|chapitre|tome|acte)"
     r"\s([IVXL]+)\b)", _reign),
    (r"\b(?P<day>\d{1,2})[/.](?P<month>\d{1,2})[/.](?P<year>\d{4})\b", _date),
    (r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b", _date),
    (r"(?<=[\dh])\s?-\s?(?=\d{1,2}\s?h)", " à "),
    (r"\b(?P<hour>\d{1,2})\s?h(?:eures?\s|\s?)(?P<minute>[0-5]\d)\b(?:\s?min\b)?", _time),
    (r"\b(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?![\d:])", _time),
    (r"\b(?P<hour>\d{1,2})(?P<minute>(?!))?\s?h\b", _time),
    (r"\b(\d+)\s1[/⁄]2\s([^\W\d_]+)\b", _and_a_half),
    (r"(?:\b(?P<whole>\d+)\s)?\b(?P<above>\d{1,3})[/⁄](?P<below>\d{1,3})\b(?![/⁄])", _fraction),
    (r"(?<=\d)\sx\s(?=\d)", " fois "),
    (rf"\b((?:\d*[2-6])?1)(?=\s(?:{_FEMININE})\b)",
     lambda match, language: _before_noun(_cardinal(int(match[1])), "une ")),
    (r"(?<=\d)\s?[Mm]d\b", " milliards"),
)  # fmt: skip

LANGUAGE = Language(
    alphabet=LATIN + "àâæçéèêëîïôœùûüÿ",
    cardinal=_cardinal,
    ordinal=_ordinal,
    before_noun=_before_noun,
    point="virgule",
    dot="point",
    minus="moins",
    to="à",
    units=_UNITS,
    currencies=_CURRENCIES,
    abbreviations={"etc": "et cetera", "env": "environ", "tél": "téléphone", "av": "avenue",
                   "bd": "boulevard"},
    symbols=_SYMBOLS,
    rules=_RULES,
)  # fmt: skip
