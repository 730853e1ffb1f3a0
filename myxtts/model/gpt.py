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
from myxtts.model.decoder import Decoder, DecoderBlock, losses_of, wide
from myxtts.model.layers import (
    Dropout,
    Norm,
    dense,
    feed_forward,
    mask_of,
    normal,
    salted,
    salts,
    sinusoids,
    turns,
)
from myxtts.text.vocabulary import Vocabulary

# Sizes of the rows that `start_from` makes: of what codes are read as, and of the head.
_READ, _TOLD = 0.3, 0.03


class Block(DecoderBlock):
    """Without biases, and with a squared ReLU."""

    def __init__(self, config: GptConfig, salt):
        super().__init__(autocast=False)
        width = config.width
        self.heads = config.heads
        # Scaled as in GPT-2, so that the sum over all blocks is as large as the output of one.
        out = 0.02 * (2 * config.layers) ** -0.5
        self.before_attention, self.before_forward = Norm(width), Norm(width)
        self.qkv = dense(width, 3 * width, deviation=width**-0.5, bias=False)
        self.out = dense(width, width, deviation=out, bias=False)
        self.forward = feed_forward(width, out_deviation=out)
        self.drop_attention = Dropout(config.dropout, next(salt))
        self.drop_forward = Dropout(config.dropout, next(salt))
        self.built = True


class Gpt(Decoder):
    """The GPT. Call it to train; `start` and `next` decode, see `sampling.generate`."""

    def __init__(self, config: GptConfig, text_tokens: int, max_text_tokens: int, audio_codes: int):
        super().__init__(autocast=False)
        self.config, self.audio_codes, self.max_text_tokens = config, audio_codes, max_text_tokens
        self.text_tokens = text_tokens
        self.stop_code, self.start_code = audio_codes, audio_codes + 1
        self.max_codes = config.max_audio_tokens
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
        heard = self._noisy(codes, seed) if training and self.config.code_noise else codes
        ids = self._text_ids(text, text_lengths)
        x, there = self._inputs(
            latents, ids, text_lengths + 2, codes=heard, audio_seen=code_lengths + 1
        )
        x = self.dropout(x, seed=seed, training=training)
        first_text = tf.shape(latents)[1]
        first_audio = first_text + tf.shape(ids)[1]
        bias = self._bias(there, first_audio)
        by = self._turns(first_text, first_audio, tf.shape(x)[1])
        maps = []
        for block in self.blocks:
            x, weights, _ = block(x, bias, by, seed=seed, training=training)
            maps.append(weights)
            # The first block is enough to learn `tokens_per_code` by.
            by = by and tuple(tf.stop_gradient(part) for part in by)
        x = self.norm(x)
        text_logits = wide(self.text_head(x[:, first_text : first_audio - 1]))
        audio_hidden = x[:, first_audio:]
        audio_logits = wide(self.audio_head(audio_hidden))
        text_there = mask_of(text_lengths + 1, tf.shape(text)[1] + 1)
        text_loss, _ = losses_of(text_logits, ids[:, 1:], text_there)
        targets = tf.pad(codes, [[0, 0], [0, 1]])
        place = tf.range(tf.shape(targets)[1])[None]
        targets = tf.where(place == code_lengths[:, None], self.stop_code, targets)
        audio_loss, accuracy = losses_of(audio_logits, targets, there[:, first_audio:])
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

    def _seen(self, steps, first_audio):
        seen = super()._seen(steps, first_audio)
        if self.config.text_sees_all:
            before_audio = tf.cast(tf.range(steps) < first_audio, tf.float32)
            seen = tf.maximum(seen, before_audio[:, None] * before_audio)
        return seen

    def _turns(self, first_text, first_audio, steps, first_code=0):
        """Rotary positions: latents at 0; text tokens and codes each count from 0, codes in units
        of tokens, so that a code is near the token that it probably speaks."""
        if not self.config.tokens_per_code:
            return None
        text = tf.range(first_audio - first_text)
        codes = tf.cast(tf.range(steps - first_audio) + first_code, tf.float32)
        places = [tf.zeros([first_text]), tf.cast(text, tf.float32), codes * self.tokens_per_code]
        return turns(tf.concat(places, 0), self.config.width // self.config.heads)

    def _text_ids(self, text, text_lengths):
        ids = tf.pad(text, [[0, 0], [1, 1]])
        place = tf.range(tf.shape(ids)[1])[None]
        ids = tf.where(place == 0, Vocabulary.start, ids)
        return tf.where(place == text_lengths[:, None] + 1, Vocabulary.stop, ids)

    def _noisy(self, codes, seed):
        """Replaces some codes, so that the network learns to recover from mistakes as it will make
        them itself."""
        shape = tf.shape(codes)
        which = tf.random.stateless_uniform(shape, salted(seed, 501)) < self.config.code_noise
        other = tf.random.stateless_uniform(shape, salted(seed, 502)) * self.audio_codes
        return tf.where(which, tf.cast(other, tf.int32), codes)

    def _rows(self, table, ids):
        return self.config.table_scale * super()._rows(table, ids)

    def _normed(self, x):
        return self.norm(x)
