"""The speaker encoder: maps a log-mel to a unit vector; vectors of one voice are close together.

    encoder = SpeakerEncoder(SpeakerConfig(), n_mels=80)
    vectors = encoder(mel, mel_lengths)                       # [B, F, mels], [B] -> [B, size]
    loss = speaker_loss(encoder(mel, mel_lengths), encoder(crop, crop_lengths), batch["speaker"])

Residual dilated convolutions and attentive statistics (mean and spread over time, with
learnt weights), as in ECAPA. Frames beyond a length change nothing.
"""

import tensorflow as tf
from keras import Model, layers

from myxtts.model.config import SpeakerConfig
from myxtts.model.whole_batch import gathered

_TEMPERATURE = 0.1


class SpeakerEncoder(Model):
    """The speaker encoder; the module's docstring shows its use."""

    def __init__(self, config: SpeakerConfig, n_mels: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        width = config.width
        self.size, self.n_mels = config.size, n_mels
        self.embed = layers.Conv1D(width, 5, padding="same", name="embed")
        self.norms = [
            layers.LayerNormalization(epsilon=1e-5, name=f"norm{i}") for i in range(config.blocks)
        ]
        self.convolutions = [
            layers.Conv1D(width, 3, padding="same", dilation_rate=i % 4 + 1, name=f"conv{i}")
            for i in range(config.blocks)
        ]
        self.mixers = [layers.Dense(width, name=f"mix{i}") for i in range(config.blocks)]
        self.last_norm = layers.LayerNormalization(epsilon=1e-5, name="last_norm")
        self.attention = layers.Dense(width, name="attention")
        self.vector = layers.Dense(config.size, dtype="float32", name="vector")
        self.build((None, None, n_mels))

    def build(self, shape):
        width = self.embed.filters
        self.embed.build(shape)
        for layer in (
            *self.norms,
            *self.convolutions,
            *self.mixers,
            self.last_norm,
            self.attention,
        ):
            layer.build((None, None, width))
        self.vector.build((None, 2 * width))
        self.built = True

    def call(self, mel, mel_lengths, training=False):
        there = tf.sequence_mask(mel_lengths, tf.shape(mel)[1])[:, :, None]
        mask = tf.cast(there, self.compute_dtype)
        x = self.embed(tf.cast(mel * 0.25 + 1.0, self.compute_dtype) * mask)
        for norm, convolution, mixer in zip(
            self.norms, self.convolutions, self.mixers, strict=True
        ):
            x += mixer(tf.nn.gelu(convolution(norm(x) * mask)))
        x = tf.cast(self.last_norm(x), tf.float32)
        scores = tf.cast(self.attention(x), tf.float32)
        weights = tf.nn.softmax(tf.where(there, scores, -1e9), 1)
        mean = tf.reduce_sum(weights * x, 1)
        spread = tf.reduce_sum(weights * tf.square(x - mean[:, None]), 1)
        vectors = self.vector(tf.concat([mean, tf.sqrt(spread + 1e-6)], -1))
        return tf.math.l2_normalize(vectors, -1, epsilon=1e-9)


def speaker_loss(vectors_a: tf.Tensor, vectors_b: tf.Tensor, speaker_ids: tf.Tensor) -> tf.Tensor:
    """Supervised contrastive loss between the clips of a batch (a) and their conditioning crops
    (b): every clip should find the crops of its own voice. 0 where the batch has one voice.

    It is the loss of the whole batch: clips are contrasted with those of other replicas as well.
    """
    vectors_a, vectors_b = gathered(vectors_a), gathered(vectors_b)
    speaker_ids = gathered(speaker_ids)
    logits = tf.matmul(vectors_a, vectors_b, transpose_b=True) / _TEMPERATURE
    same = tf.cast(speaker_ids[:, None] == speaker_ids[None], tf.float32)

    def found(logits):
        return -tf.reduce_sum(tf.nn.log_softmax(logits) * same, 1) / tf.reduce_sum(same, 1)

    loss = 0.5 * tf.reduce_mean(found(logits) + found(tf.transpose(logits)))
    return tf.where(tf.reduce_all(same > 0), 0.0, loss)
