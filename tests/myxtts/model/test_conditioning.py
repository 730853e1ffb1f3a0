"""Latents of a reference: any length, no padding, training by seed."""

import numpy as np
import pytest
import tensorflow as tf


@pytest.mark.parametrize("frames", [1, 3, 25, 258, 517, 900])
def test_a_reference_of_any_length_gives_the_same_number_of_latents(conditioning, frames, small):
    latents = conditioning(*small.mels(frames))
    assert latents.shape == (1, small.conditioning.latents, small.gpt.width)
    assert np.isfinite(latents).all()


def test_padding_does_not_change_the_latents(conditioning, small):
    small.livened(conditioning)
    mel, lengths = small.mels(50, 21)
    wide, _ = small.mels(50, 21, frames=80)
    wide = tf.where(tf.sequence_mask(lengths, 80)[:, :, None], wide, 3.0)
    np.testing.assert_allclose(conditioning(mel, lengths), conditioning(wide, lengths), atol=1e-5)
    alone = conditioning(mel[1:, :21], lengths[1:])
    np.testing.assert_allclose(alone[0], conditioning(mel, lengths)[1], atol=1e-5)


def test_every_stretch_of_the_reference_is_heard(conditioning, small):
    small.livened(conditioning)
    mel, lengths = small.mels(40)
    before = conditioning(mel, lengths)
    for start in range(0, 40, 4):
        changed = mel.numpy()
        changed[:, start : start + 4] += 3.0
        assert np.abs(conditioning(changed, lengths) - before).max() > 1e-4


def test_dropout_follows_the_seed(conditioning, small):
    mel, lengths = small.mels(40)

    def latents(*seed):
        return conditioning(mel, lengths, seed=tf.constant(seed), training=True).numpy()

    np.testing.assert_array_equal(latents(1, 2), latents(1, 2))
    assert np.abs(latents(1, 2) - latents(1, 3)).max() > 1e-3
    with pytest.raises(ValueError, match="seed"):
        conditioning(mel, lengths, training=True)
