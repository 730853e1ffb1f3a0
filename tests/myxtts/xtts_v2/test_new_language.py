"""A language is added: its texts have tokens, and nothing that the model knew changes."""

import functools
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tokenizers

from myxtts import UserError
from myxtts.corpus.sentences import different_sentences
from myxtts.xtts_v2 import new_language
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.new_language import AddedLanguage
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.text import Tokens
from tests.myxtts.xtts_v2 import formula

HERE = Path(__file__).parent


@functools.cache
def _lines(language: str) -> list[str]:
    return [*itertools.islice(different_sentences(language, seed=1), 300)]


@pytest.fixture(scope="module")
def vocabulary():
    """Of 17 languages, Arabic among them."""
    return (HERE / "many_vocab.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def old_texts():
    rows = (HERE / "cleaned.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [row.split("\t") for row in rows if not row.endswith("!")]
    return [(code, text) for code, text, _ in rows]


@pytest.fixture(scope="module")
def persian(vocabulary):
    return AddedLanguage.learn(vocabulary, "fa", _lines("fa"), tokens=200)


def test_old_ids_and_merges_stay_and_new_ones_come_behind_them(vocabulary, persian):
    before, now = json.loads(vocabulary), json.loads(persian.vocabulary)
    old, new = before["model"]["vocab"], now["model"]["vocab"]
    assert {piece: new[piece] for piece in old} == old
    assert sorted(new.values()) == list(range(len(old) + persian.tokens))
    assert persian.tokens == 201
    merges = before["model"]["merges"]
    assert now["model"]["merges"][: len(merges)] == merges
    assert new["[fa]"] == len(old) == now["added_tokens"][-1]["id"]


def test_texts_of_old_languages_keep_their_ids(vocabulary, persian, old_texts):
    before, now = Tokens(vocabulary), Tokens(persian.vocabulary, persian.normaliser)
    for language, text in old_texts:
        assert before.ids(text, language) == now.ids(text, language)
    arabic = [text for language, text in old_texts if language == "ar"]
    assert persian.changed_share(arabic, "ar") == 0


def test_every_new_merge_has_a_letter_that_old_languages_do_not_have(vocabulary, persian):
    count = len(json.loads(vocabulary)["model"]["merges"])
    new = json.loads(persian.vocabulary)["model"]["merges"][count:]
    assert len(new) > 150
    assert all(set("".join(pair)) & set("پچژکگی\u200c") for pair in new)


def test_texts_of_the_new_language_become_shorter_and_nothing_in_them_is_unknown(
    vocabulary, persian
):
    tokens = Tokens(persian.vocabulary, persian.normaliser)
    text = "یکی بود یکی نبود، غیر از خدا هیچ کس نبود."
    ids = tokens.encode(text, "fa")
    assert ids[0] == tokens.bpe.special["[fa]"]
    assert tokens.unknown_share(_lines("fa"), "fa") < 0.001
    assert len(ids) < 0.9 * len(text)


def test_merges_of_shared_letters_change_old_texts_and_the_share_is_told(vocabulary, old_texts):
    shared = AddedLanguage.learn(vocabulary, "fa", _lines("fa"), tokens=200, shared=True)
    arabic = [text for language, text in old_texts if language == "ar"]
    assert 0 < shared.changed_share(arabic, "ar") < 1
    assert shared.changed_share(["hello world"], "en") == 0
    assert shared.changed_share([], "en") == 0


def test_a_language_without_a_letter_of_its_own_has_merges_only_if_they_are_shared(vocabulary):
    texts = ["saya mau makan nasi goreng bersama teman"] * 9
    assert AddedLanguage.learn(vocabulary, "id", texts).tokens == 1
    assert AddedLanguage.learn(vocabulary, "id", texts, shared=True).tokens > 10


@pytest.mark.parametrize("shared", [False, True])
def test_ids_are_those_of_the_tokenizers_package(vocabulary, old_texts, shared):
    added = AddedLanguage.learn(vocabulary, "fa", _lines("fa"), tokens=300, shared=shared)
    theirs = tokenizers.Tokenizer.from_str(added.vocabulary)
    ours = Tokens(added.vocabulary, added.normaliser)
    texts = [("fa", text) for text in _lines("fa")] + old_texts[::7]
    for language, text in texts:
        written = ours.language_tag(language) + ours.written(text, language)
        wanted = theirs.encode(written.replace(" ", "[SPACE]")).ids
        assert ours.ids(text, language) == wanted, text


def test_a_second_language_comes_behind_the_first(persian):
    texts = [*_lines("fa")[:3], "mein großer grüner Ægir"]
    both = AddedLanguage.learn(persian.vocabulary, "da", texts, persian.normaliser, tokens=9)
    assert both.normaliser.own == ("fa", "da")
    assert Tokens(both.vocabulary).languages[-2:] == ("fa", "da")
    assert both.changed_share(_lines("fa"), "fa") == 0


@pytest.mark.parametrize(
    ("language", "texts", "refusal"),
    [
        ("en-gb", ["a"], "has the language 'en' already"),
        ("persian", ["a"], "'persian' is no language"),
        ("../x", ["a"], "is no language"),
        ("sv", [" "], "no texts in 'sv'"),
    ],
)
def test_what_cannot_be_added_is_refused(vocabulary, language, texts, refusal):
    with pytest.raises(UserError, match=refusal):
        AddedLanguage.learn(vocabulary, language, texts)


def test_a_model_with_another_language_says_what_it_said(small, small_source, reference, tmp_path):
    """Rows are added to both tables: with equal ids, latents, audio logits and the waveform are
    equal, and the new rows begin at the mean of the old ones."""
    added = AddedLanguage.learn(small_source.vocabulary, "fa", _lines("fa"), tokens=50)
    added.extended(small_source).write(tmp_path / "made")
    source = PublishedDirectory.open(tmp_path / "made")
    assert source.normaliser == Normaliser().with_language("fa")
    assert source.config.languages[-1] == "fa"
    grown = Published.load(source)
    text, lengths = formula.texts()
    codes = tf.constant(reference["dvae/codes"], tf.int32)
    parts = (
        *(reference["conditioning/latents"], text, tf.constant(lengths, tf.int32), codes),
        tf.fill([len(text)], codes.shape[1]),
    )
    outputs = [networks.gpt(*parts)["audio_logits"] for networks in (small, grown)]
    np.testing.assert_array_equal(*outputs)
    latents = [networks.gpt.latents_of(*parts) for networks in (small, grown)]
    np.testing.assert_array_equal(*latents)
    speaker = formula.speaker_vector()
    waveforms = [
        networks.hifigan(latent[:1], speaker)
        for networks, latent in zip((small, grown), latents, strict=True)
    ]
    np.testing.assert_array_equal(*waveforms)
    for name in new_language._TABLES:
        rows, old = source.model[name], small_source.model[name]
        np.testing.assert_array_equal(rows[: len(old)], old)
        assert len(rows) == len(old) + added.tokens
        np.testing.assert_allclose(
            rows[len(old) :], np.broadcast_to(old.mean(0), rows[len(old) :].shape), atol=1e-6
        )


def test_tokens_of_another_vocabulary_do_not_fit_a_model(small_source, persian):
    with pytest.raises(UserError, match="another vocabulary than the tokens were made for"):
        persian.extended(small_source)
