"""Token ids: a BPE or character vocabulary trained on a corpus, in which any text has a place.

Ids are, in this order: the special tokens, one tag per language, 256 single bytes, the characters
that were seen, and what BPE merged from them. A character that was never seen is written as its
UTF-8 bytes, so `decode(encode(text))` is the normalised text for any text.
"""

import collections
import functools
import hashlib
import heapq
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from myxtts import UserError
from myxtts.config import TextConfig, write_whole
from myxtts.text.languages import base_language
from myxtts.text.normalise import normalise

SPECIAL = ("[pad]", "[start]", "[stop]")
# A word with the space before it, a punctuation mark likewise, or other white space: merges never
# cross these borders, so every word is encoded alike wherever it stands.
_PIECE = re.compile(r" ?[\w\u200c\u200d]+| ?[^\w\s]|\s+?")
# Characters seen less often than this are written as bytes; a vector each would not be learnt.
RARE = 2


# A corpus is written when its vocabulary is made, and again when training encodes it.
@functools.lru_cache(50_000)
def _written(text: str, language: str, phonemes: bool) -> str:
    text = normalise(text, language)
    if phonemes:
        from myxtts.espeak import espeak

        text = espeak().phonemes(text, language)
    return text


class Vocabulary:
    """Text to ids and back. Make one with `train` or `load`."""

    pad, start, stop = range(len(SPECIAL))
    unknown = None  # every character has an id

    def __init__(
        self,
        languages: Iterable[str],
        characters: Iterable[str],
        merges: Iterable[tuple[str, str]] = (),
        phonemes: bool = False,
    ):
        self.languages = tuple(languages)
        self.characters = tuple(characters)
        self.merges = tuple((left, right) for left, right in merges)
        self.phonemes = phonemes
        self._first_byte = len(SPECIAL) + len(self.languages)
        pieces = [*self.characters, *(left + right for left, right in self.merges)]
        self._first_piece = self._first_byte + 256
        self._pieces = pieces
        self._ids: dict[str, int] = {}
        for i, piece in enumerate(pieces):
            self._ids.setdefault(piece, self._first_piece + i)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._tags = {name: len(SPECIAL) + i for i, name in enumerate(self.languages)}
        self._encoded: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return self._first_piece + len(self._pieces)

    @property
    def fingerprint(self) -> str:
        """Changes with every id."""
        values = (self.languages, self.characters, self.merges, self.phonemes)
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]

    @property
    def byte_ids(self) -> range:
        """The ids of the 256 single bytes."""
        return range(self._first_byte, self._first_piece)

    def id_of(self, piece: str) -> int:
        """The id of a character that was seen, or of a merged piece."""
        return self._ids[piece]

    def written(self, text: str, language: str) -> str:
        """The form of a text that is encoded: its normal form, or its phonemes."""
        return _written(text, language, self.phonemes)

    def encode(self, text: str, language: str) -> list[int]:
        """The language's tag and the tokens of the normalised text; no start or stop token."""
        return [self.language_tag(language), *self.encode_written(self.written(text, language))]

    def encode_written(self, text: str) -> list[int]:
        """The tokens of a text that is in its normal form already."""
        ids: list[int] = []
        for piece in _PIECE.findall(text):
            found = self._encoded.get(piece)
            if found is None:
                found = self._encode_piece(piece)
                if len(self._encoded) < 100_000:
                    self._encoded[piece] = found
            ids += found
        return ids

    def language_tag(self, language: str) -> int:
        tag = self._tags.get(language.lower(), self._tags.get(base_language(language)))
        if tag is None:
            raise UserError(
                f"the vocabulary has no language {language!r}; it was trained on "
                f"{', '.join(self.languages)}"
            )
        return tag

    def _encode_piece(self, piece: str) -> list[int]:
        symbols = list(piece)
        while len(symbols) > 1:
            ranks = [
                self._ranks.get(pair, len(self._ranks)) for pair in itertools.pairwise(symbols)
            ]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == len(self._ranks):
                break
            symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]
        ids: list[int] = []
        for symbol in symbols:
            known = self._ids.get(symbol)
            ids += [known] if known is not None else [self._first_byte + b for b in symbol.encode()]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; special tokens and language tags are left out."""
        text = bytearray()
        for i in ids:
            i = int(i)
            if not 0 <= i < len(self):
                raise ValueError(f"token {i} is not one of the {len(self)} of this vocabulary")
            if i >= self._first_piece:
                text += self._pieces[i - self._first_piece].encode()
            elif i >= self._first_byte:
                text.append(i - self._first_byte)
        return text.decode("utf-8", errors="replace")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Readable names of the ids, for plots and logs."""
        names = [*SPECIAL, *(f"[{name}]" for name in self.languages)]
        names += [f"<{b:02x}>" for b in range(256)] + self._pieces
        return [names[int(i)] for i in ids]

    @classmethod
    def train(
        cls, texts: Iterable[str], languages: Iterable[str], config: TextConfig
    ) -> "Vocabulary":
        """From the texts of a corpus and the language of each."""
        blank = cls((), (), phonemes=config.phonemes)
        seen_languages: set[str] = set()
        words: collections.Counter = collections.Counter()
        for text, language in zip(texts, languages, strict=True):
            seen_languages.add(language.lower())
            words.update(_PIECE.findall(blank.written(text, language)))
        counts: collections.Counter = collections.Counter()
        for word, count in words.items():
            for character in word:
                counts[character] += count
        tags = sorted(seen_languages)
        room = config.vocabulary_size - len(SPECIAL) - len(tags) - 256
        kept = [c for c, n in sorted(counts.items(), key=lambda i: (-i[1], i[0])) if n >= RARE]
        characters = kept[: max(room, 0)]
        merges = []
        if config.vocabulary == "bpe":
            spelled = [([*word], count) for word, count in sorted(words.items())]
            has_id = set(characters)

            def allowed(pair: tuple[str, str]) -> bool:
                return pair[0][0] in has_id and pair[1][0] in has_id

            merges = learn_merges(spelled, allowed, room - len(characters))
        return cls(tags, characters, merges, config.phonemes)

    def save(self, path: str | os.PathLike) -> None:
        values = {
            "languages": self.languages,
            "characters": self.characters,
            "merges": self.merges,
            "phonemes": self.phonemes,
        }
        write_whole(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            merges = [(str(left), str(right)) for left, right in values["merges"]]
            lists = [[str(v) for v in values[name]] for name in ("languages", "characters")]
            return cls(*lists, merges, bool(values["phonemes"]))
        except FileNotFoundError:
            raise UserError(f"the vocabulary {path} does not exist") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} does not hold a vocabulary: {error!r}") from None

    def __eq__(self, other: object) -> bool:
        mine = (self.languages, self.characters, self.merges, self.phonemes)
        return isinstance(other, Vocabulary) and mine == (
            other.languages,
            other.characters,
            other.merges,
            other.phonemes,
        )

    __hash__ = None


def learn_merges(
    spelled: list[tuple[list[str], int]], allowed: Callable[[tuple[str, str]], bool], most: int
) -> list[tuple[str, str]]:
    """The commonest neighbours are joined, again and again; ties go by the alphabet.

    `spelled`: words in pieces, and how often each is seen. Pairs that are not allowed, or are seen
    only once, stay apart.
    """
    spelled = [*spelled]
    pairs: collections.Counter = collections.Counter()
    where: dict[tuple[str, str], set[int]] = collections.defaultdict(set)

    def add(i: int, sign: int) -> None:
        symbols, count = spelled[i]
        for pair in itertools.pairwise(symbols):
            if allowed(pair):
                pairs[pair] += sign * count
                if sign > 0:
                    where[pair].add(i)
                    heapq.heappush(heap, (-pairs[pair], pair))

    heap: list = []
    for i in range(len(spelled)):
        add(i, 1)
    merges: list[tuple[str, str]] = []
    while heap and len(merges) < most:
        count, pair = heapq.heappop(heap)
        if pairs[pair] != -count:  # an outdated entry; the true count may still be worth one
            if 0 < pairs[pair] < -count:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if -count < RARE:
            break
        merges.append(pair)
        for i in sorted(where.pop(pair)):
            add(i, -1)
            spelled[i] = (_joined(spelled[i][0], pair), spelled[i][1])
            add(i, 1)
        del pairs[pair]
    return merges


def _joined(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    joined, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            joined.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            joined.append(symbols[i])
            i += 1
    return joined
