"""A vocabulary as TensorFlow ops, for models that are loaded without this package."""

import tensorflow as tf

from myxtts.text.vocabulary import Vocabulary

_NO_MERGE = 2**31 - 1


class GraphTokens(tf.Module):
    """`tokens(text, language) -> int32 [L]`, as `Vocabulary.encode_written` with the language's
    tag before it. Strings are scalars; the language is one of the vocabulary's.

    Of a vocabulary of phonemes `text` is phonemes. A character that is none of them is refused:
    letters, as bytes, would be said as noise."""

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        self._first_byte = vocabulary.byte_ids.start
        id_of = vocabulary.id_of
        self._size = len(vocabulary)
        self._tags = _table(
            vocabulary.languages, map(vocabulary.language_tag, vocabulary.languages), tf.int32
        )
        self._characters = _table(
            vocabulary.characters, map(id_of, vocabulary.characters), tf.int32
        )
        self._characters_known = tuple(vocabulary.characters)
        merges = vocabulary.merges
        # Pairs of ids as one number; the first of equal pairs comes first in rank as well.
        pairs = [id_of(left) * self._size + id_of(right) for left, right in merges]
        self._ranks = _table(
            tf.constant(pairs or [-1], tf.int64), range(max(1, len(pairs))), tf.int32, _NO_MERGE
        )
        self._merged = tf.constant([id_of(a + b) for a, b in merges] or [0], tf.int32)
        self._has_merges = bool(merges)
        self._phonemes = vocabulary.phonemes

    def __call__(self, text: tf.Tensor, language: tf.Tensor) -> tf.Tensor:
        tag = self._tags.lookup(language)
        known = tf.debugging.Assert(tag >= 0, ["the voice has no language", language])
        with tf.control_dependencies([known]):
            ids = self._single(text)
        if self._has_merges:
            (ids,) = tf.while_loop(
                lambda ids: tf.reduce_any(self._ranks_of(ids) < _NO_MERGE),
                self._merge_one,
                (ids,),
                shape_invariants=(tf.TensorShape([None]),),
            )
        return tf.concat([tag[None], ids], 0)

    def _single(self, text):
        """Ids of the characters; a character that was never seen becomes the ids of its bytes."""
        characters = tf.strings.unicode_split(text, "UTF-8")
        ids = self._characters.lookup(characters)
        if self._phonemes:
            strange = tf.unique(tf.boolean_mask(characters, ids < 0)).y
            refusal = [
                "the voice has no phonemes",
                tf.strings.reduce_join(strange, separator=" "),
                "; it takes what espeak-ng --ipa writes, not letters. It has",
                "".join(sorted(self._characters_known)),
            ]
            known = tf.debugging.Assert(tf.equal(tf.size(strange), 0), refusal)
            with tf.control_dependencies([known]):
                ids = tf.identity(ids)
        pieces = tf.strings.bytes_split(characters)
        row = pieces.value_rowids()
        byte = tf.cast(tf.io.decode_raw(pieces.flat_values, tf.uint8), tf.int32)
        byte = tf.reshape(byte, [-1])
        seen = tf.gather(ids, row)
        first = tf.concat([[True], row[1:] != row[:-1]], 0)[: tf.shape(row)[0]]
        return tf.boolean_mask(
            tf.where(seen >= 0, seen, self._first_byte + byte), (seen < 0) | first
        )

    def _ranks_of(self, ids):
        pairs = tf.cast(ids[:-1], tf.int64) * self._size + tf.cast(ids[1:], tf.int64)
        return self._ranks.lookup(pairs)

    def _merge_one(self, ids):
        ranks = self._ranks_of(ids)
        place = tf.argmin(ranks, output_type=tf.int32)
        merged = tf.gather(self._merged, ranks[place])
        return (tf.concat([ids[:place], merged[None], ids[place + 2 :]], 0),)


def _table(keys, values, dtype, default=-1) -> tf.lookup.StaticHashTable:
    keys = keys if tf.is_tensor(keys) else tf.constant(list(keys) or [""], tf.string)
    values = list(values) or [default]
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values, dtype)), default
    )
