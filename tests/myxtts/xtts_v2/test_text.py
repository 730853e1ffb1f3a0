"""Texts have the ids that PyPI's `tokenizers` gives; see make_texts.py."""

import json
from pathlib import Path

import pytest

from myxtts import UserError
from myxtts.xtts_v2.bpe import Bpe
from myxtts.xtts_v2.config import LANGUAGES
from myxtts.xtts_v2.text import Tokens

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def vocabulary():
    return (HERE / "vocab.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokens(vocabulary):
    return Tokens(vocabulary)


def test_ids_are_those_of_the_tokenizers_package(vocabulary):
    bpe = Bpe(vocabulary)
    rows = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
    assert len(rows) > 150
    assert [row["text"] for row in rows if bpe.encode(row["text"]) != row["ids"]] == []


def test_a_text_has_its_languages_tag_and_spaces_that_are_tokens(tokens):
    ids = tokens.encode('He said "hello"  world.', "en-gb")
    assert ids == tokens.bpe.encode("[en]he[SPACE]said[SPACE]hello[SPACE]world.")
    assert ids[0] == 259


def test_a_language_without_a_tag_is_refused_with_those_there_are(tokens):
    with pytest.raises(UserError, match=r"it has de, en, es, fr, ru\. To .* --add_language=fa"):
        tokens.encode("سلام", "fa")


def test_unknown_characters_are_counted_aloud(tokens, caplog):
    ids = tokens.encode("ok ⠿⠿", "en")
    assert ids.count(1) == 2
    assert "2 of 6 tokens" in caplog.text or "2 of 5 tokens" in caplog.text


def test_all_17_languages_have_the_ids_of_the_published_tokenizer():
    tokens = Tokens((HERE / "many_vocab.json").read_text(encoding="utf-8"))
    rows = json.loads((HERE / "many_texts.json").read_text(encoding="utf-8"))
    assert {row["language"] for row in rows} == set(LANGUAGES) == set(tokens.languages)
    found = [(row, tokens.encode(row["text"], row["language"])) for row in rows]
    assert [(row["text"], ids) for row, ids in found if ids != row["ids"]] == []
    known = [row for row in rows if tokens.bpe.unknown not in row["ids"]]
    assert {row["language"] for row in known} == set(LANGUAGES)


def test_a_text_that_is_longer_than_the_model_can_say_is_a_warning(tokens, caplog):
    tokens.encode("no " * 83, "en")
    assert "above" not in caplog.text
    tokens.encode("no " * 84, "en")
    assert "has 252 characters; above 250 the model may lose its end" in caplog.text


def test_a_piece_with_too_many_tokens_is_cut_again(tokens):
    text = "Hello world, it took me quite a long time. No."
    (whole,) = tokens.pieces(text, "en", most=100)
    assert whole == tokens.encode(text, "en")
    parts = tokens.pieces(text, "en", most=len(whole) - 1)
    assert len(parts) > 1 and max(map(len, parts)) < len(whole)
    assert all(part[0] == whole[0] for part in parts)


@pytest.mark.parametrize("text", ["", " ... ", "?!"])
def test_a_text_without_a_word_is_refused(tokens, text):
    with pytest.raises(UserError, match="nothing to say"):
        tokens.pieces(text, "en", most=100)


def test_a_text_in_another_script_is_refused(tokens):
    with pytest.raises(UserError, match="another script"):
        tokens.pieces("Привет, мир", "en", most=100)


def test_the_share_of_unknown_tokens_is_over_all_texts(tokens):
    assert tokens.unknown_share(["hello", "hello"], "en") == 0
    assert tokens.unknown_share([], "en") == 0
    ids = tokens.encode("ok ⠿⠿", "en")
    assert tokens.unknown_share(["ok ⠿⠿"] * 3, "en") == pytest.approx(2 / len(ids))


def test_a_vocabulary_of_another_kind_is_refused(vocabulary):
    changed = json.loads(vocabulary)
    changed["pre_tokenizer"] = {"type": "ByteLevel"}
    with pytest.raises(UserError, match="pre-tokenizer other than Whitespace"):
        Bpe(json.dumps(changed))
