"""The audio tokenizer: a VQ-VAE whose codes stand for `stride` mel frames each."""

import math

import keras
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.model.codebook import AveragingCodebook
from myxtts.model.config import TokenizerConfig
from myxtts.model.layers import log_mel_of, mask_of, masked_mean, normal, normalised


class AudioTokenizer(keras.Model):
    """The VQ-VAE: mels to codes and back.

        codes, code_lengths = tokenizer.encode(mel, mel_lengths)
        mel = tokenizer.decode(codes, code_lengths)

    Calling it gives the reconstruction and the losses to train with.  In training the codebook
    follows the encoder's vectors by moving averages, and a code that was not used for
    `revive_after` steps is moved to one of the batch's vectors, drawn by `seed`.  Padding changes
    neither codes, nor mels, nor losses.
    """

    def __init__(self, config: TokenizerConfig, audio: AudioConfig):
        super().__init__(autocast=False)
        self.config, self.audio = config, audio
        width, halvings = config.width, int(math.log2(config.stride))
        self.mel_in = Conv(audio.n_mels, width)
        self.down = [Conv(width, width, 4, stride=2) for _ in range(halvings)]
        self.encoder_blocks = [Residual(width) for _ in range(config.residual_blocks)]
        self.code_in = Conv(width, config.code_size, 1)
        self.code_out = Conv(config.code_size, width)
        self.decoder_blocks = [Residual(width) for _ in range(config.residual_blocks)]
        self.up = [Conv(width, 2 * width) for _ in range(halvings)]
        self.mel_out = Conv(width, audio.n_mels)
        self.codebook = Codebook(config)
        self.built = True

    def encode(self, mel: tf.Tensor, mel_lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`(codes int32 [B, ceil(M / stride)], code_lengths int32 [B])`; 0 beyond a length."""
        vectors, code_lengths = self._vectors(mel, mel_lengths)
        codes = self.codebook.nearest(vectors)
        return codes * tf.cast(mask_of(code_lengths, tf.shape(codes)[1]), tf.int32), code_lengths

    def decode(self, codes: tf.Tensor, code_lengths: tf.Tensor) -> tf.Tensor:
        """The log-mel float32 [B, N * stride, mels]; the floor beyond a length."""
        lengths = code_lengths * self.config.stride
        mel = log_mel_of(self._decoded(self.codebook.vectors_of(codes), code_lengths))
        floor = math.log(self.audio.log_floor)
        there = mask_of(lengths, tf.shape(mel)[1])[:, :, None]
        return tf.maximum(mel, floor) * there + floor * (1.0 - there)

    def call(self, mel, mel_lengths, seed=None, training=False) -> dict:
        vectors, code_lengths = self._vectors(mel, mel_lengths)
        codes = self.codebook.nearest(vectors)
        there = mask_of(code_lengths, tf.shape(codes)[1])
        chosen = self.codebook.vectors_of(codes)
        commitment = masked_mean(
            tf.reduce_mean(tf.square(vectors - tf.stop_gradient(chosen)), -1), there
        )
        perplexity = self.codebook.perplexity(codes, there)
        if training:
            if seed is None:
                raise ValueError("training the tokenizer needs seed=int32[2]; got None")
            self.codebook.follow(tf.stop_gradient(vectors), codes, there, seed)
        straight_through = vectors + tf.stop_gradient(chosen - vectors)
        frames = tf.shape(mel)[1]
        rebuilt = self._decoded(straight_through, code_lengths)[:, :frames]
        error = tf.reduce_mean(tf.abs(rebuilt - normalised(mel)), -1)
        reconstruction = masked_mean(error, mask_of(mel_lengths, frames))
        return {
            "mel": log_mel_of(rebuilt),
            "codes": codes * tf.cast(there, tf.int32),
            "code_lengths": code_lengths,
            "losses": {"reconstruction": reconstruction, "commitment": commitment},
            "loss": reconstruction + self.config.commitment * commitment,
            "perplexity": perplexity,
        }

    def _vectors(self, mel, mel_lengths):
        """The encoder's float32 [B, N, code_size], before quantisation."""
        stride = self.config.stride
        frames = tf.shape(mel)[1]
        x = normalised(mel) * mask_of(mel_lengths, frames)[:, :, None]
        x, lengths = tf.pad(x, [[0, 0], [0, -frames % stride], [0, 0]]), mel_lengths
        x = self.mel_in(x, lengths)
        for down in self.down:
            x, lengths = tf.nn.relu(x), (lengths + 1) // 2
            x = down(x, lengths)
        for block in self.encoder_blocks:
            x = block(x, lengths)
        return tf.cast(self.code_in(tf.nn.relu(x), lengths), tf.float32), lengths

    def _decoded(self, vectors, code_lengths):
        """Normalised mel float32 [B, N * stride, mels]"""
        lengths = code_lengths
        there = mask_of(lengths, tf.shape(vectors)[1])[:, :, None]
        x = self.code_out(vectors * there, lengths)
        for block in self.decoder_blocks:
            x = block(x, lengths)
        for up in self.up:
            x = up(tf.nn.relu(x), lengths)
            batch, steps, width = tf.unstack(tf.shape(x))
            x = tf.reshape(x, [batch, 2 * steps, width // 2])
            x = tf.ensure_shape(x, [None, None, self.config.width])
            lengths = 2 * lengths
        return tf.cast(self.mel_out(tf.nn.relu(x), lengths), tf.float32)


class Codebook(AveragingCodebook):
    """The codes' vectors. They start as vectors of the first batch, and so does a code that was not
    used for `revive_after` steps."""

    def __init__(self, config: TokenizerConfig):
        start = normal(1.0)
        super().__init__(config.codes, config.code_size, start=start, decay=config.decay)
        self.config = config
        # Steps since last used; at first every code is due to be placed.
        start = keras.initializers.Constant(config.revive_after)
        self.unused = self.state((config.codes,), start)
        self.built = True

    def follow(self, vectors, codes, there, seed) -> None:
        """One step of the moving averages, of the whole batch; unused codes are placed anew."""
        step = self.averaged(vectors, codes, there)
        counts, sums, unused = self.placed_anew(
            step,
            self.unused,
            real=tf.reshape(there, [-1]),
            seed=seed,
            after=self.config.revive_after,
        )
        moved = sums / tf.maximum(counts, 1e-6)[:, None]
        vectors = tf.where((counts > 1e-6)[:, None], moved, self.vectors)
        self.assign(
            step["sane"],
            (self.vectors, vectors),
            (self.sums, sums),
            (self.counts, counts),
            (self.unused, unused),
        )


class Conv(keras.layers.Layer):
    """A convolution over time that sees zeros beyond a length, as beyond the edges."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1):
        super().__init__(autocast=False)
        self.conv = keras.layers.Conv1D(outputs, size, stride, padding="valid")
        self.conv.build((None, None, inputs))
        # A kernel of 4 with stride 2 reaches one frame further on either side.
        self.before, self.after = (size - stride + 1) // 2, (size - stride) // 2
        self.built = True

    def call(self, x, lengths):
        x = self.conv(tf.pad(x, [[0, 0], [self.before, self.after], [0, 0]]))
        return x * tf.cast(mask_of(lengths, tf.shape(x)[1]), x.dtype)[:, :, None]


class Residual(keras.layers.Layer):
    def __init__(self, width: int):
        super().__init__(autocast=False)
        self.near, self.mix = Conv(width, width), Conv(width, width, 1)
        self.built = True

    def call(self, x, lengths):
        return x + self.mix(tf.nn.relu(self.near(tf.nn.relu(x), lengths)), lengths)
