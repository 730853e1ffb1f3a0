"""Persian: one spelling for each letter, ZWNJ where it belongs, numbers and dates in words."""

import re

from myxtts.text.number_words import cardinal, number, persian_ordinal

ZWNJ = "\u200c"
_LETTERS = str.maketrans(
    {
        "ي": "ی", "ى": "ی", "ې": "ی", "ك": "ک", "ڪ": "ک", "ة": "ه", "ۀ": "هٔ", "ە": "ه",
        "ہ": "ه", "ھ": "ه", "أ": "ا", "إ": "ا", "ٱ": "ا", "ـ": None, "٫": ".", "٬": ",",
        "?": "؟", ";": "؛", "﷼": " ریال ",
    }
    | {chr(0x0660 + i): str(i) for i in range(10)}
    | {chr(0x06F0 + i): str(i) for i in range(10)}
)  # fmt: skip
_MONTHS = str.split("فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند")
_WORDS = {"%": " درصد ", "٪": " درصد ", "$": " دلار ", "€": " یورو ", "£": " پوند ", "&": " و ",
          "+": " به علاوه ", "=": " مساوی ", "°": " درجه ", "×": " ضربدر "}  # fmt: skip
_UNITS = {"km": "کیلومتر", "m": "متر", "cm": "سانتیمتر", "kg": "کیلوگرم", "g": "گرم",
          "km/h": "کیلومتر در ساعت", "°c": "درجه سانتیگراد"}  # fmt: skip
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_LETTER = "[\u0621-\u064a\u0671-\u06d3]"


def _say(text: str) -> str:
    whole, _, places = text.replace(",", "").partition(".")
    return number(whole, places, "fa")


def _date(match: re.Match) -> str:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    return f"{persian_ordinal(day)} {_MONTHS[month - 1]} {cardinal(year, 'fa')}"


def _time(match: re.Match) -> str:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24 or minute > 59:
        return match[0]
    spoken = cardinal(hour, "fa")
    return f"{spoken} و {cardinal(minute, 'fa')} دقیقه" if minute else spoken


_RULES: list[tuple[re.Pattern, object]] = [
    (re.compile(pattern, re.IGNORECASE), spoken)
    for pattern, spoken in (
        (r"\b(1[234]\d\d)/(\d{1,2})/(\d{1,2})\b", _date),
        (r"\b(\d{1,2}):(\d{2})\b(?!:)", _time),
        (rf"([$€£])\s?({_NUMBER})", r"\2\1"),  # the amount is said before the currency
        (rf"({_NUMBER})\s?(" + "|".join(sorted(_UNITS, key=len, reverse=True)) + r")(?![\w/])",
         lambda m: f"{_say(m[1])} {_UNITS[m[2].lower()]}"),
        (r"\b(\d+)\s?(?:‌)?(?:ام|م)\b", lambda m: persian_ordinal(int(m[1]))),
        (r"(?<=\d)\s?[-–]\s?(?=\d)", " تا "),
        (r"(?<![\w.])[-−](?=\d)", "منفی "),
        (_NUMBER, lambda m: f" {_say(m[0])} "),
        ("|".join(map(re.escape, _WORDS)), lambda m: _WORDS[m[0]]),
        (rf"{ZWNJ}+", ZWNJ),
        (rf"(?<!{_LETTER}){ZWNJ}|{ZWNJ}(?!{_LETTER})", ""),
        # The verb prefix and the plural are part of their word, however they were typed.
        (rf"(?<![\w{ZWNJ}])(ن?می) (?={_LETTER}{{2}})", rf"\1{ZWNJ}"),
        (rf"(?<={_LETTER}) (ها|های|هایی|هایم|هایش)(?![\w{ZWNJ}])", rf"{ZWNJ}\1"),
    )
]  # fmt: skip


def speak_persian(text: str) -> str:
    """Written Persian in words only."""
    text = text.translate(_LETTERS).replace(",", "،").replace("،", "،")
    text = re.sub(r"(?<=\d)،(?=\d{3}(?!\d))", ",", text)
    for pattern, spoken in _RULES:
        text = pattern.sub(spoken, text)
    return text
