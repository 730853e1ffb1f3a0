"""The GPT: a causal decoder over [latents; text; audio codes] with a text and an audio head.

    position   0 ... 31   32      ...      32+L+1   ...
    input      latents    start t0 t1 ... stop pad  start c0 c1 ... pad
    predicts   -          t0 t1 ... stop             c0 c1 ... stop

Padding is masked out, so a row's outputs do not depend on the other rows of its batch.
"""

import keras
import numpy as np
import tensorflow as tf

from myxtts.model.config import GptConfig
from myxtts.model.decoder import Block
from myxtts.model.layers import (
    Dropout,
    Norm,
    attention_bias,
    dense,
    mask_of,
    masked_mean,
    normal,
    salted,
    salts,
    sinusoids,
    turns,
)
from myxtts.text.vocabulary import Vocabulary

# Sizes of the rows that `start_from` makes: of what codes are read as, and of the head.
_READ, _TOLD = 0.3, 0.03


class Gpt(keras.Model):
    """The GPT. Call it to train; `start` and `next` decode, see `sampling.generate`."""

    def __init__(self, config: GptConfig, text_tokens: int, max_text_tokens: int, audio_codes: int):
        super().__init__(autocast=False)
        self.config, self.audio_codes, self.max_text_tokens = config, audio_codes, max_text_tokens
        self.text_tokens = text_tokens
        self.stop_code, self.start_code = audio_codes, audio_codes + 1
        width = config.width
        salt = salts(1)

        def table(name, rows, initial):
            return self.add_weight(
                name=name, shape=(rows, width), initializer=initial, autocast=False
            )

        def places(shape, dtype=None):
            return tf.constant(0.02**0.5 * sinusoids(*shape), dtype)

        self.text_table = table("text_table", text_tokens, normal())
        self.audio_table = table("audio_table", audio_codes + 2, normal())
        self.text_places = table("text_places", max_text_tokens + 2, places)
        self.audio_places = table("audio_places", config.max_audio_tokens + 1, places)
        if config.tokens_per_code:
            # Only a start: the pace of speech through its text is learnt.
            start = keras.initializers.Constant(config.tokens_per_code)
            self.tokens_per_code = self.add_weight(
                name="tokens_per_code", shape=(), initializer=start, autocast=False
            )
        self.dropout = Dropout(config.dropout, next(salt))
        self.blocks = [Block(config, salt) for _ in range(config.layers)]
        self.norm = Norm(width)
        self.text_head = dense(width, text_tokens, deviation=0.02)
        self.audio_head = dense(width, audio_codes + 1, deviation=0.02)
        self.built = True

    def start_from(self, vectors: np.ndarray) -> None:
        """Before training: codes that sound alike begin with like rows, and are foretold together.
        `vectors [codes, size]` are the tokenizer's."""
        chance, size = np.random.default_rng(0), vectors.shape[1]
        vectors = (vectors - vectors.mean(0)) / max(vectors.std(), 1e-6) / size**0.5
        read, told = (vectors @ chance.standard_normal([size, self.config.width]) for _ in range(2))
        table, kernel = (v.numpy() for v in (self.audio_table, self.audio_head.kernel))
        table[: self.audio_codes] = _READ / self.config.table_scale * read
        kernel[:, : self.audio_codes] = _TOLD * told.T
        self.audio_table.assign(table)
        self.audio_head.kernel.assign(kernel)

    def call(
        self,
        latents,
        text,
        text_lengths,
        codes,
        code_lengths,
        *,
        seed=None,
        training=False,
        return_attention=False,
    ) -> dict:
        """Losses and outputs of a batch with given codes.

        `audio_logits [B, N + 1, codes + 1]`: what follows the start and every code; `hidden
        [B, N, W]`: the last layer at every code; `attention [B, N + 1, L + 2]` of audio over
        text, the mean over layers and heads, when asked for.
        """
        prefix, there = self._prefix(latents, text, text_lengths)
        audio = self._audio_inputs(codes, seed, training)
        audio_there = mask_of(code_lengths + 1, tf.shape(audio)[1])
        x = self.dropout(tf.concat([prefix, audio], 1), seed=seed, training=training)
        first_text, first_audio = tf.shape(latents)[1], tf.shape(prefix)[1]
        bias = self._bias(tf.concat([there, audio_there], 1), first_audio)
        by = self._turns(first_text, first_audio, tf.shape(x)[1])
        maps = []
        for block in self.blocks:
            x, weights, _ = block(x, bias, by, seed=seed, training=training)
            maps.append(weights)
            # The first block is enough to learn `tokens_per_code` by.
            by = by and tuple(tf.stop_gradient(part) for part in by)
        x = self.norm(x)
        text_logits = _wide(self.text_head(x[:, first_text : first_audio - 1]))
        audio_hidden = x[:, first_audio:]
        audio_logits = _wide(self.audio_head(audio_hidden))
        text_loss = self._text_loss(text_logits, text, text_lengths)
        audio_loss, accuracy = self._audio_loss(audio_logits, codes, code_lengths, audio_there)
        outputs = {
            "text_logits": text_logits,
            "audio_logits": audio_logits,
            "hidden": audio_hidden[:, 1:],
            "text_loss": text_loss,
            "audio_loss": audio_loss,
            "loss": self.config.text_weight * text_loss + self.config.audio_weight * audio_loss,
            "audio_accuracy": accuracy,
        }
        if return_attention:
            mean = tf.add_n([tf.reduce_mean(weights, 1) for weights in maps]) / len(maps)
            outputs["attention"] = mean[:, first_audio:, first_text:first_audio]
        return outputs

    def start(self, latents, text, text_lengths, capacity=None) -> tuple[tf.Tensor, dict]:
        """Reads everything before the first code. Returns `(logits [B, codes + 1], cache)`.

        The cache has room for `capacity` codes (by default the model's limit), so that every later
        step has the same shapes and the same cost.
        """
        capacity = self.config.max_audio_tokens if capacity is None else capacity
        prefix, there = self._prefix(latents, text, text_lengths)
        batch = tf.shape(prefix)[0]
        x = tf.concat([prefix, self._audio_row(tf.fill([batch], self.start_code), 0)[:, None]], 1)
        there = tf.concat([there, tf.ones([batch, 1])], 1)
        steps = tf.shape(x)[1]
        bias = self._bias(there, steps - 1)
        by = self._turns(tf.shape(latents)[1], steps - 1, steps)
        keys, values = [], []
        room = [[0, 0], [0, 0], [0, capacity], [0, 0]]
        for block in self.blocks:
            x, _, (key, value) = block(x, bias, by)
            keys.append(tf.pad(key, room))
            values.append(tf.pad(value, room))
        cache = {
            "keys": tuple(keys),
            "values": tuple(values),
            "bias": attention_bias(tf.pad(there, [[0, 0], [0, capacity]])),
            "slot": steps,
            "place": tf.constant(1),
        }
        return _wide(self.audio_head(self.norm(x[:, -1]))), cache

    def next(self, code, cache) -> tuple[tf.Tensor, tf.Tensor, dict]:
        """Reads one code int32 [B]. Returns `(logits [B, codes + 1], hidden [B, W], cache)`."""
        slot = cache["slot"]
        x = self._audio_row(code, cache["place"])[:, None]
        bias = _with_row(cache["bias"], slot, tf.zeros(tf.shape(code)))
        by = self._turns(0, 0, 1, cache["place"])
        keys, values = [], []
        for block, old_keys, old_values in zip(
            self.blocks, cache["keys"], cache["values"], strict=True
        ):
            x, key, value = block.step(
                x,
                keys=old_keys,
                values=old_values,
                slot=slot,
                bias=bias[:, None, None, :],
                by=by,
            )
            keys.append(key)
            values.append(value)
        hidden = self.norm(x[:, 0])
        cache = {
            "keys": tuple(keys),
            "values": tuple(values),
            "bias": bias,
            "slot": slot + 1,
            "place": cache["place"] + 1,
        }
        return _wide(self.audio_head(hidden)), hidden, cache

    def _bias(self, there, first_audio):
        """The bias [B, 1, S, S] that says which position attends to which."""
        seen = _causal(tf.shape(there)[1])
        if self.config.text_sees_all:
            before_audio = tf.cast(tf.range(tf.shape(there)[1]) < first_audio, tf.float32)
            seen = tf.maximum(seen, before_audio[:, None] * before_audio)
        return attention_bias(seen[None] * there[:, None])[:, None]

    def _turns(self, first_text, first_audio, steps, first_code=0):
        """Rotary positions: latents at 0; text tokens and codes each count from 0, codes in units
        of tokens, so that a code is near the token that it probably speaks."""
        if not self.config.tokens_per_code:
            return None
        text = tf.range(first_audio - first_text)
        codes = tf.cast(tf.range(steps - first_audio) + first_code, tf.float32)
        places = [tf.zeros([first_text]), tf.cast(text, tf.float32), codes * self.tokens_per_code]
        return turns(tf.concat(places, 0), self.config.width // self.config.heads)

    def _prefix(self, latents, text, text_lengths):
        """Inputs for latents and text, and a mask of those that are not padding."""
        dtype = self.compute_dtype
        size = tf.shape(text)[1]
        ids = self._text_ids(text, text_lengths)
        x = self._rows(self.text_table, ids) + self.text_places[: size + 2]
        prefix = tf.concat([tf.cast(latents, dtype), tf.cast(x, dtype)], 1)
        there = tf.concat([tf.ones(tf.shape(latents)[:2]), mask_of(text_lengths + 2, size + 2)], 1)
        return prefix, there

    def _text_ids(self, text, text_lengths):
        """[start, text, stop, padding] of L + 2 places."""
        ids = tf.pad(text, [[0, 0], [1, 1]])
        place = tf.range(tf.shape(ids)[1])[None]
        ids = tf.where(place == 0, Vocabulary.start, ids)
        return tf.where(place == text_lengths[:, None] + 1, Vocabulary.stop, ids)

    def _audio_inputs(self, codes, seed, training):
        if training and self.config.code_noise:
            codes = self._noisy(codes, seed)
        inputs = tf.pad(codes, [[0, 0], [1, 0]], constant_values=self.start_code)
        x = self._rows(self.audio_table, inputs) + self.audio_places[: tf.shape(inputs)[1]]
        return tf.cast(x, self.compute_dtype)

    def _noisy(self, codes, seed):
        """Replaces some codes, so that the network learns to recover from mistakes as it will make
        them itself."""
        shape = tf.shape(codes)
        which = tf.random.stateless_uniform(shape, salted(seed, 501)) < self.config.code_noise
        other = tf.random.stateless_uniform(shape, salted(seed, 502)) * self.audio_codes
        return tf.where(which, tf.cast(other, tf.int32), codes)

    def _rows(self, table, ids):
        return self.config.table_scale * tf.gather(table, ids)

    def _audio_row(self, code, place):
        x = self._rows(self.audio_table, code) + tf.gather(self.audio_places, place)
        return tf.cast(x, self.compute_dtype)

    def _text_loss(self, logits, text, text_lengths):
        targets = self._text_ids(text, text_lengths)[:, 1:]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return masked_mean(losses, mask_of(text_lengths + 1, tf.shape(targets)[1]))

    def _audio_loss(self, logits, codes, code_lengths, there):
        targets = tf.pad(codes, [[0, 0], [0, 1]])
        place = tf.range(tf.shape(targets)[1])[None]
        targets = tf.where(place == code_lengths[:, None], self.stop_code, targets)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        right = tf.cast(tf.argmax(logits, -1, tf.int32) == targets, tf.float32)
        return masked_mean(losses, there), masked_mean(right, there)


def _causal(steps):
    return tf.linalg.band_part(tf.ones([steps, steps]), -1, 0)


def _wide(x):
    return tf.cast(x, tf.float32)


def _with_row(table, slot, column):
    """[B, K] with `column` [B] at place `slot`."""
    return tf.where(tf.range(tf.shape(table)[1])[None] == slot, column[:, None], table)
