"""The speaker encoder and the loss that it learns by."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.model.config import SpeakerConfig
from myxtts.model.speaker import SpeakerEncoder, speaker_loss


@pytest.fixture
def encoder():
    keras.utils.set_random_seed(1)
    return SpeakerEncoder(SpeakerConfig(width=32, blocks=2, size=12), n_mels=80)


def test_vectors_have_length_one_and_padding_does_not_change_them(encoder, small):
    mel, lengths = small.mels(30, 47, 64)
    vectors = encoder(mel, lengths).numpy()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    garbage = tf.concat([mel, tf.random.normal([3, 20, 80])], 1).numpy()
    for row, length in enumerate((30, 47, 64)):
        alone = encoder(mel[row : row + 1, :length], lengths[row : row + 1])
        np.testing.assert_allclose(alone[0], vectors[row], atol=1e-5)
        garbage[row, length:] = 9.0
    np.testing.assert_allclose(encoder(tf.constant(garbage), lengths), vectors, atol=1e-5)


def test_the_loss_is_small_when_voices_agree_and_large_when_they_are_mixed_up():
    ids = tf.constant([0, 0, 1, 2])
    right = tf.one_hot(ids, 3)
    wrong = tf.one_hot(tf.constant([1, 2, 0, 1]), 3)
    # Both crops of voice 0 are equally right answers: half each is the best there can be.
    best = (0.5 * np.log(2)).astype(np.float32)
    np.testing.assert_allclose(speaker_loss(right, right, ids), best, atol=1e-3)
    assert float(speaker_loss(right, wrong, ids)) > 5


def test_a_batch_of_one_voice_has_no_loss_and_no_gradient():
    vectors = tf.Variable(tf.math.l2_normalize(tf.random.stateless_normal([4, 5], [1, 1]), -1))
    with tf.GradientTape() as tape:
        loss = speaker_loss(vectors, vectors, tf.constant([7, 7, 7, 7]))
    assert float(loss) == 0
    np.testing.assert_array_equal(tape.gradient(loss, vectors), 0)


def test_it_learns_to_tell_voices_apart_that_it_has_not_heard_saying_this(encoder):
    # A voice is a tilt of the spectrum; what is said is noise.
    chance = np.random.default_rng(0)
    tilts = chance.normal(size=(4, 1, 80)).astype(np.float32)

    def heard(ids):
        noise = chance.normal(-4, 2, (len(ids), 40, 80)).astype(np.float32)
        return tf.constant(noise + tilts[ids]), tf.fill([len(ids)], 40)

    optimizer = keras.optimizers.Adam(2e-3)
    ids = np.arange(12) % 4

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = speaker_loss(encoder(*a), encoder(*b), tf.constant(ids))
        variables = encoder.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for _ in range(40):
        step(heard(ids), heard(ids))
    one, other = encoder(*heard(np.arange(4))), encoder(*heard(np.arange(4)))
    nearest = np.argmax(one @ tf.transpose(other), 1)
    np.testing.assert_array_equal(nearest, np.arange(4))


def test_it_gives_the_same_on_a_gpu(encoder, small):
    if not tf.config.list_logical_devices("GPU"):
        pytest.skip("no emulated GPUs in this process")
    mel, lengths = small.mels(30, 17)
    with tf.device("GPU:1"):
        twin = SpeakerEncoder(SpeakerConfig(width=32, blocks=2, size=12), n_mels=80)
        twin.set_weights(encoder.get_weights())
        found = tf.function(lambda *a: twin(*a))(mel, lengths)
    np.testing.assert_allclose(found, encoder(mel, lengths), atol=1e-4)
