"""Reads the tensors of any variant of an XTTS v2 checkpoint, under their published names.

    weights = read_weights("best_model.pth")
    weights.model["gpt.mel_head.weight"]      # an array, which is not read before it is used

The variants: model.pth as published, checkpoints of the published trainer (names below `xtts.`,
with the DVAE and the optimizer), both spellings of weight norm, float16 and bfloat16 copies, and
safetensors files.
"""

import dataclasses
import os

import numpy as np

from myxtts import UserError
from myxtts.xtts_v2.pth import PthFile
from myxtts.xtts_v2.safetensors import is_safetensors, read_safetensors

# torch's names of the two parts of a weight-normed weight, before version 2.0 and since.
_WEIGHT_NORM = {
    ".weight_g": ".parametrizations.weight.original0",
    ".weight_v": ".parametrizations.weight.original1",
}
# What older versions of the published code stored besides weights: copies for generation, masks.
_STRAYS = ("gpt.gpt_inference.", "gpt.gpt.wte.", "torch_mel_spectrogram_")
_MASKS = (".attn.bias", ".attn.masked_bias")


@dataclasses.dataclass(frozen=True)
class Weights:
    """Tensors by published name."""

    path: str
    model: dict[str, np.ndarray]
    dvae: dict[str, np.ndarray]  # only in a checkpoint of the trainer, otherwise empty
    ignored: tuple[str, ...]  # names of tensors in the file that are not needed
    licence: str | None  # as the file states it; published files do not


def read_weights(path: str | os.PathLike) -> Weights:
    """Reads all variants of model.pth; UserError names the file or tensor for anything else."""
    path = os.fspath(path)
    tensors, licence = _tensors(path)
    if any(name.startswith("xtts.") for name in tensors):
        tensors = {name.removeprefix("xtts."): value for name, value in tensors.items()}
    model, dvae, ignored = {}, {}, []
    for name, value in tensors.items():
        name = _modern(name)
        if name.startswith(_STRAYS) or (name.startswith("gpt.gpt.h.") and name.endswith(_MASKS)):
            ignored.append(name)
        elif name.startswith("dvae."):
            dvae[name.removeprefix("dvae.")] = value
        else:
            model[name] = value
    return Weights(path, model=model, dvae=dvae, ignored=tuple(ignored), licence=licence)


def read_dvae(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """dvae.pth: the tensors of the DVAE."""
    return _tensors(os.fspath(path))[0]


def read_mel_stats(path: str | os.PathLike) -> np.ndarray:
    """mel_stats.pth: one float32 for each mel band."""
    file = PthFile(path)
    return file.array(file.content, "mel_stats").astype(np.float32)


def read_speakers(path: str | os.PathLike) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """speakers_xtts.pth: latents [1, 32, width] and vector [1, size, 1] of each voice by name."""
    file = PthFile(path)
    found = {}
    for name, values in _dictionary(file.content, file.path).items():
        pair = list(values.values()) if isinstance(values, dict) else []
        if len(pair) != 2:
            raise UserError(f"{name} in {file.path} is no voice: latents and a vector are needed")
        found[str(name)] = tuple(
            file.array(value, f"{name} ({what})").astype(np.float32)
            for value, what in zip(pair, ("latents", "speaker vector"), strict=True)
        )
    return found


def _tensors(path: str) -> tuple[dict[str, np.ndarray], str | None]:
    if not os.path.isfile(path):
        raise UserError(f"{path} does not exist or is no file")
    if is_safetensors(path):
        return read_safetensors(path), None
    file = PthFile(path)
    content = _dictionary(file.content, path)
    state = _dictionary(content["model"], path) if "model" in content else content
    licence = content.get("licence") if state is not content else None
    tensors = {name: file.array(value, name) for name, value in state.items()}
    return tensors, licence if isinstance(licence, str) else None


def _dictionary(content: object, path: str) -> dict:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise UserError(f"{path} holds no dictionary of tensors; it is no checkpoint of XTTS v2")
    return content


def _modern(name: str) -> str:
    for old, new in _WEIGHT_NORM.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
