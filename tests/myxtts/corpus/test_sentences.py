"""The sentences of the embedded corpus: many, varied, in the language's letters, none judged."""

import collections
import itertools

import pytest

from myxtts.corpus.sentences import (
    LANGUAGES,
    different_sentences,
    is_kept_for_judging,
    sentence,
    word_lists,
)
from myxtts.text.alphabets import outside_alphabet
from myxtts.text.normalise import normalise

SAID = 3000


@pytest.fixture(scope="module", params=LANGUAGES)
def spoken(request):
    """A language and its first sentences."""
    sentences = itertools.islice(different_sentences(request.param, seed=3), SAID)
    return request.param, list(sentences)


def test_there_are_thousands_of_sentences_in_the_language_s_own_letters(spoken):
    language, sentences = spoken
    assert len(set(sentences)) == SAID
    assert not [s for s in sentences if "{" in s or "}" in s or "  " in s or "|" in s]
    strange = {c for s in sentences for c in outside_alphabet(normalise(s, language), language)}
    assert strange == set()


def test_they_have_thousands_of_words_and_no_three_come_again_and_again(spoken):
    language, sentences = spoken
    words = [normalise(s, language).split() for s in sentences]
    distinct = collections.Counter(word for said in words for word in said)
    assert len(distinct) > 3000
    threes = collections.Counter(
        three for said in words for three in zip(said, said[1:], said[2:], strict=False)
    )
    (_, most) = threes.most_common(1)[0]
    assert most < SAID / 25


def test_there_are_questions_numbers_names_and_lengths_of_all_kinds(spoken):
    language, sentences = spoken
    mark = "؟" if language == "fa" else "?"
    assert 0.05 < sum(mark in s for s in sentences) / SAID < 0.4
    assert 0.05 < sum(any(c.isdigit() for c in s) for s in sentences) / SAID < 0.4
    names = set(word_lists(language)["name"])
    assert sum(any(w.strip(".,!?:'\"") in names for w in s.split()) for s in sentences) > SAID / 10
    lengths = sorted(map(len, sentences))
    assert lengths[SAID // 20] < 30 and lengths[-SAID // 20] > 40 and lengths[-1] <= 100


def test_sentences_that_judge_occur_in_no_corpus(spoken):
    language, sentences = spoken
    judging = list(itertools.islice(different_sentences(language, 3, for_judging=True), 150))
    others = list(itertools.islice(different_sentences(language, 4, for_judging=True), 50))
    assert len(set(judging)) == 150 and all(map(is_kept_for_judging, judging + others))
    assert set(judging + others).isdisjoint(sentences)
    assert not any(map(is_kept_for_judging, sentences))


def test_a_sentence_depends_on_its_seed_alone(spoken):
    language, sentences = spoken
    again = itertools.islice(different_sentences(language, seed=3), 50)
    assert list(again) == sentences[:50]
    assert sentence(language, "7") == sentence(language, "7") != sentence(language, "8")
