"""The networks each stage trains, made and built from the settings."""

import keras
import numpy as np
import tensorflow as tf

from myxtts.model.config import ModelConfig

NETWORKS = {
    "tokenizer": ("tokenizer", "speaker"),
    "gpt": ("conditioning", "gpt"),
    "vocoder": ("vocoder",),
}


def make(stage: str, config: ModelConfig, text_tokens: int) -> dict[str, keras.Model]:
    """The networks of a stage by name, with all their variables, in the order of `NETWORKS`.

    Variables are made where the surrounding strategy scope puts them.
    """
    return {name: _MAKERS[name](config, text_tokens) for name in NETWORKS[stage]}


def parameters(network: keras.Model) -> int:
    return sum(int(np.prod(v.shape)) for v in network.trainable_variables)


def _mel(config: ModelConfig, frames: int = 16):
    return tf.zeros([1, frames, config.audio.n_mels]), tf.constant([frames])


def _tokenizer(config: ModelConfig, text_tokens: int):
    from myxtts.model.tokenizer import AudioTokenizer

    network = AudioTokenizer(config.tokenizer, config.audio)
    network(*_mel(config))
    return network


def _speaker(config: ModelConfig, text_tokens: int):
    from myxtts.model.speaker import SpeakerEncoder

    network = SpeakerEncoder(config.speaker, config.audio.n_mels)
    network(*_mel(config, 64))
    return network


def _conditioning(config: ModelConfig, text_tokens: int):
    from myxtts.model.conditioning import Conditioning

    network = Conditioning(config.conditioning, config.gpt.width, config.audio.n_mels)
    network(*_mel(config, 64))
    return network


def _gpt(config: ModelConfig, text_tokens: int):
    from myxtts.model.gpt import Gpt

    network = Gpt(config.gpt, text_tokens, config.text.max_tokens, config.tokenizer.codes)
    latents = tf.zeros([1, config.conditioning.latents, config.gpt.width])
    one = tf.constant([1])
    network(latents, tf.zeros([1, 1], tf.int32), one, tf.zeros([1, 1], tf.int32), one)
    return network


def _vocoder(config: ModelConfig, text_tokens: int):
    from myxtts.model.vocoder import Vocoder

    network = Vocoder(config.vocoder, config.audio, config.speaker.size)
    network(_mel(config)[0], tf.zeros([1, config.speaker.size]))
    return network


_MAKERS = {
    "tokenizer": _tokenizer,
    "speaker": _speaker,
    "conditioning": _conditioning,
    "gpt": _gpt,
    "vocoder": _vocoder,
}
