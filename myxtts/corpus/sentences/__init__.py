"""Sentences without end for the embedded corpus, from patterns and word lists per language."""

import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path

_FOLDER = Path(__file__).parent
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


@functools.lru_cache
def _lists(language: str) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for line in (_FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            current = lists.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            current.append(line)
    return lists


def sentence(language: str, seed: str) -> str:
    """A sentence that depends on the seed alone."""
    lists, chance = _lists(language), random.Random(seed)

    def one_of(name: str) -> str:
        # random() is the one method whose sequence Python promises to keep between versions.
        choices = lists[name]
        return re.sub(
            r"\{(\w+)\}", lambda m: one_of(m[1]), choices[int(chance.random() * len(choices))]
        )

    text = one_of("sentence")
    return text[0].upper() + text[1:]


def different_sentences(language: str, seed: int) -> Iterator[str]:
    """Sentences of which no two are alike."""
    said, number, repeated = set(), 0, 0
    while repeated < 1000:  # in a row: the patterns are used up
        text = sentence(language, f"{seed}/{language}/{number}")
        number += 1
        repeated = repeated + 1 if text in said else 0
        if not repeated:
            said.add(text)
            yield text
