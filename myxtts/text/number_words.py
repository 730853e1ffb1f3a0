"""Whole numbers in words: `cardinal(1984, "en")` is "one thousand nine hundred eighty four".

Written without hyphens or "and" in English, because a model hears neither. Languages that are not
here keep their digits, which the vocabulary then holds as characters.
"""

from collections.abc import Callable

_LARGEST = 10**15  # longer ones are read digit by digit


def _english(n: int) -> str:
    if n < 20:
        return _EN_SMALL[n]
    if n < 100:
        return _EN_TENS[n // 10] + (f" {_EN_SMALL[n % 10]}" if n % 10 else "")
    return _by_scales(
        n,
        _english,
        [(100, " hundred"), (10**3, " thousand"), (10**6, " million"), (10**9, " billion"),
         (10**12, " trillion")],
    )  # fmt: skip


def _by_scales(n: int, words: Callable[[int], str], scales: list[tuple[int, str]]) -> str:
    """`count scale rest`, for the largest scale that fits into n."""
    size, name = next(s for s in reversed(scales) if n >= s[0])
    rest = f" {words(n % size)}" if n % size else ""
    return f"{words(n // size)}{name}{rest}"


_EN_SMALL = str.split(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_EN_TENS = str.split("- ten twenty thirty forty fifty sixty seventy eighty ninety")


def _persian(n: int) -> str:
    if n < 20:
        return _FA_SMALL[n]
    for size, names in ((100, _FA_TENS), (1000, _FA_HUNDREDS)):
        if n < size:
            step = size // 10
            return names[n // step] + (f" و {_persian(n % step)}" if n % step else "")
    scales = [(10**3, "هزار"), (10**6, "میلیون"), (10**9, "میلیارد"), (10**12, "تریلیون")]
    size, name = next(s for s in reversed(scales) if n >= s[0])
    count = name if n // size == 1 and size == 1000 else f"{_persian(n // size)} {name}"
    return count + (f" و {_persian(n % size)}" if n % size else "")


_FA_SMALL = str.split(
    "صفر یک دو سه چهار پنج شش هفت هشت نه ده یازده دوازده سیزده چهارده پانزده شانزده هفده هجده نوزده"
)
_FA_TENS = str.split("- ده بیست سی چهل پنجاه شصت هفتاد هشتاد نود")
_FA_HUNDREDS = str.split("- صد دویست سیصد چهارصد پانصد ششصد هفتصد هشتصد نهصد")


def _german(n: int, before_noun: bool = False) -> str:
    if n == 1:
        return "ein" if before_noun else "eins"
    if n < 20:
        return _DE_SMALL[n]
    if n < 100:
        unit = f"{_german(n % 10, True)}und" if n % 10 else ""
        return unit + _DE_TENS[n // 10]
    for size, name in ((100, "hundert"), (1000, "tausend")):
        if n < size * (10 if size == 100 else 1000):
            return _german(n // size, True) + name + (_german(n % size) if n % size else "")
    for size, one, many in (
        (10**6, "eine million", "millionen"),
        (10**9, "eine milliarde", "milliarden"),
        (10**12, "eine billion", "billionen"),
    ):
        if n < size * 1000:
            count = one if n // size == 1 else f"{_german(n // size)} {many}"
            return count + (f" {_german(n % size)}" if n % size else "")
    raise ValueError(n)


_DE_SMALL = str.split(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
_DE_TENS = str.split("- zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")


def _spanish(n: int) -> str:
    if n < 30:
        return _ES_SMALL[n]
    if n < 100:
        return _ES_TENS[n // 10] + (f" y {_ES_SMALL[n % 10]}" if n % 10 else "")
    if n == 100:
        return "cien"
    if n < 1000:
        return _ES_HUNDREDS[n // 100] + (f" {_spanish(n % 100)}" if n % 100 else "")
    if n < 10**6:
        count = "mil" if n // 1000 == 1 else f"{_short_one(_spanish(n // 1000))} mil"
        return count + (f" {_spanish(n % 1000)}" if n % 1000 else "")
    size, one, many = (10**12, "un billón", "billones") if n >= 10**12 else (
        10**6, "un millón", "millones")  # fmt: skip
    count = one if n // size == 1 else f"{_short_one(_spanish(n // size))} {many}"
    return count + (f" {_spanish(n % size)}" if n % size else "")


def _short_one(words: str) -> str:
    """veintiuno mil is said veintiún mil."""
    if words.endswith("veintiuno"):
        return words.removesuffix("uno") + "ún"
    return words.removesuffix("o") if words.endswith("uno") else words


_ES_SMALL = str.split(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés "
    "veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
)
_ES_TENS = str.split("- diez veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa")
_ES_HUNDREDS = str.split(
    "- ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
    "ochocientos novecientos"
)


def _french(n: int, plural: bool = True) -> str:
    """`plural`: cent and vingt take an s at the end of the number, not before mille."""
    if n < 17:
        return _FR_SMALL[n]
    if n < 20:
        return f"dix {_FR_SMALL[n - 10]}"
    if n < 100:
        tens, unit = divmod(n, 10)
        if tens in (7, 9):
            tens, unit = tens - 1, unit + 10
        if n == 80:
            return "quatre vingts" if plural else "quatre vingt"
        if unit == 0:
            return _FR_TENS[tens]
        link = " et " if unit in (1, 11) and tens != 8 else " "
        return _FR_TENS[tens] + link + _french(unit)
    if n < 1000:
        count = "cent" if n // 100 == 1 else f"{_FR_SMALL[n // 100]} cent"
        if n % 100 == 0:
            return count + ("s" if plural and n > 100 else "")
        return f"{count} {_french(n % 100, plural)}"
    if n < 10**6:
        count = "mille" if n // 1000 == 1 else f"{_french(n // 1000, False)} mille"
        return count + (f" {_french(n % 1000, plural)}" if n % 1000 else "")
    scales = [(10**6, "million"), (10**9, "milliard"), (10**12, "billion")]
    size, name = next(s for s in reversed(scales) if n >= s[0])
    count = f"{_french(n // size)} {name}" + ("s" if n // size > 1 else "")
    return count + (f" {_french(n % size, plural)}" if n % size else "")


_FR_SMALL = str.split(
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
)
_FR_TENS = ["-", "dix", "vingt", "trente", "quarante", "cinquante", "soixante", "-", "quatre vingt"]

_CARDINALS: dict[str, Callable[[int], str]] = {
    "en": _english,
    "fa": _persian,
    "de": _german,
    "es": _spanish,
    "fr": _french,
}
_POINTS = {"en": "point", "fa": "ممیز", "de": "komma", "es": "coma", "fr": "virgule"}
_MINUS = {"en": "minus", "fa": "منفی", "de": "minus", "es": "menos", "fr": "moins"}
NUMBER_LANGUAGES = frozenset(_CARDINALS)


def cardinal(n: int, language: str) -> str:
    """The number in words, in a language of NUMBER_LANGUAGES."""
    if n < 0:
        return f"{_MINUS[language]} {cardinal(-n, language)}"
    if n >= _LARGEST:
        return digits(str(n), language)
    return _CARDINALS[language](n)


def digits(text: str, language: str) -> str:
    """Digit by digit: a telephone number, the places after the point."""
    return " ".join(_CARDINALS[language](int(d)) for d in text)


def number(whole: str, places: str, language: str) -> str:
    """A number as it is written, with its places after the decimal sign (or "")."""
    if len(whole) > 1 and whole.startswith("0"):
        words = digits(whole, language)  # 007, 0044...: not a quantity
    else:
        words = cardinal(int(whole or "0"), language)
    return f"{words} {_POINTS[language]} {digits(places, language)}" if places else words


_EN_IRREGULAR = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def english_ordinal(n: int) -> str:
    head, _, last = cardinal(n, "en").rpartition(" ")
    if last in _EN_IRREGULAR:
        last = _EN_IRREGULAR[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last += "th"
    return f"{head} {last}".strip()


def english_year(n: int) -> str:
    """1984: nineteen eighty four; 2005: two thousand five; 1900: nineteen hundred."""
    century, rest = divmod(n, 100)
    if not 11 <= century <= 20 or n in range(2000, 2010):
        return cardinal(n, "en")
    if rest == 0:
        return f"{cardinal(century, 'en')} hundred"
    tail = f"oh {cardinal(rest, 'en')}" if rest < 10 else cardinal(rest, "en")
    return f"{cardinal(century, 'en')} {tail}"


def persian_ordinal(n: int) -> str:
    words = cardinal(n, "fa")
    if words.endswith("سه"):
        return words.removesuffix("سه") + "سوم"
    return f"{words}‌ام" if words.endswith("ی") else f"{words}م"
