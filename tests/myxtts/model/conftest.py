"""Networks small enough that a test of one takes a second."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.model.conditioning import Conditioning
from myxtts.model.config import ConditioningConfig, GptConfig, TokenizerConfig
from myxtts.model.gpt import Gpt
from myxtts.model.tokenizer import AudioTokenizer


class Small:
    """Settings, and inputs that fit them; the fixture `small`."""

    text_tokens, max_text, codes = 40, 30, 16
    floor = np.log(1e-5)
    gpt = GptConfig(layers=2, width=32, heads=4, dropout=0.1, max_audio_tokens=25)
    tokenizer = TokenizerConfig(width=16, codes=codes, code_size=8, residual_blocks=2)
    conditioning = ConditioningConfig(latents=3, layers=1, heads=2, encoder_layers=1, patch=4)

    @staticmethod
    def mels(*lengths, frames=None, seed=0):
        """Mels of these lengths in a batch of `frames` (by default the longest) frames."""
        chance = np.random.default_rng(seed)
        batch = np.full((len(lengths), frames or max(lengths), 80), Small.floor, np.float32)
        for mel, length in zip(batch, lengths, strict=True):
            mel[:length] = np.maximum(chance.normal(-6, 4, (length, 80)), Small.floor)
        return tf.constant(batch), tf.constant(lengths)

    @staticmethod
    def inputs(text_lengths, code_lengths, seed=0, text_size=None, code_size=None):
        """Arguments of a Gpt: latents, text, text_lengths, codes, code_lengths."""
        chance = np.random.default_rng(seed)
        clips = len(text_lengths)
        latents = chance.normal(size=(clips, Small.conditioning.latents, Small.gpt.width)).astype(
            np.float32
        )
        text = np.zeros((clips, text_size or max(text_lengths)), np.int32)
        codes = np.zeros((clips, code_size or max(code_lengths)), np.int32)
        for row, length in zip(text, text_lengths, strict=True):
            row[:length] = chance.integers(3, Small.text_tokens, length)
        for row, length in zip(codes, code_lengths, strict=True):
            row[:length] = chance.integers(0, Small.codes, length)
        lengths = [tf.constant(values, tf.int32) for values in (text_lengths, code_lengths)]
        return [tf.constant(latents), tf.constant(text), lengths[0], tf.constant(codes), lengths[1]]

    @staticmethod
    def make_gpt(**changes):
        keras.utils.set_random_seed(3)
        config = dataclasses.replace(Small.gpt, **changes)
        return Small.livened(Gpt(config, Small.text_tokens, Small.max_text, Small.codes))

    @staticmethod
    def livened(network):
        """A fresh network hardly lets its positions hear one another; this one does."""
        chance = np.random.default_rng(0)
        for variable in network.trainable_variables:
            noise = chance.normal(scale=0.2, size=variable.shape)
            variable.assign(variable + tf.cast(noise, variable.dtype))
        return network


@pytest.fixture(autouse=True)
def on_the_host():
    """Unless a test names a device itself: an emulated GPU is slow at small ops."""
    with tf.device("/CPU:0"):
        yield


@pytest.fixture
def small():
    return Small


@pytest.fixture
def gpt():
    return Small.make_gpt()


@pytest.fixture
def tokenizer():
    keras.utils.set_random_seed(4)
    return AudioTokenizer(Small.tokenizer, AudioConfig())


@pytest.fixture
def conditioning():
    keras.utils.set_random_seed(5)
    return Conditioning(Small.conditioning, Small.gpt.width, 80)
