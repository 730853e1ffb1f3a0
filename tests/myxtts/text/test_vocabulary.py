"""Any text has ids, and the ids have the text."""

import json
import random

import pytest

from myxtts import UserError
from myxtts.config import TextConfig
from myxtts.text.normalise import normalise
from myxtts.text.vocabulary import Vocabulary

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "The slow fox, the quick dog; the fox!",
    "سلام دنیا، سلام روباه.",
    "How much is the dog? The dog is $5.",
] * 3
LANGUAGES = ["en", "en", "fa", "en"] * 3


@pytest.fixture(scope="module", params=["bpe", "characters"])
def vocabulary(request):
    return Vocabulary.train(TEXTS, LANGUAGES, TextConfig(request.param, vocabulary_size=400))


def any_text(chance):
    ranges = [(32, 127), (0x600, 0x700), (0x1F300, 0x1F700), (0, 0x3000), (0, 0x110000)]
    return "".join(
        chr(chance.randrange(*chance.choice(ranges))) for _ in range(chance.randrange(60))
    )


def test_decoding_gives_the_normalised_text_of_anything(vocabulary):
    chance = random.Random(1)
    for i in range(4000):
        text, language = any_text(chance), ("en", "fa")[i % 2]
        ids = vocabulary.encode(text, language)
        assert vocabulary.decode(ids) == normalise(text, language)
        assert all(0 <= i < len(vocabulary) for i in ids)


def test_text_that_looks_like_a_special_token_is_only_text(vocabulary):
    for text in ("[stop]", "[en] <ab> [pad]"):
        ids = vocabulary.encode(text, "en")
        assert vocabulary.decode(ids) == text
        assert not {vocabulary.pad, vocabulary.start, vocabulary.stop} & set(ids)
        assert ids.count(vocabulary.language_tag("en")) == 1


def test_the_language_comes_first_and_regions_are_their_language(vocabulary):
    ids = vocabulary.encode("fox", "en-GB")
    assert vocabulary.tokens(ids)[0] == "[en]"
    assert vocabulary.encode("fox", "fa")[0] == vocabulary.language_tag("fa") != ids[0]
    with pytest.raises(UserError, match=r"no language 'ja'; it was trained on en, fa"):
        vocabulary.encode("fox", "ja")


def test_saved_and_loaded_it_is_the_same(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "v.json")
    loaded = Vocabulary.load(tmp_path / "v.json")
    assert loaded == vocabulary and len(loaded) == len(vocabulary)
    for text, language in zip(TEXTS, LANGUAGES, strict=True):
        assert loaded.encode(text, language) == vocabulary.encode(text, language)


def test_a_damaged_file_is_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"v.json does not exist"):
        Vocabulary.load(tmp_path / "v.json")
    for content in ("{", "[]", '{"languages": [], "characters": [], "merges": [["a"]]}'):
        (tmp_path / "v.json").write_text(content)
        with pytest.raises(UserError, match=r"v.json does not hold a vocabulary"):
            Vocabulary.load(tmp_path / "v.json")


def test_training_depends_on_the_texts_alone_and_keeps_to_its_size():
    config = TextConfig(vocabulary_size=330)
    first = Vocabulary.train(TEXTS, LANGUAGES, config)
    again = Vocabulary.train(TEXTS[::-1], LANGUAGES[::-1], config)
    assert first == again and len(first) <= 330
    assert json.dumps(first.merges) == json.dumps(again.merges)


def test_bpe_merges_what_stands_together_most_often():
    vocabulary = Vocabulary.train(TEXTS, LANGUAGES, TextConfig(vocabulary_size=400))
    tokens = vocabulary.tokens(vocabulary.encode("The quick fox", "en"))
    assert tokens == ["[en]", "the", " quick", " fox"]
    characters = Vocabulary.train(TEXTS, LANGUAGES, TextConfig("characters"))
    assert characters.tokens(characters.encode("the", "en")) == ["[en]", "t", "h", "e"]


def test_unseen_characters_are_their_bytes():
    vocabulary = Vocabulary.train(TEXTS, LANGUAGES, TextConfig())
    assert vocabulary.tokens(vocabulary.encode("ж", "en"))[1:] == ["<d0>", "<b6>"]
    assert vocabulary.decode(vocabulary.encode("ж", "en")[:2]) == "\ufffd"  # half a character
    with pytest.raises(ValueError, match="token 9999 is not one of the"):
        vocabulary.decode([9999])


def test_phonemes_are_encoded_in_place_of_letters():
    pytest.importorskip("espeakng_loader")
    vocabulary = Vocabulary.train(TEXTS, LANGUAGES, TextConfig(phonemes=True))
    spoken = vocabulary.decode(vocabulary.encode("The fox, the dog!", "en"))
    assert spoken == vocabulary.written("The fox, the dog!", "en")
    assert "fˈɒks," in spoken and spoken.endswith("dˈɒɡ!")
    assert "sal" in vocabulary.written("سلام", "fa")
