"""Losses of a batch that two replicas have parts of: the value and the gradient of the whole."""

import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy
from myxtts.config import AudioConfig
from myxtts.model import vocoder_losses
from myxtts.model.layers import masked_mean
from myxtts.model.speaker import speaker_loss
from myxtts.model.whole_batch import means, moments

ROWS, FIRST = 6, 2  # parts of unequal size


def noise(shape, seed):
    return tf.random.stateless_normal(shape, [seed, 1])


def masked(x, other, rows):
    mask = tf.cast(tf.range(40)[None] < 10 + 5 * rows[:, None], tf.float32)
    return masked_mean(tf.square(x[:, :40]), mask)


def contrast(x, other, rows):
    return speaker_loss(tf.math.l2_normalize(x[:, :8], 1), other[:, :8], rows % 3)


def spectra(x, other, rows):
    return vocoder_losses.ReconstructionLoss(AudioConfig())(other, x)["loss"]


def critics(x, other, rows):
    maps = [x[:, :30], tf.square(x)]
    features = vocoder_losses.feature_loss([[other[:, :30]], [other]], [[m] for m in maps])
    return features + vocoder_losses.adversarial_loss(maps)


def normed(x, other, rows):
    channels = tf.reshape(x, [-1, 512, 8])
    mean, variance, _ = moments(channels)
    made = tf.reshape((channels - mean) * tf.math.rsqrt(variance + 1e-5), tf.shape(x))
    return means([tf.sin(made) * other])[0]


@pytest.mark.parametrize("loss", [normed, masked, contrast, spectra, critics])
def test_two_replicas_have_the_loss_and_the_gradient_of_the_whole_batch(loss):
    strategy = MirroredDataModelSplitStrategy(["CPU:2"], ["CPU:0", "CPU:1"])
    x, other, rows = noise([ROWS, 4096], 1), noise([ROWS, 4096], 2), tf.range(ROWS)

    def both(x, other, rows):
        x, other, rows = (tf.identity(tensor) for tensor in (x, other, rows))
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x, other, rows)
        return value, tape.gradient(value, x)

    with tf.device("CPU:0"):
        value, gradient = both(x, other, rows)

    def part_of(context):
        own = slice(0, FIRST) if context.replica_id_in_sync_group == 0 else slice(FIRST, None)
        return x[own], other[own], rows[own]

    parts = strategy.experimental_distribute_values_from_function(part_of)
    values, gradients = tf.function(lambda parts: strategy.run(both, args=parts))(parts)
    for found in strategy.experimental_local_results(values):
        assert float(found) == pytest.approx(float(value), rel=1e-5)
    # The mean of the replicas' gradients is the one of the whole.
    found = tf.concat(strategy.experimental_local_results(gradients), 0) / 2
    assert float(tf.norm(found - gradient)) < 1e-4 * float(tf.norm(gradient))
