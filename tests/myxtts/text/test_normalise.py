"""Written text becomes spoken text."""

import random

import pytest

from myxtts import UserError
from myxtts.text.alphabets import LetterCount, outside_alphabet
from myxtts.text.languages import find_language
from myxtts.text.normalise import normalise

ENGLISH = {
    "I paid $5.50.": "i paid five dollars and fifty cents.",
    "$1, $0.99, £2.01, €1,000": (
        "one dollar, ninety nine cents, two pounds and one penny, one thousand euros"
    ),
    "£3.2bn or $20 million": "three point two billion pounds or twenty million dollars",
    "on January 5, 2024 at 3:30 p.m.": "on january fifth, twenty twenty four at three thirty p m",
    "4 July 1776, Sept. 3rd": "july fourth, seventeen seventy six, september third",
    "2024-02-29 and 12/25/1999": (
        "february twenty ninth, twenty twenty four and december twenty fifth, nineteen ninety nine"
    ),
    "at 12:00, 9am, 3:05, 25:99": "at twelve o'clock, nine a m, three oh five, "
    "twenty five: ninety nine",
    "the 1990s and '80s": "the nineteen nineties and eighties",
    "in 1900, 2005, 2010, 1066": (
        "in nineteen hundred, two thousand five, twenty ten, one thousand sixty six"
    ),
    "20°C, 5 km (3.1 mi), 60mph, 1 ft, 6 ft": (
        "twenty degrees celsius, five kilometers (three point one miles), sixty miles per hour, "
        "one foot, six feet"
    ),
    "3 m², 100%": "three square meters, one hundred percent",
    "1½ cups, 3/4 done, 7/16": "one and a half cups, three quarters done, seven sixteenths",
    "pages 5-10, -3, .5": "pages five to ten, minus three, zero point five",
    "the 1st, 22nd, 113th, 20th": ("the first, twenty second, one hundred thirteenth, twentieth"),
    "1,234,567": "one million two hundred thirty four thousand five hundred sixty seven",
    "No. 7, #9, 007": "number seven, number nine, zero zero seven",
    "version 2.0.1": "version two point zero point one",
    "Dr. Smith, Mr. and Mrs. Jones": "doctor smith, mister and missus jones",
    "Baker St. in St. Louis": "baker street in saint louis",
    "e.g. this, i.e. that, etc.": "for example this, that is that, et cetera",
    "A & B @ home": "a and b at home",
    "“Quoted”—it’s… fine": '"quoted" - it\'s... fine',
    "born in 1990 in Paris": "born in nineteen ninety in paris",
    "ﬁne  Ｗｉｄｅ\tspace\u200b\u0007!": "fine wide space!",
}
PERSIAN = {
    "كتاب‌ هاي من ۲۵٪ ارزان شد؟": "کتاب‌های من بیست و پنج درصد ارزان شد؟",
    "۱۴۰۲/۰۵/۱۲ ساعت ۱۰:۳۰": "دوازدهم مرداد هزار و چهارصد و دو ساعت ده و سی دقیقه",
    "او می خواهد ۱٬۲۳۴ تومان": "او می‌خواهد هزار و دویست و سی و چهار تومان",
    "٣٫٥ و ۳.۵": "سه ممیز پنج و سه ممیز پنج",
    "کتاب ها را نمی خوانم": "کتاب‌ها را نمی‌خوانم",
    "$۵۰": "پنجاه دلار",
    "۲۱ام و ۳م و ۳۰م": "بیست و یکم و سوم و سی‌ام",
    "سلام, خوبی?": "سلام، خوبی؟",
    "‌‌سلام‌ ‌دنیا‌‌ی‌": "سلام دنیا‌ی",
    "ســـلام": "سلام",
    "ﺳﻼﻡ": "سلام",
}
OTHERS = {
    ("de", "1.234 Autos kosten 3,5 %"): (
        "eintausendzweihundertvierunddreißig autos kosten drei komma fünf prozent"
    ),
    ("es", "21.000 casas y 101"): "veintiún mil casas y ciento uno",
    ("fr", "80 000, 71, 200, 281"): (
        "quatre vingt mille, soixante et onze, deux cents, deux cent quatre vingt un"
    ),
    ("tr", "IŞIK İstanbul"): "ışık istanbul",
    ("ru", "Вот 5 рублей"): "вот пять рублей",
}


@pytest.mark.parametrize(("written", "spoken"), ENGLISH.items())
def test_english(written, spoken):
    assert normalise(written, "en") == spoken
    assert normalise(written, "en-US") == spoken


@pytest.mark.parametrize(("written", "spoken"), PERSIAN.items())
def test_persian(written, spoken):
    assert normalise(written, "fa") == spoken


@pytest.mark.parametrize(("language", "written"), OTHERS)
def test_other_languages(language, written):
    assert normalise(written, language) == OTHERS[language, written]


NUMBERS = {
    "en": {
        0: "zero", 13: "thirteen", 80: "eighty", 101: "one hundred one",
        2_000_019: "two million nineteen", -4: "minus four",
    },
    "fa": {
        0: "صفر", 15: "پانزده", 110: "صد و ده", 1000: "هزار", 2500: "دو هزار و پانصد",
        1_000_001: "یک میلیون و یک",
    },
    "de": {
        1: "eins", 17: "siebzehn", 21: "einundzwanzig", 101: "einhunderteins",
        30_001: "dreißigtausendeins", 2_000_000: "zwei millionen",
    },
    "es": {
        16: "dieciséis", 22: "veintidós", 31: "treinta y uno", 100: "cien", 500: "quinientos",
        1_000_000: "un millón", 31_000: "treinta y un mil",
    },
    "fr": {
        17: "dix sept", 21: "vingt et un", 80: "quatre vingts", 91: "quatre vingt onze",
        99: "quatre vingt dix neuf", 1000: "mille", 3_000_000: "trois millions",
    },
}  # fmt: skip


@pytest.mark.parametrize("language", NUMBERS)
def test_numbers_in_words(language):
    assert {n: find_language(language).words(n) for n in NUMBERS[language]} == NUMBERS[language]
    digits = find_language(language).words(10**15).split()
    assert len(digits) == 16  # too long to be a quantity


@pytest.mark.parametrize("language", NUMBERS)
def test_no_two_numbers_are_said_alike(language):
    chance = random.Random(0)
    numbers = {*range(2000), *(chance.randrange(10**12) for _ in range(3000))}
    assert len({find_language(language).words(n) for n in numbers}) == len(numbers)


def test_ordinals_and_years():
    english, persian = find_language("en"), find_language("fa")
    assert [english.ordinal(n) for n in (1, 2, 3, 5, 8, 12, 20, 42, 100)] == [
        "first", "second", "third", "fifth", "eighth", "twelfth", "twentieth", "forty second",
        "one hundredth",
    ]  # fmt: skip
    assert [english.year(n) for n in (1805, 2000, 2019)] == [
        "eighteen oh five", "two thousand", "twenty nineteen",
    ]  # fmt: skip
    assert [persian.ordinal(n) for n in (1, 3, 23, 30)] == ["یکم", "سوم", "بیست و سوم", "سی‌ام"]


def random_text(chance):
    """Letters, digits, marks, and anything Unicode has, lone surrogates among it."""
    ranges = [(32, 127), (48, 58), (0x600, 0x700), (0x2000, 0x2100), (0, 0x3000), (0, 0x110000)]
    return "".join(
        chr(chance.randrange(*chance.choice(ranges))) for _ in range(chance.randrange(30))
    )


@pytest.mark.parametrize("language", ["en", "fa", "de", "es", "fr", "tr", "ja"])
def test_normal_text_stays_as_it_is(language):
    chance = random.Random(language)
    changed = []
    for _ in range(1000):
        once = normalise(random_text(chance), language)
        if normalise(once, language) != once:
            changed.append((once, normalise(once, language)))
    assert changed == []


@pytest.mark.parametrize("language", ["en", "fa", "de", "it"])
@pytest.mark.parametrize("form", ["{}", "{}st", "{}º", "{} km", "${}", "{}.", "{}%", "1.{}.2"])
def test_numbers_without_end_are_read_digit_by_digit(form, language):
    for number in ("1" * 16, "1" * 5000, "1" + ",234" * 2000, "1" + ".234" * 2000):
        said = normalise(form.format(number), language)
        assert len(said.split()) >= 16 or any(c.isdigit() for c in said)


def test_characters_outside_the_alphabet_are_found():
    assert outside_alphabet("plain, it's text.", "en") == []
    assert outside_alphabet("naïve 7 ©", "en-gb") == ["ï", "7", "©"]
    assert outside_alphabet("گچپژ‌ می‌خواهم؟ ي", "fa") == ["ي"]
    assert outside_alphabet("любой texte", "xx") == []


def check(language, text):
    LetterCount(language, normalise(text, language)).check("the text")


@pytest.mark.parametrize(
    ("language", "text", "fitting"),
    [
        ("en", "سلام دنیا، حال شما چطور است؟", "fa"),
        ("en-GB", "Это русский текст.", "ru"),
        ("en", "ab абв", "no one"),
        ("fa", "this is English", "en, "),
        ("ru", "日本語 текст 日本語", "no one"),
    ],
)
def test_a_text_in_another_script_is_refused_and_its_languages_are_named(language, text, fitting):
    with pytest.raises(UserError, match="written in another script; name its language") as refused:
        check(language, text)
    remedy = str(refused.value).partition("--language")[2]
    assert remedy == "" if fitting == "no one" else f"the letters are those of {fitting}" in remedy


def test_some_letters_outside_the_alphabet_are_a_warning_with_their_count(caplog):
    check("en", "I met Łukasz, Иван and Jürgen in the afternoon.")
    check("en", "I met Łukasz, Иван and Jürgen in the afternoon.")
    assert [record.getMessage() for record in caplog.records] == [
        "the text has 6 of 37 letters outside the alphabet of 'en' (ł, и, в, а, н); check its "
        "language and its spelling"
    ]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "A naïve word in a text of many others, and no more of them."),
        ("en", "1234 !? 5"),
        ("xx", "любой текст"),
        ("fa", "سلام"),
        ("en", ""),
    ],
)
def test_other_texts_are_said_without_a_word(language, text, caplog):
    check(language, text)
    assert not caplog.records


def test_accents_are_no_other_script(caplog):
    check("en", "Éèà ôö")
    assert "5 of 5 letters" in caplog.text
