"""The audio tokenizer: shapes, padding, codebook, training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.model.config import TokenizerConfig
from myxtts.model.tokenizer import AudioTokenizer, Codebook


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 43, 64])
def test_a_code_stands_for_four_frames_whatever_the_length(tokenizer, frames, small):
    codes, code_lengths = tokenizer.encode(*small.mels(frames))
    count = -(-frames // 4)
    assert codes.shape == (1, count) and codes.dtype == tf.int32
    assert code_lengths.numpy().tolist() == [count]
    assert tokenizer.decode(codes, code_lengths).shape == (1, 4 * count, 80)
    assert tokenizer(*small.mels(frames))["mel"].shape == (1, frames, 80)


@pytest.mark.parametrize("stride", [2, 8])
def test_the_stride_is_the_one_of_the_settings(stride, small):
    config = TokenizerConfig(
        width=8, codes=small.codes, code_size=4, residual_blocks=1, stride=stride
    )
    network = AudioTokenizer(config, AudioConfig())
    codes, lengths = network.encode(*small.mels(17, 8))
    assert codes.shape[1] == -(-17 // stride) and lengths.numpy().tolist() == [
        -(-17 // stride),
        8 // stride,
    ]
    assert network.decode(codes, lengths).shape[1] == codes.shape[1] * stride


def test_padding_changes_neither_codes_nor_mels_nor_losses(tokenizer, small):
    mel, lengths = small.mels(41, 13)
    wide, _ = small.mels(41, 13, frames=64)
    # What stands in the padding is not even looked at.
    there = tf.sequence_mask(lengths, 64)[:, :, None]
    wide = tf.where(there, wide, 5.0)
    narrow_out, wide_out = tokenizer(mel, lengths), tokenizer(wide, lengths)
    np.testing.assert_array_equal(narrow_out["codes"], wide_out["codes"][:, :11])
    for name in ("reconstruction", "commitment"):
        np.testing.assert_allclose(narrow_out["losses"][name], wide_out["losses"][name], rtol=1e-5)
    np.testing.assert_allclose(narrow_out["perplexity"], wide_out["perplexity"], rtol=1e-5)
    np.testing.assert_allclose(narrow_out["mel"][1, :13], wide_out["mel"][1, :13], atol=1e-5)
    alone, alone_lengths = tokenizer.encode(mel[1:, :13], lengths[1:])
    np.testing.assert_array_equal(alone[0], narrow_out["codes"][1, :4])
    decoded = tokenizer.decode(narrow_out["codes"], narrow_out["code_lengths"])
    by_itself = tokenizer.decode(alone, alone_lengths)
    np.testing.assert_allclose(decoded[1, :16], by_itself[0], atol=1e-4)


def test_beyond_a_length_codes_are_zero_and_mels_silent(tokenizer, small):
    codes, lengths = tokenizer.encode(*small.mels(40, 9))
    assert not codes[1, 3:].numpy().any()
    mel = tokenizer.decode(codes, lengths)
    np.testing.assert_allclose(mel[1, 12:], small.floor, rtol=1e-6)
    assert float(tf.reduce_min(mel)) >= small.floor - 1e-5


def test_decoding_the_codes_gives_the_reconstruction(tokenizer, small):
    mel, lengths = small.mels(24)
    outputs = tokenizer(mel, lengths)
    decoded = tokenizer.decode(outputs["codes"], outputs["code_lengths"])
    np.testing.assert_allclose(decoded, np.maximum(outputs["mel"], small.floor), atol=1e-4)


def test_the_first_step_puts_codes_where_the_encoder_is(tokenizer, small):
    mel, lengths = small.mels(96, 96, 50)
    tokenizer(mel, lengths, seed=tf.constant([1, 1]), training=True)
    outputs = tokenizer(mel, lengths)
    assert float(outputs["perplexity"]) > small.codes / 2


def test_a_code_without_use_is_revived_at_a_vector_of_the_batch():
    book = Codebook(TokenizerConfig(codes=4, code_size=2, revive_after=3))
    corners = np.array([[0, 0], [0, 9], [9, 0], [50, 50]], np.float32)
    used = tf.constant(corners[None, :3])
    book.vectors.assign(corners)
    book.sums.assign(corners)
    book.counts.assign(np.ones(4))
    book.unused.assign(np.zeros(4))
    for step in range(3):
        assert float(book.unused[3]) == step
        np.testing.assert_allclose(book.vectors[3], [50, 50], rtol=1e-5)
        codes = book.nearest(used)
        assert codes.numpy().tolist() == [[0, 1, 2]]
        book.follow(used, codes, tf.ones([1, 3]), tf.constant([0, step]))
    moved = book.vectors[3].numpy()
    assert min(np.abs(corners[:3] - moved).max(1)) < 1e-3
    assert float(book.unused[3]) == 0


def test_revival_draws_from_real_vectors_only():
    book = Codebook(TokenizerConfig(codes=8, code_size=2))
    vectors = tf.constant([[[1.0, 1.0], [2.0, 2.0], [99.0, 99.0], [99.0, 99.0]]])
    there = tf.constant([[1.0, 1.0, 0.0, 0.0]])
    book.follow(vectors, tf.zeros([1, 4], tf.int32), there, tf.constant([0, 0]))
    used, *revived = np.round(book.vectors.numpy(), 3).tolist()
    assert used == [1.5, 1.5]
    assert sorted(map(tuple, revived)) in (
        [(1.0, 1.0)] * 3 + [(2.0, 2.0)] * 4,
        [(1.0, 1.0)] * 4 + [(2.0, 2.0)] * 3,
    )


def test_the_codebook_survives_a_step_with_numbers_that_are_not_finite(tokenizer, small):
    mel, lengths = small.mels(32)
    tokenizer(mel, lengths, seed=tf.constant([1, 1]), training=True)
    before = [variable.numpy() for variable in tokenizer.non_trainable_variables]
    tokenizer(mel * np.nan, lengths, seed=tf.constant([1, 2]), training=True)
    for old, variable in zip(before, tokenizer.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable)


@pytest.fixture
def losses(tokenizer):
    """losses(seed_word, steps): each time from the same beginning, traced once."""
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(tokenizer.trainable_variables)
    variables = [*tokenizer.variables, *optimizer.variables]
    beginning = [variable.numpy() for variable in variables]
    # Eight sounds, held for a while each: something that can be learnt.
    chance = np.random.default_rng(0)
    sounds = chance.normal(-6, 3, (8, 80)).astype(np.float32)
    mel = tf.constant(np.repeat(sounds[chance.integers(0, 8, (4, 16))], 4, axis=1))
    lengths = tf.constant([64, 64, 64, 50])

    @tf.function
    def step(seed):
        with tf.GradientTape() as tape:
            outputs = tokenizer(mel, lengths, seed=seed, training=True)
        gradients = tape.gradient(outputs["loss"], tokenizer.trainable_variables)
        optimizer.apply_gradients(zip(gradients, tokenizer.trainable_variables, strict=True))
        return outputs["losses"]["reconstruction"]

    def made(seed_word, steps):
        for variable, value in zip(variables, beginning, strict=True):
            variable.assign(value)
        return [float(step(tf.constant([seed_word, i]))) for i in range(steps)]

    return made


def test_training_learns_to_rebuild_and_the_same_seed_learns_the_same(losses):
    found = losses(5, steps=250)
    assert found[-1] < 0.5 * found[0]
    # Codes that were not used for 50 steps are placed anew.
    assert losses(5, steps=60) == found[:60]
    assert losses(6, steps=60) != found[:60]


def test_training_without_a_seed_is_refused(tokenizer, small):
    with pytest.raises(ValueError, match="seed"):
        tokenizer(*small.mels(8), training=True)
