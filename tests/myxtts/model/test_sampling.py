"""Generation: every option, seeds, streaming, one trace."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.model import sampling
from myxtts.model.gpt import Gpt
from myxtts.model.sampling import draw, generate, stream

STOP = 4
OPTIONS = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "repetition_penalty": 1.0,
    "length_penalty": 1.0,
}


def shares(logits, used=None, step=1, draws=4000, **options):
    """How often each code is drawn, with the seeds 0, 1, 2, ..."""
    settings = {k: tf.constant(v) for k, v in {**OPTIONS, **options, "seed": 7}.items()}
    rows = tf.tile(tf.constant([logits], tf.float32), [draws, 1])
    used = tf.zeros_like(rows) if used is None else tf.tile(tf.constant([used]), [draws, 1])
    codes = draw(rows, used=used, step=tf.constant(step), settings=settings, stop_code=STOP)
    return np.bincount(codes.numpy(), minlength=len(logits)) / draws


LOGITS = np.log([0.4, 0.3, 0.15, 0.1, 0.05]).tolist()


def test_without_options_codes_come_as_often_as_the_network_says():
    np.testing.assert_allclose(shares(LOGITS), [0.4, 0.3, 0.15, 0.1, 0.05], atol=0.03)


def test_a_temperature_of_zero_takes_the_likeliest():
    assert shares(LOGITS, temperature=0.0, draws=50)[0] == 1


def test_a_low_temperature_prefers_the_likely_and_a_high_one_evens_out():
    squared = np.array([0.4, 0.3, 0.15, 0.1, 0.05]) ** 2
    np.testing.assert_allclose(shares(LOGITS, temperature=0.5), squared / squared.sum(), atol=0.03)
    np.testing.assert_allclose(shares(LOGITS, temperature=50.0), [0.2] * 5, atol=0.03)


def test_top_k_leaves_the_k_likeliest():
    np.testing.assert_allclose(shares(LOGITS, top_k=2), [4 / 7, 3 / 7, 0, 0, 0], atol=0.03)
    assert shares(LOGITS, top_k=1)[0] == 1
    np.testing.assert_allclose(shares(LOGITS, top_k=99), shares(LOGITS))


def test_with_one_seed_the_lots_of_one_step_are_not_those_of_the_next():
    settings = {k: tf.constant(v) for k, v in {**OPTIONS, "seed": 7}.items()}
    alike, unused = tf.zeros([100, 5]), tf.zeros([100, 5])
    first, second = (
        draw(alike, used=unused, step=tf.constant(step), settings=settings, stop_code=STOP)
        for step in (1, 2)
    )
    assert 0.5 < np.mean(first != second) < 1.0


def test_top_p_leaves_those_that_together_have_the_probability():
    np.testing.assert_allclose(shares(LOGITS, top_p=0.6), [4 / 7, 3 / 7, 0, 0, 0], atol=0.03)
    assert shares(LOGITS, top_p=0.8)[2] > 0.1 and shares(LOGITS, top_p=0.8)[3:].sum() == 0
    assert shares(LOGITS, top_p=0.01)[0] == 1


def test_the_repetition_penalty_multiplies_the_log_probability_of_what_was_said():
    used = [1.0, 0.0, 0.0, 0.0, 0.0]
    wanted = np.array([0.4**2, 0.3, 0.15, 0.1, 0.05])
    found = shares(LOGITS, used, repetition_penalty=2.0)
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.03)
    assert shares(LOGITS, used, repetition_penalty=2.0, temperature=0.0, draws=10)[1] == 1


def test_the_length_penalty_makes_the_end_less_likely():
    wanted = np.array([0.4, 0.3, 0.15, 0.1, 0.05 / 4])
    np.testing.assert_allclose(shares(LOGITS, length_penalty=4.0), wanted / wanted.sum(), atol=0.02)
    wanted[4] = 0.05 * 5
    np.testing.assert_allclose(shares(LOGITS, length_penalty=0.2), wanted / wanted.sum(), atol=0.03)


def test_speech_does_not_end_before_its_first_code():
    ending = [0.0, 0.0, 0.0, 0.0, 9.0]
    assert shares(ending, step=0)[STOP] == 0 and shares(ending, step=1)[STOP] > 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("repetition_penalty", 0.0),
        ("length_penalty", -2.0),
        ("max_tokens", 0),
        ("max_tokens", 26),
    ],
)
def test_an_impossible_option_is_refused_by_name(gpt, small, name, value):
    with pytest.raises((ValueError, UserError), match=f"{name} must be .* got {value}"):
        generate(gpt, *small.inputs([4], [1])[:3], **{name: value})


def test_a_text_beyond_what_the_network_reads_is_refused(gpt, small):
    with pytest.raises(ValueError, match="31 tokens, the network reads at most 30"):
        generate(gpt, *small.inputs([31], [1])[:3])


def test_greedy_codes_are_those_the_whole_forward_prefers(gpt, small):
    latents, text, text_lengths, *_ = small.inputs([7, 4, 2], [1, 1, 1])
    codes, lengths, hidden = generate(gpt, latents, text, text_lengths, temperature=0)
    assert codes.shape[1] == max(lengths) and hidden.shape == (*codes.shape, small.gpt.width)
    whole = gpt(latents, text=text, text_lengths=text_lengths, codes=codes, code_lengths=lengths)
    preferred = whole["audio_logits"].numpy()
    preferred[:, 0, small.codes] = -np.inf
    preferred = preferred.argmax(-1)
    for row, length in enumerate(lengths.numpy()):
        np.testing.assert_array_equal(codes[row, :length], preferred[row, :length])
        assert not codes[row, length:].numpy().any()
        if length < small.gpt.max_audio_tokens:
            assert preferred[row, length] == small.codes
        np.testing.assert_allclose(hidden[row, :length], whole["hidden"][row, :length], atol=1e-3)
        assert not hidden[row, length:].numpy().any()


def test_the_same_seed_says_the_same_and_another_something_else(gpt, small):
    inputs = small.inputs([7, 4], [1, 1])[:3]
    first = generate(gpt, *inputs, seed=5, length_penalty=100.0)
    again = generate(gpt, *inputs, seed=5, length_penalty=100.0)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    other = generate(gpt, *inputs, seed=6, length_penalty=100.0)
    assert other[0].shape != first[0].shape or (other[0] != first[0]).numpy().any()


def test_max_tokens_cuts_speech_off(gpt, small):
    inputs = small.inputs([7, 4], [1, 1])[:3]
    whole = generate(gpt, *inputs, seed=5, length_penalty=1e9)
    assert whole[0].shape[1] == small.gpt.max_audio_tokens
    cut = generate(gpt, *inputs, seed=5, length_penalty=1e9, max_tokens=6)
    assert cut[1].numpy().tolist() == [6, 6]
    np.testing.assert_array_equal(cut[0], whole[0][:, :6])


@pytest.mark.parametrize(("every", "first"), [(1, None), (4, None), (7, 2), (100, None)])
def test_streamed_pieces_are_what_generate_says(gpt, small, every, first):
    inputs = small.inputs([7, 4], [1, 1])[:3]
    codes, lengths, hidden = generate(gpt, *inputs, seed=3, length_penalty=3.0)
    pieces = list(stream(gpt, *inputs, seed=3, length_penalty=3.0, every=every, first=first))
    np.testing.assert_array_equal(np.concatenate([p[0] for p in pieces], 1), codes)
    np.testing.assert_allclose(np.concatenate([p[1] for p in pieces], 1), hidden, atol=1e-5)
    np.testing.assert_array_equal(pieces[-1][2], lengths)
    sizes = [p[0].shape[1] for p in pieces]
    assert sizes[0] == min(first or every, codes.shape[1])
    assert all(size == every for size in sizes[1:-1])


def test_generation_is_traced_once_whatever_is_asked_for(small):
    keras.utils.set_random_seed(3)
    gpt = small.livened(Gpt(small.gpt, small.text_tokens, small.max_text, small.codes))
    for seed, lengths in enumerate(([7], [4, 3], [9, 1, 2], [12])):
        inputs = small.inputs(lengths, [1] * len(lengths))[:3]
        generate(gpt, *inputs, seed=seed, temperature=seed / 2, top_k=seed, max_tokens=5 + seed)
        list(stream(gpt, *inputs, every=3, top_p=0.9, repetition_penalty=2.0))
    begin, advance = sampling.traced(gpt)
    assert begin.experimental_get_tracing_count() == 1
    assert advance.experimental_get_tracing_count() == 1


def test_a_network_that_is_gone_leaves_no_traces(small):
    import gc

    gpt = Gpt(small.gpt, small.text_tokens, small.max_text, small.codes)
    generate(gpt, *small.inputs([3], [1])[:3], max_tokens=2)
    assert gpt in sampling._traced
    before = len(sampling._traced)
    del gpt
    gc.collect()
    assert len(sampling._traced) < before
