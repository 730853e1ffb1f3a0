"""The token ids of a corpus's texts, in one array that tf.data can cut from."""

import dataclasses

import numpy as np
from absl import logging

from myxtts import UserError
from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary

_MOST_UNKNOWN = 0.5  # of all tokens, as of letters in another script


@dataclasses.dataclass(frozen=True)
class Texts:
    """The token ids of all texts; text i is `ids[starts[i] : starts[i] + lengths[i]]`.

    `unknown` is the share of tokens that the vocabulary lacks, before their clips were left out.
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    unknown: float = 0.0

    def __getitem__(self, i: int) -> np.ndarray:
        return self.ids[self.starts[i] : self.starts[i] + self.lengths[i]]


def encode_texts(corpus: Corpus, vocabulary: Vocabulary, max_tokens: int) -> tuple[Corpus, Texts]:
    """The texts, and the corpus without the clips whose text is too long for the model. A warning
    says how many clips were left out. UserError if the vocabulary lacks at least half of the
    tokens, or one of every text."""
    unknown = 0.0
    encoded = [
        np.array(vocabulary.encode(text, corpus.languages[language]), np.int32)
        for text, language in zip(corpus.texts, corpus.language_ids, strict=True)
    ]
    if vocabulary.unknown is not None:
        corpus, encoded, unknown = _known(corpus, encoded, vocabulary.unknown)
    lengths = np.array([len(ids) for ids in encoded], np.int32)
    fits = np.flatnonzero(lengths <= max_tokens)
    if not len(fits):
        raise UserError(f"every text of the corpus has more than max_tokens={max_tokens} tokens")
    if len(fits) < len(corpus):
        first = int(np.flatnonzero(lengths > max_tokens)[0])
        logging.warning(
            "%d clips are left out, their texts have more than %d tokens (the first: %s with %d)",
            len(corpus) - len(fits),
            max_tokens,
            corpus.paths[first],
            lengths[first],
        )
        corpus, lengths = corpus.subset(fits), lengths[fits]
        encoded = [encoded[i] for i in fits]
    starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)])
    return corpus, Texts(np.concatenate(encoded), starts, lengths, unknown)


def _known(corpus: Corpus, encoded: list, unknown: int) -> tuple[Corpus, list, float]:
    """The corpus without the clips whose texts have characters that the vocabulary lacks, and the
    share of such tokens."""
    counts = np.array([int((ids == unknown).sum()) for ids in encoded])
    if not counts.any():
        return corpus, encoded, 0.0
    first = int(np.flatnonzero(counts)[0])
    share = counts.sum() / sum(len(ids) for ids in encoded)
    said = (
        f"{np.count_nonzero(counts)} of {len(corpus)} clips have texts with characters that "
        f"vocab.json does not have ({share:.1%} of all tokens are [UNK], the first in "
        f"{corpus.paths[first]}: {corpus.texts[first]!r})"
    )
    if counts.all() or share >= _MOST_UNKNOWN:
        raise UserError(
            f"{said}; write the texts as the model was taught to read, or name their language with "
            "--language"
        )
    logging.warning("%s; they are left out", said)
    kept = np.flatnonzero(counts == 0)
    return corpus.subset(kept), [encoded[i] for i in kept], float(share)
