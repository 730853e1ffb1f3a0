"""Sentences without end for the embedded corpus, from patterns and word lists per language.

`xx.txt` holds patterns: a line `[name]` begins a list, and `{name}` stands for one line of that
list. Three sentences in ten come from the list `sentence`, which is grammatical; the others from
`shape`, which is filled with thousands of words from `words/xx.txt`. A shape ignores most grammar
and all sense: a voice should learn how sounds follow each other, not learn texts by heart.
`{any.noun}` is a word from the list `noun` in `words/xx.txt`; `{any.number}` and the like
are made up.

Sentence number i is the same in every corpus with the same seed, so a corpus can grow. One sentence
in sixteen, chosen by its hash, is kept for judging voices and is in no corpus of any seed.

To add a language, write both files with the lists that the others have.
"""

import collections
import functools
import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from myxtts.text.languages import find_language

_FOLDER = Path(__file__).parent
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))
_GRAMMATICAL = 0.3  # the share of sentences from the list `sentence`
_LONGEST = 100  # characters, some six seconds
_KEPT_FOR_JUDGING = 16
_SLOT = re.compile(r"\{(any\.)?(\w+)\}")
Chance = Callable[[], float]


@functools.cache
def _patterns(language: str) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for name, line in _lines(_FOLDER / f"{language}.txt"):
        lists.setdefault(name, []).append(line)
    return lists


@functools.cache
def word_lists(language: str) -> dict[str, list[str]]:
    """The lists of words/xx.txt, in which a line holds many words."""
    lists: dict[str, list[str]] = {}
    for name, line in _lines(_FOLDER / "words" / f"{language}.txt"):
        lists.setdefault(name, []).extend(line.split())
    return lists


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file, each with the name of its list."""
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1]
        elif line and not line.startswith("#"):
            yield name, line


def sentence(language: str, seed: str) -> str:
    """A sentence that depends on the seed alone."""
    # random() is the one method whose sequence Python promises to keep between versions.
    patterns, chance = _patterns(language), random.Random(seed).random

    def one_of(name: str) -> str:
        return _SLOT.sub(filled, _choice(patterns[name], chance))

    def filled(slot: re.Match) -> str:
        if not slot[1]:
            return one_of(slot[2])
        made = _MADE.get(slot[2])
        return made(language, chance) if made else _choice(word_lists(language)[slot[2]], chance)

    while True:
        text = one_of("sentence" if chance() < _GRAMMATICAL else "shape")
        if len(text) <= _LONGEST:
            break
    first = next(i for i, c in enumerate(text) if c.isalpha() or c.isdigit())
    return text[:first] + text[first].upper() + text[first + 1 :]


def different_sentences(language: str, seed: int, *, for_judging: bool = False) -> Iterator[str]:
    """Distinct sentences: those for corpora, or those kept for judging."""
    said, repeated = set(), 0
    for number in itertools.count():
        text = sentence(language, f"{seed}/{language}/{number}")
        if is_kept_for_judging(text) != for_judging:
            continue
        repeated = repeated + 1 if text in said else 0
        if repeated == 1000:  # in a row: the patterns are used up
            return
        if not repeated:
            said.add(text)
            yield text


def is_kept_for_judging(text: str) -> bool:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % _KEPT_FOR_JUDGING == 0


def _choice(choices: list[str], chance: Chance) -> str:
    return choices[int(chance() * len(choices))]


def _number(language: str, chance: Chance) -> str:
    """A number; short ones are as frequent as long ones."""
    return str(int(10 ** (1 + int(chance() * 5)) * chance()))


def _time(language: str, chance: Chance) -> str:
    return f"{1 + int(chance() * 23)}:{int(chance() * 60):02d}"


def _price(language: str, chance: Chance) -> str:
    sign = find_language(language).decimal_sign
    return f"{int(chance() * 200)}{sign}{int(chance() * 100):02d}"


def _year(language: str, chance: Chance) -> str:
    return str(1700 + int(chance() * 330))


def _new_word(language: str, chance: Chance) -> str:
    """An invented word that follows the language's spelling: all its runs of three letters occur
    in real words."""
    following = _letters_after(language)
    while True:
        word = "  "
        while not word.endswith("$") and len(word) < 14:
            word += _choice(following[word[-2:]], chance)
        if word.endswith("$") and len(word) > 6:
            return word[2:-1]


@functools.cache
def _letters_after(language: str) -> dict[str, str]:
    """For every two letters, the letters that follow them, repeated as often as they do. Two spaces
    begin a word, $ ends it."""
    following = collections.defaultdict(str)
    for word in word_lists(language)["word"]:
        padded = f"  {word.lower()}$"
        for i in range(2, len(padded)):
            following[padded[i - 2 : i]] += padded[i]
    return dict(following)


_MADE: dict[str, Callable[[str, Chance], str]] = {
    "number": _number,
    "time": _time,
    "price": _price,
    "year": _year,
    "new_word": _new_word,
}
