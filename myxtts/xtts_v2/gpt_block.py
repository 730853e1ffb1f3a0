"""GPT-2's layer, over a whole sequence or one step at a time with a key/value cache."""

import keras
import tensorflow as tf

from myxtts.model.decoder import with_slot
from myxtts.model.layers import Dropout, attend, join_heads, split_heads
from myxtts.xtts_v2.config import ModelArgs
from myxtts.xtts_v2.layers import gpt2_linear, layer_norm
from myxtts.xtts_v2.names import Names


class Block(keras.layers.Layer):
    """Self-attention, then feed-forward, each with biases and a norm before it."""

    def __init__(self, names: Names, args: ModelArgs, dropout: float, salt):
        super().__init__(autocast=False)
        width, self.heads = args.gpt_n_model_channels, args.gpt_n_heads
        out = 0.02 * (2 * args.gpt_layers) ** -0.5
        self.before_attention = layer_norm(names.below("ln_1"), width)
        self.qkv = gpt2_linear(names.below("attn.c_attn"), width, 3 * width)
        self.out = gpt2_linear(names.below("attn.c_proj"), width, width, deviation=out)
        self.before_forward = layer_norm(names.below("ln_2"), width)
        self.wide = gpt2_linear(names.below("mlp.c_fc"), width, 4 * width)
        self.narrow = gpt2_linear(names.below("mlp.c_proj"), 4 * width, width, deviation=out)
        self.drop_weights = Dropout(dropout, next(salt))
        self.drop_attention = Dropout(dropout, next(salt))
        self.drop_forward = Dropout(dropout, next(salt))
        self.built = True

    def call(self, x, bias, seed=None, training=False):
        query, keys, values = self._projected(x)

        def drop(weights):
            return self.drop_weights(weights, seed=seed, training=training)

        mixed, _ = attend(query, keys=keys, values=values, bias=bias, drop=drop)
        x += self.drop_attention(self.out(join_heads(mixed)), seed=seed, training=training)
        x += self.drop_forward(self._forward(x), seed=seed, training=training)
        return x, keys, values

    def step(self, x, *, keys, values, slot, bias):
        query, key, value = self._projected(x)
        keys, values = with_slot(keys, slot, key), with_slot(values, slot, value)
        mixed, _ = attend(query, keys, values, bias)
        x += self.out(join_heads(mixed))
        return x + self._forward(x), keys, values

    def _projected(self, x):
        parts = tf.split(self.qkv(self.before_attention(x)), 3, -1)
        return [split_heads(part, self.heads) for part in parts]

    def _forward(self, x):
        wide = self.wide(self.before_forward(x))
        return self.narrow(tf.nn.gelu(wide, approximate=True))
