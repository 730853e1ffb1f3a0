"""The GPT: GPT-2's layers over [latents; text; audio codes], with a text and an audio head.

    position   0 ... 31   32      ...       32+L+1   ...
    input      latents    start t0 t1 ... stop        start c0 c1 ... stop ...
    predicts   -          t0 t1 ... stop              c0 c1 ... stop

The HiFi-GAN does not make the waveform from the codes. It uses the hidden state at the position
that *predicts* a code; that is the code's latent.
"""

import keras
import tensorflow as tf

from myxtts.model.layers import (
    Dropout,
    attention_bias,
    mask_of,
    masked_mean,
    normal,
    salts,
)
from myxtts.xtts_v2.config import ModelArgs
from myxtts.xtts_v2.gpt_block import Block
from myxtts.xtts_v2.layers import layer_norm, linear
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import PUBLISHED_OBJECTIVE, Objective

_FIRST_SALT = 3000


class Gpt(keras.Model):
    """The published GPT: call it to train it; `start` and `next` decode, see `sampling.py`.

    With `recompute`, the tensors inside a layer are computed again in the backward pass instead of
    being kept. A step then needs far less memory and a third more time.
    """

    def __init__(
        self,
        args: ModelArgs,
        names: Names,
        *,
        start_text: int,
        stop_text: int,
        objective: Objective = PUBLISHED_OBJECTIVE,
    ):
        super().__init__(autocast=False)
        names = names.below("gpt")
        self.args, self.objective, width = args, objective, args.gpt_n_model_channels
        self.start_text, self.stop_text = start_text, stop_text
        self.start_code, self.stop_code = args.gpt_start_audio_token, args.gpt_stop_audio_token
        self.max_codes = args.gpt_max_audio_tokens - 3
        self.recompute = False
        draw = names.initializer(normal())

        def table(name, rows):
            made = self.add_weight(name=name, shape=(rows, width), initializer=draw, autocast=False)
            names.add(f"{name}.weight", made, decays=False)
            return made

        self.text_table = table("text_embedding", args.gpt_number_text_tokens)
        self.audio_table = table("mel_embedding", args.gpt_num_audio_tokens)
        self.text_places = table("text_pos_embedding.emb", args.gpt_max_text_tokens + 2)
        self.audio_places = table("mel_pos_embedding.emb", args.gpt_max_audio_tokens + 3)
        salt = salts(_FIRST_SALT)
        self.dropout = Dropout(objective.dropout, next(salt))
        self.blocks = [
            Block(names.below(f"gpt.h.{i}"), args, objective.dropout, salt)
            for i in range(args.gpt_layers)
        ]
        # Two in series; the first one is GPT-2's own.
        self.norms = [
            layer_norm(names.below("gpt.ln_f"), width),
            layer_norm(names.below("final_norm"), width),
        ]
        self.text_head = linear(
            names.below("text_head"), width, args.gpt_number_text_tokens, deviation=0.02
        )
        self.audio_head = linear(
            names.below("mel_head"), width, args.gpt_num_audio_tokens, deviation=0.02
        )
        self.built = True

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
        left_out=None,
    ) -> dict:
        """Losses of a batch: text int32 [B, L], codes int32 [B, N], lengths int32 [B].

        `left_out` int32 [B, 2] is the range of each row's codes that are not targets.
        """
        aim = self.objective
        size = tf.shape(codes)[1]
        text = _stopped(text, text_lengths, self.stop_text, 1)
        codes = _stopped(codes, code_lengths, self.stop_code, aim.stop_targets)
        text_seen = text_lengths + (2 if aim.text_stop_seen else 1)
        audio_seen = code_lengths + aim.stop_targets
        text_hidden, audio_hidden = self._read(
            latents,
            text,
            text_seen,
            codes=codes,
            audio_seen=audio_seen,
            seed=seed,
            training=training,
        )
        text_counts = mask_of(text_lengths + 1, tf.shape(text)[1] + 1)
        audio_counts = mask_of(audio_seen, tf.shape(codes)[1] + 1)
        if left_out is not None:
            place = tf.range(tf.shape(audio_counts)[1])[None]
            inside = (place >= left_out[:, :1]) & (place < left_out[:, 1:])
            audio_counts *= 1.0 - tf.cast(inside, tf.float32)
        text_logits = _wide(self.text_head(text_hidden))
        audio_logits = _wide(self.audio_head(audio_hidden))
        text_loss, _ = _loss(text_logits, text, self.stop_text, text_counts)
        audio_loss, accuracy = _loss(audio_logits, codes, self.stop_code, audio_counts)
        return {
            "text_logits": text_logits,
            "audio_logits": audio_logits,
            "latents": audio_hidden[:, :size],
            "text_loss": text_loss,
            "audio_loss": audio_loss,
            "loss": aim.text_weight * text_loss + aim.audio_weight * audio_loss,
            "audio_accuracy": accuracy,
        }

    def latents_of(self, latents, text, text_lengths, codes, code_lengths):
        """The latents of given codes, float32 [B, N, W], as synthesis passes to the HiFi-GAN."""
        text = _stopped(text, text_lengths, self.stop_text, 1)
        _, hidden = self._read(
            latents, text, text_lengths + 2, codes=codes[:, :-1], audio_seen=code_lengths
        )
        return _wide(hidden)

    def start(self, latents, text, text_lengths, capacity: int) -> tuple:
        """Reads everything before the first code: `(logits, latent [B, W], cache)`.

        The cache has room for `capacity` codes, so that all steps have the same shapes.
        """
        text = _stopped(text, text_lengths, self.stop_text, 1)
        batch = tf.shape(text)[0]
        x, there = self._inputs(latents, text, text_lengths + 2, tf.zeros([batch, 0], tf.int32))
        there = tf.concat([there, tf.ones([batch, 1])], 1)
        steps = tf.shape(x)[1]
        bias = self._bias(there)
        keys, values = [], []
        room = [[0, 0], [0, 0], [0, capacity], [0, 0]]
        for block in self.blocks:
            x, key, value = block(x, bias)
            keys.append(tf.pad(key, room))
            values.append(tf.pad(value, room))
        cache = {
            "keys": tuple(keys),
            "values": tuple(values),
            "there": tf.pad(there, [[0, 0], [0, capacity]]),
            "slot": steps,
            "place": tf.constant(1),
        }
        hidden = self._normed(x[:, -1])
        return _wide(self.audio_head(hidden)), _wide(hidden), cache

    def next(self, code, cache) -> tuple:
        """Reads one code int32 [B]: `(logits, latent [B, W], cache)` of the one after it."""
        slot = cache["slot"]
        x = tf.gather(self.audio_table, code) + tf.gather(self.audio_places, cache["place"])
        x = tf.cast(x, self.compute_dtype)[:, None]
        here = tf.range(tf.shape(cache["there"])[1]) == slot
        there = tf.where(here[None], 1.0, cache["there"])
        bias = attention_bias(there)[:, None, None, :]
        keys, values = [], []
        for block, old_keys, old_values in zip(
            self.blocks, cache["keys"], cache["values"], strict=True
        ):
            x, key, value = block.step(x, keys=old_keys, values=old_values, slot=slot, bias=bias)
            keys.append(key)
            values.append(value)
        cache = {
            "keys": tuple(keys),
            "values": tuple(values),
            "there": there,
            "slot": slot + 1,
            "place": cache["place"] + 1,
        }
        hidden = self._normed(x[:, 0])
        return _wide(self.audio_head(hidden)), _wide(hidden), cache

    def _read(self, latents, text, text_seen, *, codes, audio_seen, seed=None, training=False):
        """Hidden states at the positions of text and audio, each beginning with its start token."""
        x, there = self._inputs(latents, text, text_seen, codes)
        x = self.dropout(x, seed=seed, training=training)
        there = tf.concat([there, mask_of(audio_seen, tf.shape(codes)[1] + 1)], 1)
        bias = self._bias(there)
        for block in self.blocks:

            def read(x, block=block):
                return block(x, bias, seed=seed, training=training)[0]

            x = tf.recompute_grad(read)(x) if self.recompute and training else read(x)
        x = self._normed(x)
        first_text = tf.shape(latents)[1]
        first_audio = first_text + tf.shape(text)[1] + 1
        return x[:, first_text:first_audio], x[:, first_audio:]

    def _inputs(self, latents, text, text_seen, codes):
        """The input at every position, and a mask of the positions before the audio."""
        text = tf.pad(text, [[0, 0], [1, 0]], constant_values=self.start_text)
        codes = tf.pad(codes, [[0, 0], [1, 0]], constant_values=self.start_code)
        text_size, size = tf.shape(text)[1], tf.shape(codes)[1]
        parts = [
            latents,
            tf.gather(self.text_table, text) + self.text_places[:text_size],
            tf.gather(self.audio_table, codes) + self.audio_places[:size],
        ]
        x = tf.concat([tf.cast(part, self.compute_dtype) for part in parts], 1)
        there = tf.concat([tf.ones(tf.shape(latents)[:2]), mask_of(text_seen, text_size)], 1)
        return x, there

    def _bias(self, there):
        size = tf.shape(there)[1]
        causal = tf.linalg.band_part(tf.ones([size, size]), -1, 0)
        return attention_bias(causal[None] * there[:, None])[:, None]

    def _normed(self, x):
        return self.norms[1](self.norms[0](x))


def _stopped(ids, lengths, stop: int, more: int):
    """`ids` with `more` places added, and `stop` at every place beyond its row's length."""
    ids = tf.pad(ids, [[0, 0], [0, more]])
    return tf.where(tf.range(tf.shape(ids)[1])[None] < lengths[:, None], ids, stop)


def _loss(logits, ids, stop, counts):
    """The mean cross entropy, and the accuracy, of predicting the next id at each place."""
    targets = tf.pad(ids, [[0, 0], [0, 1]], constant_values=stop)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    right = tf.cast(tf.argmax(logits, -1, tf.int32) == targets, tf.float32)
    return masked_mean(losses, counts), masked_mean(right, counts)


def _wide(x):
    return tf.cast(x, tf.float32)
