"""Long texts are said piece by piece, and nothing of them is lost."""

import pytest

from myxtts import UserError
from myxtts.text.sentences import split_text


def split(text, language="en", most=400):
    return split_text(text, language, len, most)


def test_a_text_is_parted_at_its_sentences_and_lines():
    text = "Good morning, Anna! How are you?\nI read \"War and Peace.\" It was long... really"
    assert split(text) == [
        "good morning, anna!",
        "how are you?",
        'i read "war and peace."',
        "it was long...",
        "really",
    ]


def test_points_of_numbers_and_abbreviations_end_no_sentence():
    assert split("Dr. Smith paid $3.50 for it. Yes.") == [
        "doctor smith paid three dollars and fifty cents for it.",
        "yes.",
    ]


def test_marks_of_other_scripts_end_sentences_too():
    assert len(split("سلام. حال شما چطور است؟ خوبم!", "fa")) == 3
    assert split("你好。再见！", "zh") == ["你好。", "再见!"]


def test_a_sentence_that_is_too_long_is_parted_at_commas_then_at_words_then_anywhere():
    text = "the first part, the second part, the third one which has no comma at all."
    pieces = split(text, most=33)
    assert pieces == [
        "the first part, the second part,",
        "the third one which has no comma",
        "at all.",
    ]
    assert split("a" * 25, most=10) == ["a" * 6, "a" * 6, "a" * 6, "a" * 7]


def test_every_piece_fits_and_together_they_are_the_text():
    text = " ".join(f"word{i}," * (i % 3) + "and so on" * (i % 2) + " then" for i in range(80))
    for most in (20, 40, 90):
        pieces = split(text, most=most)
        assert max(map(len, pieces)) <= most
        whole = split(text, most=10**6)
        assert "".join("".join(pieces).split()) == "".join("".join(whole).split())


@pytest.mark.parametrize("text", ["", "   \n ", "... !!! -", "“”"])
def test_a_text_without_words_is_refused_in_one_sentence(text):
    with pytest.raises(UserError, match="holds nothing to say") as refused:
        split(text)
    assert "\n" not in str(refused.value)


def test_a_text_in_another_script_is_refused():
    with pytest.raises(UserError, match=r"'en' .*another script; name its language"):
        split("سلام دنیا. " * 20, "en")
