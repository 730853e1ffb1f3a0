"""A language is one file in which everything is optional."""

import importlib
import sys

import pytest

from myxtts.text import languages
from myxtts.text.languages import LATIN, Language, find_language, roman
from myxtts.text.normalise import normalise
from myxtts.text.written_forms import spoken

EVERYTHING = "Hello, it is -5.5°C: 3,5 % of 1.234 € in 2.0.1; 5-10 km on 3º. No. 7 & etc."


@pytest.fixture
def fresh_languages():
    find_language.cache_clear()
    yield
    find_language.cache_clear()


def test_a_language_with_number_words_alone_speaks_its_numbers_and_keeps_the_rest():
    language = Language(cardinal=lambda n: "many")
    assert spoken("hello, world", language) == "hello, world"
    said = " ".join(spoken("3,5 % and 20", language).split())
    assert said == "many , many % and many"


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"alphabet": LATIN},
        {"point": "point"},
        {"minus": "minus", "cardinal": str},
        {"to": "to", "dot": "dot"},
        {"ordinal": str},
        {"units": {"km": ("one kilometer", "kilometers")}},
        {"symbols": {"%": "percent"}, "abbreviations": {"etc": "et cetera"}},
        {"currencies": {"€": languages.Currency("one euro", "euros")}, "year": str},
    ],
)
def test_every_field_can_be_left_out(stated):
    assert "Hello, it is" in spoken(EVERYTHING, Language(**stated))


@pytest.mark.parametrize("code", languages.languages())
def test_every_language_speaks_any_text_and_knows_its_own_letters(code):
    language = importlib.import_module(f"myxtts.text.languages.{code}").LANGUAGE
    assert language.alphabet == language.lower(language.alphabet)
    said = normalise(EVERYTHING, code)
    assert said.startswith("hello") and not any(c.isdigit() for c in said)
    words = language.abbreviations.values(), language.symbols.values()
    for word in [word for table in words for word in table]:
        assert normalise(word, code) == language.lower(word)


def test_num2words_speaks_the_numbers_of_languages_that_have_none(fresh_languages):
    pytest.importorskip("num2words")
    assert normalise("23 case, 3,5 %", "it") == "ventitré case, tre virgola cinque per cento"
    assert normalise("-7 e il 3º", "it") == "meno sette e il terzo"
    assert normalise("1234567890", "it").split()[:3] == ["uno", "due", "tre"]
    assert normalise("0º 1984", "ko") and normalise("987654321", "am") == "987654321"
    assert normalise("30 bilar", "sv") == "trettio bilar"


def test_without_num2words_digits_stay_and_one_sentence_says_so(
    monkeypatch, caplog, fresh_languages
):
    monkeypatch.setitem(sys.modules, "num2words", None)
    for _ in range(2):
        assert normalise("23 case, 50 %", "it") == "23 case, 50 per cento"
    assert [r.getMessage() for r in caplog.records] == [
        "numbers in 'it' texts stay digits; `pip install num2words` puts them into words"
    ]
    assert normalise("23 cars", "en") == "twenty three cars"
    assert len(caplog.records) == 1


def test_a_language_is_no_path():
    assert find_language("../languages/en").alphabet == ""
    assert find_language("en-GB") is find_language("en_us")


def test_roman_numerals():
    numbers = {"I": 1, "IV": 4, "IX": 9, "XIV": 14, "XIX": 19, "XL": 40, "XLIX": 49, "LXXXIX": 89}
    assert {n: roman(n) for n in numbers} == numbers
    assert roman("IIX") == roman("") == roman("MIX") == 0
