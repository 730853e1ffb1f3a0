"""A vocab.json for a model that begins with random weights, made from the texts of its corpus.

    text, normaliser = learned_vocabulary({"en": [...], "fa": [...]}, tokens=2048)

Languages with published cleaners are written by these, others by `myxtts.text`.
"""

import collections
import json
from collections.abc import Iterable, Mapping, Sequence

from myxtts import UserError
from myxtts.text.languages import base_language
from myxtts.text.vocabulary import RARE, learn_merges
from myxtts.xtts_v2.bpe import words
from myxtts.xtts_v2.normaliser import Normaliser

_TAGS = {"zh": "zh-cn"}  # where the published tag is not the language's code
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


def learned_vocabulary(
    texts: Mapping[str, Iterable[str]], tokens: int, merged: bool = True
) -> tuple[str, Normaliser]:
    """The text of vocab.json and the normaliser that wrote the texts, which are given by language.

    There are a tag for each language, the characters that occur at least twice, and what BPE merges
    from them unless `merged` is False; `tokens` at most in all.
    """
    languages = sorted({base_language(language) for language in texts})
    normaliser = Normaliser()
    for language in languages:
        if not (language.isascii() and language.isalpha() and 2 <= len(language) <= 3):
            raise UserError(
                f"{language!r} is no language that a vocab.json can name; give its code, such as "
                "en, with --language"
            )
        normaliser = normaliser.with_language(language)
    counts: collections.Counter[str] = collections.Counter()
    for language, lines in texts.items():
        for line in lines:
            counts.update(words(normaliser.written(line, language)))
    special = ["[STOP]", "[UNK]", "[SPACE]", *map(tag, languages), "[START]"]
    seen: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            seen[character] += count
    often = sorted((-n, character) for character, n in seen.items() if n >= RARE)
    characters = [character for _, character in often][: max(tokens - len(special), 0)]
    if not characters:
        raise UserError("the texts of the corpus have no characters to make a vocabulary of")
    known, merges = set(characters), []
    if merged:

        def allowed(pair: tuple[str, str]) -> bool:
            return pair[0][0] in known and pair[1][0] in known

        spelled = [([*word], count) for word, count in sorted(counts.items())]
        merges = learn_merges(spelled, allowed, tokens - len(special) - len(characters))
    return vocabulary_file(special, characters, merges), normaliser


def tag(language: str) -> str:
    """The tag of a language in vocab.json."""
    return f"[{_TAGS.get(language, language)}]"


def vocabulary_file(
    special: Sequence[str], characters: Sequence[str], merges: Sequence[tuple[str, str]] = ()
) -> str:
    """The text of a vocab.json, in the format of Hugging Face's `tokenizers`; ids in this order."""
    pieces = dict.fromkeys([*special, *characters, *("".join(pair) for pair in merges)])
    ids = {token: number for number, token in enumerate(pieces)}
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[token], "content": token, "special": True, **_PLAIN} for token in special
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "[UNK]",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "vocab": ids,
            "merges": [" ".join(pair) for pair in merges],
        },
    }
    return json.dumps(file, ensure_ascii=False)
