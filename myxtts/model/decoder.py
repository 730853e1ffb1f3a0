"""What our GPT and the published one share: their blocks, their inputs, and decoding with a cache.

Each makes its own layers, because names, order and number of weights are those of its checkpoints.
"""

import keras
import tensorflow as tf

from myxtts.model.layers import (
    attend,
    attention_bias,
    join_heads,
    mask_of,
    masked_mean,
    split_heads,
    turned,
)


class DecoderBlock(keras.layers.Layer):
    """Self-attention and feed-forward, normalised before each; over a whole sequence, or for one
    step with a key/value cache.

    A subclass has the number of `heads` and the layers `before_attention`, `qkv`, `out`,
    `before_forward`, `forward`, `drop_attention` and `drop_forward`; with `drop_weights`, weights
    of the attention are dropped too.
    """

    drop_weights = None

    def _projected(self, x, by):
        query, keys, values = (
            split_heads(part, self.heads)
            for part in tf.split(self.qkv(self.before_attention(x)), 3, -1)
        )
        return turned(query, by), turned(keys, by), values

    def call(self, x, bias, by=None, *, seed=None, training=False):
        """`(x, attention weights, (keys, values))`; `by` are rotary positions, see `turns`."""
        query, keys, values = self._projected(x, by)
        drop = None
        if self.drop_weights is not None:

            def drop(weights):
                return self.drop_weights(weights, seed=seed, training=training)

        mixed, weights = attend(query, keys, values, bias, drop=drop)
        x += self.drop_attention(self.out(join_heads(mixed)), seed=seed, training=training)
        forward = self.forward(self.before_forward(x))
        return x + self.drop_forward(forward, seed=seed, training=training), weights, (keys, values)

    def step(self, x, *, keys, values, slot, bias, by):
        query, key, value = self._projected(x, by)
        keys, values = with_slot(keys, slot, key), with_slot(values, slot, value)
        mixed, _ = attend(query, keys, values, bias)
        x += self.out(join_heads(mixed))
        return x + self.forward(self.before_forward(x)), keys, values


class Decoder(keras.Model):
    """A GPT over [latents; text; audio codes]; `start` and `next` decode.

    A subclass has `text_table`, `audio_table`, `text_places`, `audio_places`, `blocks`,
    `audio_head`, `start_code` and `max_codes`, and declares `_text_ids` and `_normed`.
    """

    def _text_ids(self, text, text_lengths):
        """The ids that stand for a text: [start, text, stop, padding] of L + 2 places."""
        raise NotImplementedError(f"{type(self).__name__} declares no _text_ids")

    def _normed(self, x):
        """The hidden state, from what the last block gives."""
        raise NotImplementedError(f"{type(self).__name__} declares no _normed")

    def _rows(self, table, ids):
        """The vectors of tokens or codes."""
        return tf.gather(table, ids)

    def _seen(self, steps, first_audio):
        """float32 [steps, steps]: which position (row) sees which, padding aside."""
        return tf.linalg.band_part(tf.ones([steps, steps]), -1, 0)

    def _turns(self, first_text, first_audio, steps, first_code=0):
        """Rotary positions, if there are any."""
        return None

    def start(self, latents, text, text_lengths, capacity=None) -> tuple:
        """Reads everything before the first code: `(logits [B, ids], hidden [B, W], cache)`.

        The cache has room for `capacity` codes (by default the model's limit), so that every later
        step has the same shapes and the same cost.
        """
        capacity = self.max_codes if capacity is None else capacity
        ids, ones = self._text_ids(text, text_lengths), tf.ones_like(text_lengths)
        none = tf.zeros([tf.shape(ids)[0], 0], tf.int32)
        x, there = self._inputs(latents, ids, text_lengths + 2, codes=none, audio_seen=ones)
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
        hidden = self._normed(x[:, -1])
        return wide(self.audio_head(hidden)), hidden, cache

    def next(self, code, cache) -> tuple:
        """Reads one code int32 [B] of every row: `(logits, hidden, cache)` at its place."""
        slot, place = cache["slot"], cache["place"]
        x = self._rows(self.audio_table, code) + tf.gather(self.audio_places, place)
        x = tf.cast(x, self.compute_dtype)[:, None]
        here = tf.range(tf.shape(cache["bias"])[1])[None] == slot
        bias = tf.where(here, 0.0, cache["bias"])
        by = self._turns(0, 0, 1, place)
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
        hidden = self._normed(x[:, 0])
        cache = {
            "keys": tuple(keys),
            "values": tuple(values),
            "bias": bias,
            "slot": slot + 1,
            "place": place + 1,
        }
        return wide(self.audio_head(hidden)), hidden, cache

    def _inputs(self, latents, ids, text_seen, *, codes, audio_seen):
        """The input at every position, and a mask of those that count: `text_seen` of the ids of a
        text, `audio_seen` of the start and its codes."""
        codes = tf.pad(codes, [[0, 0], [1, 0]], constant_values=self.start_code)
        text_size, size = tf.shape(ids)[1], tf.shape(codes)[1]
        parts = [
            latents,
            self._rows(self.text_table, ids) + self.text_places[:text_size],
            self._rows(self.audio_table, codes) + self.audio_places[:size],
        ]
        x = tf.concat([tf.cast(part, self.compute_dtype) for part in parts], 1)
        there = [
            tf.ones(tf.shape(latents)[:2]),
            mask_of(text_seen, text_size),
            mask_of(audio_seen, size),
        ]
        return x, tf.concat(there, 1)

    def _bias(self, there, first_audio):
        """The bias [B, 1, S, S] that says which position attends to which."""
        seen = self._seen(tf.shape(there)[1], first_audio)
        return attention_bias(seen[None] * there[:, None])[:, None]


def losses_of(logits, targets, counts) -> tuple[tf.Tensor, tf.Tensor]:
    """The mean cross entropy and the accuracy, at the places where `counts` is 1."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    right = tf.cast(tf.argmax(logits, -1, tf.int32) == targets, tf.float32)
    return masked_mean(losses, counts), masked_mean(right, counts)


def wide(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32)


def with_slot(cached, slot, new):
    """[B, heads, K, D] with `new` [B, heads, 1, D] at place `slot`. Inside a loop TensorFlow
    writes in place, so a larger cache costs no more."""
    rows = tf.shape(new)[0] * tf.shape(new)[1]
    capacity, size = tf.shape(cached)[2], new.shape[3]
    flat = tf.tensor_scatter_nd_update(
        tf.reshape(cached, [-1, size]),
        (tf.range(rows) * capacity + slot)[:, None],
        tf.reshape(new, [rows, size]),
    )
    return tf.reshape(flat, tf.shape(cached))
