"""The networks that each stage trains, made from the settings."""

import keras
import numpy as np

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


def _tokenizer(config: ModelConfig, text_tokens: int):
    from myxtts.model.tokenizer import AudioTokenizer

    return AudioTokenizer(config.tokenizer, config.audio)


def _speaker(config: ModelConfig, text_tokens: int):
    from myxtts.model.speaker import SpeakerEncoder

    return SpeakerEncoder(config.speaker, config.audio.n_mels)


def _conditioning(config: ModelConfig, text_tokens: int):
    from myxtts.model.conditioning import Conditioning

    gpt = config.gpt
    return Conditioning(config.conditioning, gpt.width, config.audio.n_mels, gpt.dropout)


def _gpt(config: ModelConfig, text_tokens: int):
    from myxtts.model.gpt import Gpt

    return Gpt(config.gpt, text_tokens, config.text.max_tokens, config.tokenizer.codes)


def _vocoder(config: ModelConfig, text_tokens: int):
    from myxtts.model.vocoder import Vocoder

    return Vocoder(config.vocoder, config.audio, config.speaker.size)


_MAKERS = {
    "tokenizer": _tokenizer,
    "speaker": _speaker,
    "conditioning": _conditioning,
    "gpt": _gpt,
    "vocoder": _vocoder,
}
