"""The discriminators and the losses of both sides."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.model.config import VocoderConfig
from myxtts.model.discriminators import Discriminators
from myxtts.model.vocoder_losses import adversarial_loss, discriminator_loss, feature_loss
from myxtts.xtts_v2 import discriminators as published


def ours(**sizes):
    return Discriminators(VocoderConfig(discriminator_width=4, **sizes))


@pytest.fixture
def judges():
    keras.utils.set_random_seed(1)
    return ours()


def test_every_member_judges_and_shows_its_features(judges):
    waveform = tf.random.stateless_normal([2, 8192], [1, 2])
    scores, features = judges(waveform)
    assert len(scores) == len(features) == 5 + 3
    assert all(len(maps) == 4 for maps in features)
    assert all(score.shape[0] == 2 and score.shape[-1] == 1 for score in scores)


def test_losses_of_both_sides_are_zero_where_each_has_what_it_wants():
    sure = [tf.fill([2, 3], 1.5), tf.fill([2, 5], 1.0)]
    against = [-score for score in sure]
    assert float(discriminator_loss(sure, against)) == 0
    assert float(adversarial_loss(sure)) == 0
    assert float(discriminator_loss(against, sure)) > 3
    assert float(adversarial_loss(against)) > 2
    maps = [[tf.ones([2, 3])], [tf.zeros([4]), tf.ones([5])]]
    assert float(feature_loss(maps, maps)) == 0


def test_feature_loss_does_not_move_the_features_of_recorded_speech():
    real, made = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 5.0])
    with tf.GradientTape() as tape:
        loss = feature_loss([[real + 0.0]], [[made + 0.0]])
    assert float(loss) == 2.5
    of_real, of_made = tape.gradient(loss, [real, made])
    assert of_real is None and np.all(of_made.numpy() == 0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ours(discriminator_periods=(3,), discriminator_frames=(512,)),
        lambda: published.Discriminators(4, periods=(3,)),
    ],
)
def test_they_learn_to_tell_a_tone_from_noise(make):
    keras.utils.set_random_seed(1)
    judges = make()
    device = "GPU:1" if tf.config.list_logical_devices("GPU") else "CPU:0"
    phase = tf.random.stateless_uniform([2, 1], [1, 1], 0, 6.28)
    tone = tf.sin(phase + 0.1 * tf.range(2048, dtype=tf.float32)[None])
    noise = tf.random.stateless_normal([2, 2048], [1, 2])
    with tf.device(device):
        twin = make()
        twin.set_weights(judges.get_weights())
        optimizer = keras.optimizers.Adam(4e-3)
        optimizer.build(twin.trainable_variables)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = discriminator_loss(twin(tone)[0], twin(noise)[0])
            variables = twin.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        first = float(step())
        for _ in range(12):
            last = float(step())
    assert last < 0.5 * first
