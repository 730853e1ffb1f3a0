"""What the recorded outputs do not show: parts of a waveform, chance, and options of training."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.xtts_v2.hifigan import CONTEXT_CODES, HOP
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.resampling import interpolated
from myxtts.xtts_v2.sizes import Objective
from tests.myxtts.xtts_v2 import formula


def hops_of(codes):
    return codes * 4 * 24000 / 22050


@pytest.mark.parametrize("size", [7, 19])
def test_a_part_of_the_waveform_needs_four_codes_to_either_side(small, size):
    codes, speaker = 21, formula.speaker_vector()
    latents = tf.constant(formula.latents(codes))
    whole = small.hifigan(latents, speaker).numpy()
    hops = int(small.hifigan.hops(codes))
    for begin in range(0, hops, size):
        end = min(begin + size, hops)
        first = max(0, int(begin / hops_of(1)) - CONTEXT_CODES)
        last = min(codes, int(np.ceil(end / hops_of(1))) + CONTEXT_CODES)
        window = latents[:, first:last]
        found = small.hifigan.part(window, speaker, first, codes, begin, end).numpy()
        np.testing.assert_allclose(found, whole[:, begin * HOP : end * HOP], atol=1e-5)


def test_fewer_codes_around_a_part_change_it(small):
    latents, speaker = tf.constant(formula.latents(21)), formula.speaker_vector()
    whole = small.hifigan(latents, speaker).numpy()
    found = small.hifigan.part(latents[:, 8:13], speaker, 8, 21, 44, 46).numpy()
    assert np.abs(found - whole[:, 44 * HOP : 46 * HOP]).max() > 1e-3


def test_a_part_of_an_interpolation_is_that_of_the_whole():
    x = tf.constant(formula.latents(30))
    whole = interpolated(x, 24000 / 22050)
    found = interpolated(
        x[:, 10:20], tf.constant(24000 / 22050, tf.float64), first=10, total=30, begin=12, end=20
    )
    np.testing.assert_array_equal(found, whole[:, 12:20])


def batch(reference):
    text, lengths = formula.texts()
    codes = tf.constant(reference["dvae/codes"], tf.int32)
    latents = reference["conditioning/latents"]
    return latents, text, tf.constant(lengths, tf.int32), codes, tf.constant([13, 9])


def test_dropout_draws_from_its_seed_and_changes_nothing_outside_training(small, reference):
    inputs = batch(reference)
    losses = [
        float(small.gpt(*inputs, seed=tf.constant(seed), training=True)["loss"])
        for seed in ([1, 2], [1, 2], [1, 3])
    ]
    assert losses[0] == losses[1] != losses[2]
    assert float(small.gpt(*inputs)["loss"]) == float(small.gpt(*inputs)["loss"])


def test_what_lies_beyond_the_lengths_changes_no_loss(small, reference):
    latents, text, lengths, codes, code_lengths = batch(reference)
    wanted = small.gpt(latents, text, lengths, codes, code_lengths)
    text = np.where(np.arange(7) < lengths[:, None], text, 5)
    text = np.pad(text, [[0, 0], [0, 3]], constant_values=9)
    found = small.gpt(latents, text, lengths, tf.pad(codes, [[0, 0], [0, 4]]), code_lengths)
    for name in ("text_loss", "audio_loss"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)


def test_each_option_of_the_objective_changes_the_losses_it_names(small, small_source, reference):
    inputs = batch(reference)
    plain = small.gpt(*inputs)
    changed = {}
    for name, value in (("stop_targets", 1), ("text_stop_seen", True), ("text_weight", 0.5)):
        small.gpt.objective = Objective(**{name: value})
        changed[name] = small.gpt(*inputs)
    small.gpt.objective = Objective()
    assert float(changed["stop_targets"]["audio_loss"]) != float(plain["audio_loss"])
    assert float(changed["stop_targets"]["text_loss"]) == float(plain["text_loss"])
    assert float(changed["text_stop_seen"]["audio_loss"]) != float(plain["audio_loss"])
    assert float(changed["text_weight"]["loss"]) > float(plain["loss"])


def test_latents_for_the_hifigan_see_the_end_of_the_text_as_synthesis_does(small, reference):
    inputs = batch(reference)
    found = small.gpt.latents_of(*inputs)
    small.gpt.objective = Objective(text_stop_seen=True)
    seen = small.gpt(*inputs)["latents"]
    small.gpt.objective = Objective()
    for row, length in enumerate((13, 9)):
        np.testing.assert_allclose(found[row, :length], seen[row, :length], atol=1e-5)
    assert np.abs(found - small.gpt(*inputs)["latents"]).max() > 1e-3


def test_networks_that_nothing_was_read_into_can_learn(small_source, reference):
    """A reduced model can be trained from nothing: random weights, finite losses near chance."""
    fresh = Published(small_source)
    losses = fresh.gpt(*batch(reference))
    assert abs(float(losses["audio_loss"]) - np.log(formula.CODES + 2)) < 0.5
    made = fresh.hifigan(formula.latents(3), formula.speaker_vector())
    assert np.isfinite(made).all() and np.std(made) > 1e-6
