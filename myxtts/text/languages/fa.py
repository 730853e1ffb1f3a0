"""Persian: one spelling for each letter, ZWNJ where it belongs, numbers and dates in words."""

import re

from myxtts.text.languages import Language

_ZWNJ = "\u200c"
_LETTERS = str.maketrans(
    {
        "ي": "ی", "ى": "ی", "ې": "ی", "ك": "ک", "ڪ": "ک", "ة": "ه", "ۀ": "هٔ", "ە": "ه",
        "ہ": "ه", "ھ": "ه", "أ": "ا", "إ": "ا", "ٱ": "ا", "ـ": None, "٫": ".", "٬": ",",
        "?": "؟", ";": "؛", "﷼": " ریال ", "٪": "%",
    }
    | {chr(0x0660 + i): str(i) for i in range(10)}
    | {chr(0x06F0 + i): str(i) for i in range(10)}
)  # fmt: skip
_SMALL = str.split(
    "صفر یک دو سه چهار پنج شش هفت هشت نه ده یازده دوازده سیزده چهارده پانزده شانزده هفده هجده نوزده"
)
_TENS = str.split("- ده بیست سی چهل پنجاه شصت هفتاد هشتاد نود")
_HUNDREDS = str.split("- صد دویست سیصد چهارصد پانصد ششصد هفتصد هشتصد نهصد")
_SCALES = ((10**12, "تریلیون"), (10**9, "میلیارد"), (10**6, "میلیون"), (10**3, "هزار"))
_MONTHS = str.split("فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند")
_WESTERN_MONTHS = str.split("ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر نوامبر دسامبر")
_SYMBOLS = {"%": "درصد", "$": "دلار", "€": "یورو", "£": "پوند", "&": "و", "+": "به علاوه",
            "=": "مساوی", "°": "درجه", "×": "ضربدر", "÷": "تقسیم بر", "@": "ات",
            "§": "بند"}  # fmt: skip
_NAMES = {
    "km": "کیلومتر", "m": "متر", "cm": "سانتی‌متر", "mm": "میلی‌متر", "kg": "کیلوگرم",
    "g": "گرم", "mg": "میلی‌گرم", "l": "لیتر", "L": "لیتر", "ml": "میلی‌لیتر",
    "km/h": "کیلومتر در ساعت", "°C": "درجه سانتی‌گراد", "°": "درجه", "m²": "متر مربع",
    "km²": "کیلومتر مربع", "m³": "متر مکعب", "W": "وات", "kW": "کیلووات", "GB": "گیگابایت",
    "MB": "مگابایت", "Hz": "هرتز",
}  # fmt: skip
_LETTER = "[\u0621-\u064a\u0671-\u06d3]"


def _cardinal(n: int) -> str:
    if n < 20:
        return _SMALL[n]
    for size, names in ((100, _TENS), (1000, _HUNDREDS)):
        if n < size:
            step = size // 10
            return names[n // step] + (f" و {_cardinal(n % step)}" if n % step else "")
    size, name = next(scale for scale in _SCALES if n >= scale[0])
    count = name if n // size == 1 and size == 1000 else f"{_cardinal(n // size)} {name}"
    return count + (f" و {_cardinal(n % size)}" if n % size else "")


def _ordinal(n: int) -> str:
    words = _cardinal(n)
    if words.endswith("سه"):
        return words.removesuffix("سه") + "سوم"
    return f"{words}{_ZWNJ}ام" if words.endswith("ی") else f"{words}م"


def _date(match: re.Match, language: Language) -> str:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    months = _MONTHS if year < 1700 else _WESTERN_MONTHS
    return f"{_ordinal(day)} {months[month - 1]} {_cardinal(year)}"


def _time(match: re.Match, language: Language) -> str:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24 or minute > 59:
        return match[0]
    spoken = _cardinal(hour)
    return f"{spoken} و {_cardinal(minute)} دقیقه" if minute else spoken


def _fraction(match: re.Match, language: Language) -> str:
    above, below = int(match[1]), int(match[2])
    return f"{_cardinal(above)} {_ordinal(below)}"


def _said_ordinal(match: re.Match, language: Language) -> str:
    return _ordinal(int(match[1])) + ("ین" if match[0].endswith("ین") else "")


_RULES = (
    (r",", "،"),
    (r"(?<=\d)،(?=\d{3}(?!\d))", ","),
    (r"\b(1[234]\d\d)/(\d{1,2})/(\d{1,2})\b", _date),
    (r"\b(20\d\d|19\d\d)[/-](\d{1,2})[/-](\d{1,2})\b", _date),
    (rf"\b(\d{{1,2}})\s(?=(?:{'|'.join(_MONTHS + _WESTERN_MONTHS)})(?:\s|[.،؛؟!]|$))",
     lambda match, language: f"{_ordinal(int(match[1]))} "),
    (r"\b(\d{1,2}):(\d{2})\b(?!:)", _time),
    (r"%\s?(\d+(?:\.\d+)?)", r"\1%"),
    # The amount is said before the currency.
    (r"([$€£])\s?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)", r"\2\1"),
    (r"\b(\d+)\s?‌?(?:امین|مین|ام|م)\b", _said_ordinal),
    (r"(?<![\d/])(1)[/⁄]([2-4])(?![\d/])|(?<![\d/])([23])[/⁄]([34])(?![\d/])",
     lambda match, language: f"{_cardinal(int(match[1] or match[3]))} "
     f"{_ordinal(int(match[2] or match[4]))}"),
    (r"(?<![\d/])(\d+)/(\d{1,2})(?![\d/])", r"\1.\2"),  # a decimal sign, where it is no fraction
    (r"#(?=\d)", "شماره "),
    (r"\bق\.\s?م\.", "قبل از میلاد"),
    (r"\bه\.\s?ش\.", "هجری شمسی"),
    (r"\bه\.\s?ق\.", "هجری قمری"),
    (r"\bص\.?\s(?=\d)", "صفحه "),
)  # fmt: skip
_LAST_RULES = (
    (rf"{_ZWNJ}+", _ZWNJ),
    (rf"(?<!{_LETTER}){_ZWNJ}|{_ZWNJ}(?!{_LETTER})", ""),
    # The verb prefix and the plural are part of their word, however they were typed.
    (rf"(?<![\w{_ZWNJ}])(ن?می) (?={_LETTER}{{2}})", rf"\1{_ZWNJ}"),
    (rf"(?<={_LETTER}) (ها|های|هایی|هایم|هایش)(?![\w{_ZWNJ}])", rf"{_ZWNJ}\1"),
)

LANGUAGE = Language(
    alphabet="آابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهیءئؤًٌٍَُِّْٰٔ" + _ZWNJ,
    respelled=_LETTERS,
    cardinal=_cardinal,
    ordinal=_ordinal,
    decimal_sign=".",
    group_signs=",",
    point="ممیز",
    minus="منفی",
    to="تا",
    units={unit: (f"یک {name}", name) for unit, name in _NAMES.items()},
    symbols=_SYMBOLS,
    rules=_RULES,
    last_rules=_LAST_RULES,
)
