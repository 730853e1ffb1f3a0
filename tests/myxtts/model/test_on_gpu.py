"""The networks on an emulated GPU, which has the kernels of a real one and no others."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.model.conditioning import Conditioning
from myxtts.model.gpt import Gpt
from myxtts.model.sampling import generate
from myxtts.model.tokenizer import AudioTokenizer


@pytest.fixture
def nothing_moves():
    """An op without a kernel for its device is an error, not silently run elsewhere."""
    if len(tf.config.list_logical_devices("GPU")) < 2:
        pytest.skip("no emulated GPUs in this process")
    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    yield
    tf.config.set_soft_device_placement(before)


@functools.cache
def trained(small, device, policy="float32", steps=2):
    """Losses of a few steps of all networks, of one layer each, and the variables, all on one
    device."""
    keras.utils.set_random_seed(1)
    mel, mel_lengths = small.mels(40, 23)
    _, text, text_lengths, *_ = small.inputs([7, 4], [1, 1])
    keras.mixed_precision.set_global_policy(policy)
    try:
        with tf.device(device):
            one_block = dataclasses.replace(small.tokenizer, residual_blocks=1)
            tokenizer = AudioTokenizer(one_block, AudioConfig())
            conditioning = Conditioning(small.conditioning, small.gpt.width, 80)
            one_layer = dataclasses.replace(small.gpt, layers=1)
            gpt = Gpt(one_layer, small.text_tokens, small.max_text, small.codes)
            networks = (tokenizer, conditioning, gpt)
            variables = [v for network in networks for v in network.trainable_variables]
            optimizer = keras.optimizers.AdamW(1e-3)
            optimizer.build(variables)
    finally:
        keras.mixed_precision.set_global_policy("float32")

    @tf.function(jit_compile=False)
    def step(mel, mel_lengths, text, text_lengths, seed):
        with tf.GradientTape() as tape:
            sounds = tokenizer(mel, mel_lengths, seed=seed, training=True)
            latents = conditioning(mel, mel_lengths, seed=seed, training=True)
            said = gpt(
                latents,
                text=text,
                text_lengths=text_lengths,
                codes=sounds["codes"],
                code_lengths=sounds["code_lengths"],
                seed=seed,
                training=True,
            )
            loss = sounds["loss"] + said["loss"]
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    with tf.device(device):
        inputs = [tf.identity(x) for x in (mel, mel_lengths, text, text_lengths)]
        losses = [step(*inputs, tf.constant([1, number])) for number in range(steps)]
    return losses, variables, gpt


@pytest.mark.rewritten_graphs
def test_training_needs_no_kernel_a_gpu_does_not_have(small, nothing_moves):
    losses, variables, _ = trained(small, "/GPU:1")
    assert all("GPU:1" in variable.value.device for variable in variables)
    assert "GPU:1" in losses[0].device
    on_cpu, _, _ = trained(small, "/CPU:0")
    np.testing.assert_allclose(losses, on_cpu, rtol=1e-4)


@pytest.mark.rewritten_graphs
def test_a_step_gives_the_same_losses_by_its_rewritten_graph_as_by_its_own(small, nothing_moves):
    rewritten, _, _ = trained(small, "/GPU:1")
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        own, _, _ = trained.__wrapped__(small, "/GPU:1")
    finally:
        tf.config.optimizer.set_experimental_options({**before, "disable_meta_optimizer": False})
    np.testing.assert_allclose(rewritten, own, rtol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_trains_on_a_gpu(small, nothing_moves, policy):
    losses, variables, _ = trained(small, "/GPU:1", policy)
    single, _, _ = trained(small, "/CPU:0")
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses[0], single[0], rtol=0.03)
    assert all(np.isfinite(variable.numpy()).all() for variable in variables)


def test_generation_runs_on_a_gpu(small, nothing_moves):
    _, _, gpt = trained(small, "/GPU:1", steps=0)
    inputs = small.inputs([7, 4], [1, 1])[:3]
    with tf.device("/GPU:1"):
        inputs = [tf.identity(x) for x in inputs]
        codes, lengths, _ = generate(gpt, *inputs, seed=2, top_k=8, top_p=0.9)
    _, _, same = trained(small, "/CPU:0", steps=0)
    on_cpu = generate(same, *inputs, seed=2, top_k=8, top_p=0.9)
    np.testing.assert_array_equal(lengths, on_cpu[1])
    np.testing.assert_array_equal(codes, on_cpu[0])
