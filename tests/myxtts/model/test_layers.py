"""What the networks are made of."""

import numpy as np
import tensorflow as tf

from myxtts.model.layers import Dropout, Norm, attend, log_mel_of, normalised, salted, seed_of


def test_every_batch_of_every_epoch_has_its_own_seed():
    keys = [(seed, epoch, batch) for seed in (0, 1) for epoch in (0, 1, 7) for batch in (0, 1, 99)]
    seeds = {tuple(seed_of(tf.constant(key)).numpy()) for key in keys}
    assert len(seeds) == len(keys)
    assert seed_of(tf.constant([[3, 1, 2]] * 4)).numpy().tolist() == [3, (1 << 20) + 2]


def test_salts_make_different_seeds():
    seeds = [tuple(salted(tf.constant([2**31 - 1, 5]), salt).numpy()) for salt in range(2000)]
    assert len(set(seeds)) == 2000


def test_dropout_drops_its_rate_and_keeps_the_mean():
    x = tf.ones([200, 100])
    dropped = Dropout(0.25, 1)(x, seed=tf.constant([1, 2]), training=True).numpy()
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    assert abs(dropped.mean() - 1) < 0.02
    other = Dropout(0.25, 2)(x, seed=tf.constant([1, 2]), training=True).numpy()
    assert ((dropped == 0) == (other == 0)).mean() < 0.8
    np.testing.assert_array_equal(Dropout(0.25, 1)(x), x)


def test_normalisation_is_of_the_last_axis():
    x = np.random.default_rng(0).normal(3, 5, (4, 6, 64)).astype(np.float32)
    y = Norm(64)(x).numpy()
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 1, atol=1e-3)


def test_half_precision_is_normalised_in_single():
    # The squares of these do not fit into float16.
    x = tf.cast(tf.constant([[300.0, -300.0, 500.0, -500.0]]), tf.float16)
    y = Norm(4, dtype="mixed_float16")(x)
    assert y.dtype == tf.float16
    np.testing.assert_allclose(y, Norm(4)(tf.cast(x, tf.float32)), atol=2e-3)


def test_attention_looks_only_where_the_bias_lets_it():
    chance = np.random.default_rng(0)
    query, keys, values = chance.normal(size=(3, 1, 2, 5, 8)).astype(np.float32)
    bias = np.zeros((1, 1, 5, 5), np.float32)
    bias[..., 3:] = -1e9
    mixed, weights = attend(query, keys, values, bias)
    np.testing.assert_allclose(weights[..., 3:], 0, atol=1e-7)
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1, atol=1e-5)
    shorter, _ = attend(query, keys[..., :3, :], values[..., :3, :])
    np.testing.assert_allclose(mixed, shorter, atol=1e-5)


def test_mels_are_normalised_and_back():
    mel = np.linspace(-11.5, 6, 50).astype(np.float32)
    np.testing.assert_allclose(log_mel_of(normalised(mel)), mel, atol=1e-5)
    assert abs(float(tf.reduce_mean(normalised(mel)))) < 1.5
