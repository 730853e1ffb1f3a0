"""The DVAE: turns mels into codes, one for every four frames, and back for its own training.

The GPT learns its codes; synthesis does not use it. Nothing in it is masked, so the last codes of a
clip depend on the padding.
"""

import keras
import numpy as np
import tensorflow as tf

from myxtts.model import whole_batch
from myxtts.model.codebook import AveragingCodebook
from myxtts.model.layers import normal
from myxtts.xtts_v2.layers import Conv1D, pointwise
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import DvaeSizes

_BLOCKS = 3
_DECAY, _EPSILON = 0.99, 1e-5


class Dvae(keras.Model):
    """The published discrete autoencoder: `codes_of` encodes mels, calling it trains it.

    Mels are `mels.log_mel(..., DVAE_FFT)`: float32 [B, frames, mels]. `revived`: see `Codebook`.
    """

    def __init__(self, sizes: DvaeSizes, names: Names, revived: bool = False):
        super().__init__(autocast=False)
        self.sizes = sizes
        outer, inner = sizes.width, 2 * sizes.width
        encoder, decoder = names.below("encoder"), names.below("decoder")
        self.down = [
            Conv1D(encoder.below("0.0"), sizes.mels, outer, 3, stride=2),
            Conv1D(encoder.below("1.0"), outer, inner, 3, stride=2),
        ]
        self.encoder = [ResidualBlock(encoder.below(2 + i), inner) for i in range(_BLOCKS)]
        self.to_code = pointwise(encoder.below(2 + _BLOCKS), inner, sizes.code_size)
        self.codebook = Codebook(sizes, names.below("codebook"), revived)
        self.from_code = pointwise(decoder.below(0), sizes.code_size, inner)
        self.decoder = [ResidualBlock(decoder.below(1 + i), inner) for i in range(_BLOCKS)]
        up = 1 + _BLOCKS
        self.up = [
            Conv1D(decoder.below(f"{up}.0.conv"), inner, inner, 3),
            Conv1D(decoder.below(f"{up + 1}.0.conv"), inner, outer, 3),
        ]
        self.to_mel = pointwise(decoder.below(up + 2), outer, sizes.mels)
        # Statistics of the codes that the published code keeps but never uses.
        loss = names.below("discrete_loss")
        loss.carry("accumulator_index", np.zeros(1, np.float32))
        loss.carry("accumulator_filled", np.zeros(1, np.float32))
        loss.carry("accumulator", np.zeros([100, sizes.codes], np.float32))
        self.built = True

    def vectors_of(self, mel: tf.Tensor) -> tf.Tensor:
        """The encoder's output, float32 [B, codes, code_size], not yet quantised."""
        for layer in self.down:
            mel = tf.nn.relu(layer(mel))
        for block in self.encoder:
            mel = block(mel)
        return tf.cast(self.to_code(mel), tf.float32)

    def codes_of(self, mel: tf.Tensor) -> tf.Tensor:
        """int32 [B, codes]; a code is 1,024 samples, so the first ceil(samples / 1024) count."""
        return self.codebook.nearest(self.vectors_of(mel))

    def mel_of(self, codes: tf.Tensor) -> tf.Tensor:
        """The decoded mels, float32 [B, 4 * codes, mels]."""
        return self._decoded(self.codebook.vectors_of(codes))

    def call(self, mel: tf.Tensor, training: bool = False, there=None, seed=None) -> dict:
        """Losses and outputs for mels whose number of frames is a multiple of 4.

        With `training` the codebook is updated as well, by moving averages instead of gradients. A
        revived one needs a seed, and `there` float32 [B, codes]: 1 where a clip is, 0 behind it.
        """
        vectors = self.vectors_of(mel)
        codes = self.codebook.nearest(vectors)
        chosen = self.codebook.vectors_of(codes)
        far = tf.square(vectors - tf.stop_gradient(chosen))
        if training:
            self.codebook.follow(tf.stop_gradient(vectors), codes, there=there, seed=seed)
        rebuilt = self._decoded(vectors + tf.stop_gradient(chosen - vectors))
        reconstruction, commitment = whole_batch.means([tf.square(rebuilt - mel), far])
        return {
            "mel": rebuilt,
            "codes": codes,
            "losses": {"reconstruction": reconstruction, "commitment": commitment},
            "loss": reconstruction + commitment,
        }

    def _decoded(self, vectors):
        x = self.from_code(vectors)
        for block in self.decoder:
            x = block(x)
        for layer in self.up:
            x = tf.nn.relu(layer(tf.repeat(x, 2, 1)))
        return tf.cast(self.to_mel(x), tf.float32)


class Codebook(AveragingCodebook):
    """The codes' vectors; the count of an unused code is kept above zero.

    If it is `revived`, the codes start as vectors of the first batch, and so does a code that was
    not used for a while. Random codes are far from what a random encoder makes: one of them would
    be the nearest to all of it, and the others would never be used.
    """

    _REVIVED_AFTER = 50  # steps

    def __init__(self, sizes: DvaeSizes, names: Names, revived: bool = False):
        start = names.initializer(normal(1.0))
        super().__init__(sizes.codes, sizes.code_size, start=start, decay=_DECAY)
        if names.drawn:
            self.sums.assign(self.vectors)
        names.add("embed", self.vectors, axes=(1, 0))
        names.add("embed_avg", self.sums, axes=(1, 0))
        names.add("cluster_size", self.counts)
        self.unused = None
        if revived:  # at first every code is due to be placed
            start = keras.initializers.Constant(self._REVIVED_AFTER)
            self.unused = self.state((sizes.codes,), start)
        self.built = True

    def follow(self, vectors: tf.Tensor, codes: tf.Tensor, there=None, seed=None) -> None:
        """One step of the moving averages, over the whole batch."""
        step = self.averaged(vectors, codes)
        counts, sums = step["counts"], step["sums"]
        if self.unused is not None:
            counts, sums, unused = self.placed_anew(
                step,
                self.unused,
                real=tf.reshape(there, [-1]),
                seed=seed,
                after=self._REVIVED_AFTER,
            )
            self.assign(step["sane"], (self.unused, unused))
        total = tf.reduce_sum(counts)
        share = (counts + _EPSILON) / (total + counts.shape[0] * _EPSILON) * total
        moved = sums / share[:, None]
        self.assign(step["sane"], (self.counts, counts), (self.sums, sums), (self.vectors, moved))


class ResidualBlock(keras.layers.Layer):
    """Two convolutions and a pointwise one; their output is added to the input."""

    def __init__(self, names: Names, width: int):
        super().__init__(autocast=False)
        names = names.below("net")
        self.first = Conv1D(names.below(0), width, width, 3)
        self.second = Conv1D(names.below(2), width, width, 3)
        self.last = pointwise(names.below(4), width, width)
        self.built = True

    def call(self, x):
        return x + self.last(tf.nn.relu(self.second(tf.nn.relu(self.first(x)))))
