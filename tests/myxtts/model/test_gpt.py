"""The GPT: who sees whom, padding, cached decoding, precision, devices."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.model.gpt import Gpt

OUTPUTS = ("text_logits", "audio_logits", "hidden")
TABLES = {"tokens_per_code": 0.0, "table_scale": 3.0}
PREFIX = {"text_sees_all": True, "text_weight": 0.0}
either = pytest.mark.parametrize("changes", [{}, TABLES, PREFIX], ids=str)


def changed(inputs, which, place):
    values = inputs[which].numpy()
    values[:, place] = values[:, place] % 7 + 8  # another one of the same kind
    return [tf.constant(values) if i == which else x for i, x in enumerate(inputs)]


@either
def test_a_code_changes_only_what_comes_after_it(changes, small):
    gpt = small.make_gpt(**changes)
    inputs = small.inputs([7, 7], [9, 9])
    before = gpt(*inputs)
    for place in range(9):
        after = gpt(*changed(inputs, 3, place))
        apart = np.abs(after["audio_logits"] - before["audio_logits"]).max((0, 2))
        # Logit n is made of the codes before n.
        assert apart[: place + 1].max() < 1e-5 and apart[place + 1 :].min() > 1e-4
        hidden = np.abs(after["hidden"] - before["hidden"]).max((0, 2))
        assert (hidden[:place] < 1e-5).all() and (hidden[place:] > 1e-4).all()
        np.testing.assert_array_equal(after["text_logits"], before["text_logits"])


def test_a_text_position_sees_no_later_text_so_the_loss_cannot_leak(gpt, small):
    inputs = small.inputs([8, 8], [5, 5])
    before = gpt(*inputs)
    for place in range(8):
        after = gpt(*changed(inputs, 1, place))
        apart = np.abs(after["text_logits"] - before["text_logits"]).max((0, 2))
        # Logit n is to tell token n, and is made of the tokens before it.
        assert apart[: place + 1].max() < 1e-5 and apart[place + 1 :].min() > 1e-4
        assert np.abs(after["audio_logits"] - before["audio_logits"]).max((0, 2)).min() > 1e-4


def test_where_text_sees_all_of_itself_there_is_no_text_loss(small):
    gpt = small.make_gpt(**PREFIX)
    inputs = small.inputs([8, 8], [5, 5])
    before, after = gpt(*inputs), gpt(*changed(inputs, 1, 7))
    assert np.abs(after["text_logits"] - before["text_logits"]).max((0, 2)).min() > 1e-4
    np.testing.assert_array_equal(before["loss"], before["audio_loss"])
    with pytest.raises(UserError, match=r"gpt.text_weight must be 0 .* got 0.01"):
        small.make_gpt(text_sees_all=True)


def test_every_position_hears_the_latents(gpt, small):
    inputs = small.inputs([4, 4], [5, 5])
    before = gpt(*inputs)
    inputs[0] *= -1.0
    after = gpt(*inputs)
    for name in OUTPUTS:
        assert np.abs(after[name] - before[name]).max((0, 2)).min() > 1e-4


@either
def test_padding_changes_no_output_and_no_loss(changes, small):
    gpt = small.make_gpt(**changes)
    narrow = small.inputs([7, 4], [9, 6])
    wide = small.inputs([7, 4], [9, 6], text_size=15, code_size=20)
    wide[1] = tf.where(wide[1] == 0, 5, wide[1])  # what stands in the padding does not matter
    wide[3] = tf.where(tf.sequence_mask(wide[4], 20), wide[3], 3)
    a, b = gpt(*narrow), gpt(*wide)
    for name in ("text_loss", "audio_loss", "loss", "audio_accuracy"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5)
    for row, (text, codes) in enumerate(((7, 9), (4, 6))):
        for name, size in (("text_logits", text + 1), ("audio_logits", codes + 1)):
            np.testing.assert_allclose(a[name][row, :size], b[name][row, :size], atol=1e-4)
        np.testing.assert_allclose(a["hidden"][row, :codes], b["hidden"][row, :codes], atol=1e-4)
        alone = gpt(*[x[row : row + 1] for x in narrow])
        np.testing.assert_allclose(
            a["audio_logits"][row, : codes + 1], alone["audio_logits"][0, : codes + 1], atol=1e-4
        )


def test_the_losses_are_the_cross_entropies_of_the_next_token(gpt, small):
    inputs = small.inputs([5, 3], [6, 4])
    outputs = gpt(*inputs)
    _, text, text_lengths, codes, code_lengths = (x.numpy() for x in inputs)
    for name, ids, lengths, stop, logits in (
        ("text_loss", text, text_lengths, 2, "text_logits"),
        ("audio_loss", codes, code_lengths, small.codes, "audio_logits"),
    ):
        logs = tf.nn.log_softmax(outputs[logits]).numpy()
        told = [
            -logs[row, place, token]
            for row in range(2)
            for place, token in enumerate([*ids[row, : lengths[row]], stop])
        ]
        np.testing.assert_allclose(outputs[name], np.mean(told), rtol=1e-5)
    total = 0.01 * outputs["text_loss"] + outputs["audio_loss"]
    np.testing.assert_allclose(outputs["loss"], total, rtol=1e-6)


@either
def test_cached_decoding_says_what_the_whole_forward_says(changes, small):
    gpt = small.make_gpt(**changes)
    inputs = small.inputs([7, 4, 1], [9, 9, 9])
    whole = gpt(*inputs)
    logits, _, cache = gpt.start(*inputs[:3])
    np.testing.assert_allclose(logits, whole["audio_logits"][:, 0], atol=1e-4)
    for place in range(9):
        logits, hidden, cache = gpt.next(inputs[3][:, place], cache)
        np.testing.assert_allclose(logits, whole["audio_logits"][:, place + 1], atol=1e-4)
        np.testing.assert_allclose(hidden, whole["hidden"][:, place], atol=1e-4)


def test_the_cache_keeps_its_shapes(gpt, small):
    inputs = small.inputs([7, 4], [3, 3])
    _, _, cache = gpt.start(*inputs[:3], capacity=6)
    shapes = tf.nest.map_structure(lambda x: x.shape.as_list(), cache)
    for place in range(3):
        _, _, cache = gpt.next(inputs[3][:, place], cache)
        assert tf.nest.map_structure(lambda x: x.shape.as_list(), cache) == shapes


def test_attention_over_text_is_handed_out_on_request(gpt, small):
    inputs = small.inputs([7, 4], [9, 6])
    weights = gpt(*inputs, return_attention=True)["attention"]
    assert weights.shape == (2, 10, 9)
    assert (weights.numpy() >= 0).all() and weights.numpy().sum(-1).max() <= 1 + 1e-5
    assert weights.numpy()[1, :, 6:].max() < 1e-7  # start, 4 tokens and stop; then padding
    assert "attention" not in gpt(*inputs)


def test_codes_that_sound_alike_start_with_like_rows_and_chances(small):
    gpt, scaled = (small.make_gpt(table_scale=scale) for scale in (1.0, 4.0))
    others = gpt.audio_table.numpy()[small.codes :]
    vectors = np.random.default_rng(1).normal(3.0, 2.0, [small.codes, 5])
    vectors[7] = vectors[2] + 0.01
    for network in (gpt, scaled):
        network.start_from(vectors)
    np.testing.assert_allclose(gpt.audio_table, [*4.0 * scaled.audio_table[:-2], *others], 1e-5)
    for rows in (gpt.audio_table.numpy(), gpt.audio_head.kernel.numpy().T):
        apart = np.square(rows[: small.codes] - rows[2]).sum(-1)
        assert apart[7] < 1e-3 * np.delete(apart, [2, 7]).min()
    gpt.start_from(np.ones([small.codes, 5]))  # a codebook that has collapsed
    assert np.isfinite(gpt.audio_table).all()


def test_training_draws_from_the_seed_alone(small):
    gpt = small.make_gpt(code_noise=0.3)
    inputs = small.inputs([7, 4], [9, 6])

    def loss(*seed):
        return float(gpt(*inputs, seed=tf.constant(seed), training=True)["loss"])

    assert loss(1, 2) == loss(1, 2)
    assert len({loss(1, 2), loss(1, 3), loss(2, 2), float(gpt(*inputs)["loss"])}) == 4
    with pytest.raises(ValueError, match="seed"):
        gpt(*inputs, training=True)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_gradients_are_finite_and_reach_every_weight(policy, small):
    keras.utils.set_random_seed(1)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        gpt = Gpt(small.gpt, small.text_tokens, small.max_text, small.codes)
    finally:
        keras.mixed_precision.set_global_policy(before)
    inputs = small.inputs([7, 4], [9, 6])
    with tf.GradientTape() as tape:
        outputs = gpt(*inputs, seed=tf.constant([1, 1]), training=True)
    gradients = tape.gradient(outputs["loss"], gpt.trainable_variables)
    assert outputs["loss"].dtype == tf.float32
    for variable, gradient in zip(gpt.trainable_variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        assert variable.dtype == "float32", variable.path
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0, variable.path


def test_half_precision_says_nearly_the_same(small):
    keras.utils.set_random_seed(1)
    exact = Gpt(small.gpt, small.text_tokens, small.max_text, small.codes)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        half = Gpt(small.gpt, small.text_tokens, small.max_text, small.codes)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    for mine, its in zip(half.variables, exact.variables, strict=True):
        mine.assign(its)
    inputs = small.inputs([7, 4], [9, 6])
    np.testing.assert_allclose(half(*inputs)["loss"], exact(*inputs)["loss"], rtol=0.02)
    logits, _, cache = half.start(*inputs[:3])
    logits, hidden, _ = half.next(inputs[3][:, 0], cache)
    assert logits.dtype == tf.float32 and hidden.dtype == tf.bfloat16
    np.testing.assert_allclose(logits, exact(*inputs)["audio_logits"][:, 1], atol=0.1)
