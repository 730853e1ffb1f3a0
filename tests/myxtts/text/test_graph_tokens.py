"""The vocabulary in a graph gives the ids that Python gives."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import TextConfig
from myxtts.corpus.sentences import different_sentences
from myxtts.text.graph_tokens import GraphTokens
from myxtts.text.vocabulary import Vocabulary


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_ids_are_those_of_python(kind):
    english, persian = different_sentences("en", 1), different_sentences("fa", 1)
    texts = [next(english) for _ in range(150)] + [next(persian) for _ in range(150)]
    languages = ["en"] * 150 + ["fa"] * 150
    vocabulary = Vocabulary.train(texts, languages, TextConfig(kind, vocabulary_size=900))
    if kind == "bpe":
        assert len(vocabulary.merges) > 100
    tokens = GraphTokens(vocabulary)
    encode = tf.function(lambda text, language: tokens(text, language))
    unseen = ["naïve œuvre – 日本 x", "zzz 😀 q!", "a", "don't; stop -now-"]
    new = [next(english) for _ in range(20)] + [next(persian) for _ in range(10)] + unseen
    for text, language in zip(new, ["en"] * 20 + ["fa"] * 10 + ["en"] * 4, strict=True):
        written = vocabulary.written(text, language)
        found = encode(tf.constant(written), tf.constant(language)).numpy()
        np.testing.assert_array_equal(found, vocabulary.encode(text, language))


def test_a_language_that_is_not_there_is_refused():
    vocabulary = Vocabulary.train(["hello there"], ["en"], TextConfig("characters"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no language"):
        GraphTokens(vocabulary)(tf.constant("hello"), tf.constant("xx"))


def test_a_vocabulary_of_phonemes_takes_phonemes_and_refuses_what_it_lacks():
    vocabulary = Vocabulary(["en"], ["ɡ", "ʊ", "d", "ˈ", " ", "."], phonemes=True)
    tokens = GraphTokens(vocabulary)
    ids = vocabulary.encode_written("ɡˈʊd.")
    found = tokens(tf.constant("ɡˈʊd."), tf.constant("en")).numpy()
    np.testing.assert_array_equal(found, [vocabulary.language_tag("en"), *ids])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)no phonemes.*g o.*not letters"):
        tokens(tf.constant("good."), tf.constant("en"))
