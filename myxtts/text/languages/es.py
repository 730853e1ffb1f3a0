"""Spanish."""

import re

from myxtts.text.languages import LATIN, Currency, Language, roman

_SMALL = str.split(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés "
    "veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
)
_TENS = str.split("- diez veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa")
_HUNDREDS = str.split(
    "- ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
    "ochocientos novecientos"
)
_ORDINALS = str.split(
    "- primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo"
)
_ORDINAL_TENS = str.split(
    "- décimo vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo "
    "nonagésimo"
)
_MONTHS = str.split(
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
)
_MONTH = "|".join([*_MONTHS, "setiembre"])
_PARTS = {2: "medio", 3: "tercio", 4: "cuarto", 5: "quinto", 6: "sexto", 7: "séptimo",
          8: "octavo", 9: "noveno", 10: "décimo"}  # fmt: skip
# Nouns in -as that are masculine.
_MASCULINE = r"días?|mapas?|dálmatas?|\w*(?:em|am|om|et|ist)as?"
_BEFORE_ONE = str.split("de con en por hay tengo tiene compré es")
_UNITS = {
    "km": ("un kilómetro", "kilómetros"), "m": ("un metro", "metros"),
    "cm": ("un centímetro", "centímetros"), "mm": ("un milímetro", "milímetros"),
    "kg": ("un kilogramo", "kilogramos"), "g": ("un gramo", "gramos"),
    "mg": ("un miligramo", "miligramos"), "t": ("una tonelada", "toneladas"),
    "l": ("un litro", "litros"), "L": ("un litro", "litros"),
    "ml": ("un mililitro", "mililitros"),
    "km/h": ("un kilómetro por hora", "kilómetros por hora"),
    "m/s": ("un metro por segundo", "metros por segundo"),
    "s": ("un segundo", "segundos"), "min": ("un minuto", "minutos"),
    "h": ("una hora", "horas"), "m²": ("un metro cuadrado", "metros cuadrados"),
    "km²": ("un kilómetro cuadrado", "kilómetros cuadrados"),
    "m³": ("un metro cúbico", "metros cúbicos"),
    "°C": ("un grado celsius", "grados celsius"), "°": ("un grado", "grados"),
    "W": ("un vatio", "vatios"), "kW": ("un kilovatio", "kilovatios"),
    "kWh": ("un kilovatio hora", "kilovatios hora"), "V": ("un voltio", "voltios"),
    "Hz": ("un hercio", "hercios"), "MB": ("un megabyte", "megabytes"),
    "GB": ("un gigabyte", "gigabytes"),
}  # fmt: skip
_CURRENCIES = {
    "€": Currency("un euro", "euros", "un céntimo", "céntimos"),
    "$": Currency("un dólar", "dólares", "un centavo", "centavos"),
    "£": Currency("una libra", "libras", "un penique", "peniques"),
}
_ABBREVIATIONS = {
    "Sr": "señor", "Sra": "señora", "Sres": "señores", "Srta": "señorita", "Dr": "doctor",
    "Dra": "doctora", "Prof": "profesor", "D": "don", "Dña": "doña", "Ud": "usted",
    "Uds": "ustedes", "Vd": "usted", "etc": "etcétera", "aprox": "aproximadamente",
    "tel": "teléfono", "avda": "avenida", "Av": "avenida", "Sto": "santo", "Sta": "santa",
}  # fmt: skip
_SYMBOLS = {"&": "y", "@": "arroba", "+": "más", "=": "igual a", "%": "por ciento",
            "°": "grados", "×": "por", "÷": "entre", "±": "más menos", "§": "párrafo",
            "€": "euros", "$": "dólares", "£": "libras"}  # fmt: skip


def _cardinal(n: int) -> str:
    if n < 30:
        return _SMALL[n]
    if n < 100:
        return _TENS[n // 10] + (f" y {_SMALL[n % 10]}" if n % 10 else "")
    if n == 100:
        return "cien"
    if n < 1000:
        return _HUNDREDS[n // 100] + (f" {_cardinal(n % 100)}" if n % 100 else "")
    if n < 10**6:
        count = "mil" if n // 1000 == 1 else f"{_short(_cardinal(n // 1000))} mil"
        return count + (f" {_cardinal(n % 1000)}" if n % 1000 else "")
    size, one, many = (10**12, "un billón", "billones") if n >= 10**12 else (
        10**6, "un millón", "millones")  # fmt: skip
    count = one if n // size == 1 else f"{_short(_cardinal(n // size))} {many}"
    return count + (f" {_cardinal(n % size)}" if n % size else "")


def _short(words: str) -> str:
    """Before a masculine noun: veintiuno is veintiún."""
    if words.endswith("veintiuno"):
        return words.removesuffix("uno") + "ún"
    return words.removesuffix("o") if words.endswith("uno") else words


def _before_noun(words: str, one: str) -> str:
    if not one.startswith("una "):
        return _short(words)
    words = words.replace("cientos", "cientas").replace("quinientos", "quinientas")
    return re.sub(r"uno$", "una", words)


def _ordinal(n: int) -> str:
    if n < len(_ORDINALS):
        return _ORDINALS[n]
    if n < 100:
        return _ORDINAL_TENS[n // 10] + (f" {_ORDINALS[n % 10]}" if n % 10 else "")
    return _cardinal(n)


def _ordinal_written(match: re.Match, language: Language) -> str:
    words, ending = _ordinal(int(match[1])), match[2].lower()
    before_noun = match["noun"] is not None and words.endswith(("primero", "tercero"))
    if ending == "er" or (before_noun and ending in ("º", "o")):
        return words.removesuffix("o")
    return words if ending in ("º", "o") else re.sub(r"o\b", "a", words)


def _day(n: int) -> str:
    return "primero" if n == 1 else _cardinal(n)


def _date(match: re.Match, language: Language) -> str:
    day, month, year = (int(match[part]) for part in ("day", "month", "year"))
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    return f"{_day(day)} de {_MONTHS[month - 1]} de {_cardinal(year)}"


def _time(match: re.Match, language: Language) -> str:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24:
        return match[0]
    hours = _before_noun(_cardinal(hour), "una ")
    if minute == 0:
        return f"{hours} en punto" if 1 <= hour <= 12 and not match[3] else f"{hours} horas"
    return f"{hours}{' y' if minute < 10 else ''} {_cardinal(minute)}"


def _fraction(match: re.Match, language: Language) -> str:
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if not 0 < above < below or below not in _PARTS:
        return match[0].replace("/", " entre ").replace("⁄", " entre ")
    said = f"{_short(_cardinal(above))} {_PARTS[below]}" + ("s" if above > 1 else "")
    if whole:
        said = "medio" if (above, below) == (1, 2) else said
        return f"{language.number(whole)} y {said}"
    return said


def _counting(match: re.Match, language: Language) -> str:
    """21 casas, 200 libros: the number takes the gender of a noun that shows it."""
    noun = match[2].lower()
    masculine = not noun.endswith(("as", "a")) or re.fullmatch(_MASCULINE, noun)
    words = language.number(match[1])
    return f"{_before_noun(words, 'un ' if masculine else 'una ')} {match[2]}"


def _and_a_half(match: re.Match, language: Language) -> str:
    """2½ horas: dos horas y media."""
    return f"{_counting(match, language)} y {'media' if match[2].endswith('as') else 'medio'}"


def _reign(match: re.Match, language: Language) -> str:
    n = roman(match[2])
    if not n:
        return match[0]
    return f"{match[1]} {_ordinal(n) if n <= 10 else _cardinal(n)}"


_NUMBER = Language().number_pattern
_RULES = (
    (r"\bp\.\s?ej\.", "por ejemplo"),
    (r"\bEE\.?\s?UU\b\.?", "Estados Unidos"),
    (r"\ba\.\s?C\.", "antes de Cristo"),
    (r"\bd\.\s?C\.", "después de Cristo"),
    (r"\bn\.?[ºo°]\s?(?=\d)", "número "),
    (r"\bnúm\.\s?(?=\d)", "número "),
    (r"\bpágs?\.\s?(?=\d)", "página "),
    (r"\bcap\.\s?(?=\d)", "capítulo "),
    (r"\b(\d+)\.?(º|ª|er|o|a)(?!\w)(?P<noun>(?=\s(?!(?:de|del|en|y|o|que|a|al)\b)[a-z]))?",
     _ordinal_written),
    (r"\b(?P<day>\d{1,2})[/.](?P<month>\d{1,2})[/.](?P<year>\d{4})\b", _date),
    (r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b", _date),
    (rf"\b1(?=\sde\s(?:{_MONTH})\b)", "primero"),
    (r"(?<=:\d\d)\s?-\s?(?=\d{1,2}:\d\d)", " a "),
    (r"\b(\d{1,2}):([0-5]\d)(?![\d:])(\s?h\b\.?)?", _time),
    (r"\b(\d+)\s1[/⁄]2\s([^\W\d_]+s)\b", _and_a_half),
    (r"(?:\b(?P<whole>\d+)\s)?\b(?P<above>\d{1,3})[/⁄](?P<below>\d{1,3})\b(?![/⁄])", _fraction),
    (r"(?<=\d)\sx\s(?=\d)", " por "),
    (r"(?-i:\b(siglo|Siglo|Felipe|Carlos|Alfonso|Fernando|Isabel|Juan Pablo|Juan Carlos|Enrique|"
     r"Luis|Pío|Benedicto|Napoleón|Guerra Mundial|capítulo|tomo)\s([IVXL]+)\b)", _reign),
    (rf"(?<![\w.,:/-])({_NUMBER})\s([^\W\d_]+(?:as|os|es))\b(?<!\smenos)(?<!\smiles)"
     r"(?<!\smillones)(?<!\sentonces)", _counting),
    (r"(?:^|" + "|".join(rf"(?<=\b{word}\s)" for word in _BEFORE_ONE)
     + r")(1)\s([^\W\d_]+[ao])\b", _counting),
)  # fmt: skip

LANGUAGE = Language(
    alphabet=LATIN + "áéíñóúü",
    cardinal=_cardinal,
    ordinal=_ordinal,
    before_noun=_before_noun,
    point="coma",
    dot="punto",
    minus="menos",
    to="a",
    units=_UNITS,
    currencies=_CURRENCIES,
    money_joint=" con ",
    says_cents=True,
    abbreviations=_ABBREVIATIONS,
    symbols=_SYMBOLS,
    rules=_RULES,
)
