"""Adds a language to a published model: a tag, tokens for its texts, and vectors for the tokens.

    added = AddedLanguage.learn(source.vocabulary, "fa", texts, source.normaliser)
    extended = added.extended(source)     # a PublishedDirectory, to train from
    added.changed_share(texts_of_old_languages, "ar")

Old ids do not change. New merges come after the old ones, so a text without any of them keeps its
ids, and the same ids give the same speech as before. By default every new merge has a letter that
no old language uses. With `shared` a merge may consist of old letters only, as a language such as
Indonesian needs; old texts that contain such a merge are read differently.
"""

import collections
import dataclasses
import json
import string
import unicodedata
from collections.abc import Iterable

import numpy as np
from absl import logging

from myxtts import UserError
from myxtts.text.languages import base_language, find_language
from myxtts.text.vocabulary import RARE, learn_merges
from myxtts.xtts_v2.bpe import Bpe, words
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.text import Tokens

TOKENS = 2000
# One row per token.
_TABLES = ("gpt.text_embedding.weight", "gpt.text_head.weight", "gpt.text_head.bias")
_ROMANISED = ("zh", "ja", "ko")
_DEVANAGARI = frozenset(map(chr, range(0x0900, 0x0980)))
_JOINERS = "\u200c\u200d"


@dataclasses.dataclass(frozen=True)
class AddedLanguage:
    """A language that is added; the module's docstring shows its use. `vocabulary` is the text of
    the new vocab.json."""

    language: str
    vocabulary: str
    normaliser: Normaliser
    tokens: int  # number of new tokens, with the tag
    old: str  # the vocab.json that it extends

    @classmethod
    def learn(
        cls,
        vocabulary: str,
        language: str,
        texts: Iterable[str],
        normaliser: Normaliser | None = None,
        *,
        tokens: int = TOKENS,
        shared: bool = False,
    ) -> "AddedLanguage":
        """Learns at most `tokens` tokens besides the tag: missing letters first, then merges, the
        commonest first. There are fewer if not enough pairs occur twice in the texts."""
        language = base_language(language)
        if not (language.isascii() and language.isalpha() and 2 <= len(language) <= 3):
            raise UserError(f"{language!r} is no language; give its code, such as fa or sv")
        before = Tokens(vocabulary, normaliser)
        tag = f"[{language}]"
        if language in map(base_language, before.languages):
            raise UserError(
                f"the model has the language {language!r} already; train it without --add_language"
            )
        normaliser = before.normaliser.with_language(language)
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(words(normaliser.written(text, language)))
        if not counts:
            raise UserError(f"there are no texts in {language!r} to learn tokens from")
        characters = _missing(counts, before.bpe)[:tokens]
        rare = set().union(*counts) - {*before.bpe.ids, *characters}
        spelled = [(before.bpe.pieces(word), count) for word, count in sorted(counts.items())]
        old_letters = _old_letters(before)

        def allowed(pair: tuple[str, str]) -> bool:
            joined = "".join(pair)
            new = shared or any(_is_letter(c) and c not in old_letters for c in joined)
            # A piece that exists may have been merged further by old merges, which come first.
            return new and joined not in before.bpe.ids and rare.isdisjoint(pair)

        merges = learn_merges(spelled, allowed, tokens - len(characters))
        pieces = [tag, *characters, *dict.fromkeys("".join(pair) for pair in merges)]
        logging.info(
            "%s: %d characters and %d merges, %d tokens more",
            *(language, len(characters), len(merges), len(pieces)),
        )
        text = _extended(vocabulary, tag, pieces, merges)
        return cls(language, text, normaliser, tokens=len(pieces), old=vocabulary)

    def changed_share(self, texts: Iterable[str], language: str) -> float:
        """The share of these texts in an old language whose ids changed."""
        before, now = Tokens(self.old, self.normaliser), Tokens(self.vocabulary, self.normaliser)
        changed = [before.ids(text, language) != now.ids(text, language) for text in texts]
        return sum(changed) / len(changed) if changed else 0.0

    def extended(self, source: PublishedDirectory) -> PublishedDirectory:
        """The model with rows for the new tokens; each is the mean of the old rows."""
        if source.vocabulary != self.old:
            raise UserError(f"{source.path} has another vocabulary than the tokens were made for")
        args, model = source.config.model_args, dict(source.model)
        for name in _TABLES:
            rows = np.asarray(model[name])
            mean = rows.astype(np.float64).mean(0, keepdims=True).astype(rows.dtype)
            model[name] = np.concatenate([rows, np.repeat(mean, self.tokens, 0)])
        size = args.gpt_number_text_tokens + self.tokens
        config = dataclasses.replace(
            source.config,
            model_args=dataclasses.replace(args, gpt_number_text_tokens=size),
            languages=(*source.config.languages, self.language),
        )
        return dataclasses.replace(
            source,
            config=config,
            model=model,
            vocabulary=self.vocabulary,
            normaliser=self.normaliser,
        )


def _missing(counts: collections.Counter, bpe: Bpe) -> list[str]:
    """The characters without a token, the commonest first."""
    seen: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            seen[character] += count
    often = sorted((-n, c) for c, n in seen.items() if c not in bpe.ids and n >= RARE)
    return [character for _, character in often]


def _old_letters(tokens: Tokens) -> frozenset[str]:
    """The letters that the languages of a model are written with."""
    letters = set(string.ascii_lowercase)
    for language in map(base_language, tokens.languages):
        alphabet = _DEVANAGARI if language == "hi" else find_language(language).alphabet
        if language in _ROMANISED:
            continue
        # A language that is unknown here may use any letter of the vocabulary.
        letters.update(alphabet or "".join(tokens.bpe.ids))
    return frozenset(letters)


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM" or character in _JOINERS


def _extended(vocabulary: str, tag: str, pieces: list[str], merges: list[tuple]) -> str:
    """vocab.json with the new entries after the old ones; `tokenizers` can read it."""
    file = json.loads(vocabulary)
    model, special = file["model"], file["added_tokens"]
    size = 1 + max([*model["vocab"].values(), *(token["id"] for token in special)])
    model["vocab"] |= {piece: size + place for place, piece in enumerate(pieces)}
    as_text = not model["merges"] or isinstance(model["merges"][0], str)
    model["merges"] += [" ".join(pair) if as_text else [*pair] for pair in merges]
    special.append({**special[0], "id": size, "content": tag})
    return json.dumps(file, ensure_ascii=False)
