"""Texts have the ids that PyPI's `tokenizers` gives; see make_texts.py."""

import json
from pathlib import Path

import pytest

from myxtts import UserError
from myxtts.xtts_v2.bpe import Bpe
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
    with pytest.raises(UserError, match="has no language 'fa'; it has de, en, es, fr, ru"):
        tokens.encode("سلام", "fa")


def test_unknown_characters_are_counted_aloud(tokens, caplog):
    ids = tokens.encode("ok ⠿⠿", "en")
    assert ids.count(1) == 2
    assert "2 of 6 tokens" in caplog.text or "2 of 5 tokens" in caplog.text


def test_languages_that_are_read_in_latin_letters_are_refused_in_their_own(vocabulary):
    changed = json.loads(vocabulary)
    changed["added_tokens"].append({"content": "[zh-cn]", "id": 262})
    tokens = Tokens(json.dumps(changed))
    assert tokens.encode("ni3 hao3", "zh")[0] == 262
    with pytest.raises(UserError, match="pinyin"):
        tokens.encode("你好", "zh-cn")


def test_a_vocabulary_of_another_kind_is_refused(vocabulary):
    changed = json.loads(vocabulary)
    changed["pre_tokenizer"] = {"type": "ByteLevel"}
    with pytest.raises(UserError, match="pre-tokenizer other than Whitespace"):
        Bpe(json.dumps(changed))
