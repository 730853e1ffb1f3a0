"""The GPT: GPT-2's layers over [latents; text; audio codes], with a text and an audio head.

    position   0 ... 31   32      ...       32+L+1   ...
    input      latents    start t0 t1 ... stop        start c0 c1 ... stop ...
    predicts   -          t0 t1 ... stop              c0 c1 ... stop

The HiFi-GAN does not make the waveform from the codes. It uses the hidden state at the position
that *predicts* a code; that is the code's latent.
"""

import tensorflow as tf

from myxtts.model.decoder import Decoder, DecoderBlock, losses_of, wide
from myxtts.model.layers import Dropout, FeedForward, mask_of, normal, salts
from myxtts.xtts_v2.config import ModelArgs
from myxtts.xtts_v2.layers import gpt2_linear, layer_norm, linear
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import PUBLISHED_OBJECTIVE, Objective

_FIRST_SALT = 3000


class Block(DecoderBlock):
    """GPT-2's layer: with biases, and a GELU."""

    def __init__(self, names: Names, args: ModelArgs, dropout: float, salt):
        super().__init__(autocast=False)
        width, self.heads = args.gpt_n_model_channels, args.gpt_n_heads
        out = 0.02 * (2 * args.gpt_layers) ** -0.5
        self.before_attention = layer_norm(names.below("ln_1"), width)
        self.qkv = gpt2_linear(names.below("attn.c_attn"), width, 3 * width)
        self.out = gpt2_linear(names.below("attn.c_proj"), width, width, deviation=out)
        self.before_forward = layer_norm(names.below("ln_2"), width)
        self.forward = FeedForward(
            gpt2_linear(names.below("mlp.c_fc"), width, 4 * width),
            gpt2_linear(names.below("mlp.c_proj"), 4 * width, width, deviation=out),
            activation=_gelu,
        )
        self.drop_weights = Dropout(dropout, next(salt))
        self.drop_attention = Dropout(dropout, next(salt))
        self.drop_forward = Dropout(dropout, next(salt))
        self.built = True


class Gpt(Decoder):
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
        ids = self._text_ids(text, text_lengths)
        codes = _stopped(codes, code_lengths, self.stop_code, aim.stop_targets)
        audio_seen = code_lengths + aim.stop_targets
        text_hidden, audio_hidden = self._read(
            latents,
            ids,
            text_lengths + (2 if aim.text_stop_seen else 1),
            codes=codes,
            audio_seen=audio_seen,
            seed=seed,
            training=training,
        )
        text_counts = mask_of(text_lengths + 1, tf.shape(ids)[1])
        audio_counts = mask_of(audio_seen, tf.shape(codes)[1] + 1)
        if left_out is not None:
            place = tf.range(tf.shape(audio_counts)[1])[None]
            inside = (place >= left_out[:, :1]) & (place < left_out[:, 1:])
            audio_counts *= 1.0 - tf.cast(inside, tf.float32)
        text_logits = wide(self.text_head(text_hidden))
        audio_logits = wide(self.audio_head(audio_hidden))
        text_loss, _ = losses_of(text_logits, _next(ids[:, 1:], self.stop_text), text_counts)
        targets = _next(codes, self.stop_code)
        audio_loss, accuracy = losses_of(audio_logits, targets, audio_counts)
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
        ids = self._text_ids(text, text_lengths)
        _, hidden = self._read(
            latents, ids, text_lengths + 2, codes=codes[:, :-1], audio_seen=code_lengths
        )
        return wide(hidden)

    def _text_ids(self, text, text_lengths):
        text = _stopped(text, text_lengths, self.stop_text, 1)
        return tf.pad(text, [[0, 0], [1, 0]], constant_values=self.start_text)

    def _read(self, latents, ids, text_seen, *, codes, audio_seen, seed=None, training=False):
        """Hidden states at the positions of text and audio, each beginning with its start token."""
        x, there = self._inputs(latents, ids, text_seen, codes=codes, audio_seen=audio_seen)
        x = self.dropout(x, seed=seed, training=training)
        first_text = tf.shape(latents)[1]
        first_audio = first_text + tf.shape(ids)[1]
        bias = self._bias(there, first_audio)
        for block in self.blocks:

            def read(x, block=block):
                return block(x, bias, seed=seed, training=training)[0]

            x = tf.recompute_grad(read)(x) if self.recompute and training else read(x)
        x = self._normed(x)
        return x[:, first_text:first_audio], x[:, first_audio:]

    def _normed(self, x):
        return self.norms[1](self.norms[0](x))


def _gelu(x):
    return tf.nn.gelu(x, approximate=True)


def _stopped(ids, lengths, stop: int, more: int):
    """`ids` with `more` places added, and `stop` at every place beyond its row's length."""
    ids = tf.pad(ids, [[0, 0], [0, more]])
    return tf.where(tf.range(tf.shape(ids)[1])[None] < lengths[:, None], ids, stop)


def _next(ids, stop: int):
    """What the start and each of the ids must predict."""
    return tf.pad(ids, [[0, 0], [0, 1]], constant_values=stop)
