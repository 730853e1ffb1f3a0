"""A judge of voices from another project: the speaker encoder of PyPI's resemblyzer.

    judge = Resemblyzer()
    judge.vectors([waveform, ...], sample_rate)     # unit vectors [clips, 256]

It was trained on recordings of thousands of people. Only its weights are read, without PyTorch,
and run in Keras: `pip install --no-deps resemblyzer==0.1.4` is enough. Its detector of pauses is
left out: clips keep the pauses they have.
"""

import importlib.util
import pickletools
import struct
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from myxtts import UserError
from myxtts.evaluation.waveforms import resampled
from myxtts.xtts_v2.pickled import Call, Global, Outside, describe

_INSTALL = "pip install --no-deps resemblyzer==0.1.4"
_RATE, _WINDOW, _HOP, _BANDS = 16_000, 400, 160, 40
_FRAMES = 160  # of a stretch that the network hears at once, 1.6 s
_STEP = 77  # frames from one stretch to the next: 1.3 a second
_LEAST_HEARD = 0.75  # a last stretch with less than this share of speech is left out
_LEAST_LOUDNESS = 10 ** (-30 / 20)  # rms; quieter clips are amplified
_LAYERS, _BATCH = 3, 64
_PICKLES = 5  # magic number, version, machine, content, names of the storages


class Resemblyzer:
    """Vectors of voices, near for one voice and far for two; see the module."""

    def __init__(self, weights: Path | None = None):
        network = _network(read_weights(weights or _installed()))
        self._network = tf.function(
            lambda parts: network(parts),
            input_signature=[tf.TensorSpec([None, _FRAMES, _BANDS])],
        )

    def vectors(self, waveforms: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
        """float32 unit vectors [clips, 256] of float waveforms."""
        return np.stack([self._vector(resampled(clip, sample_rate, _RATE)) for clip in waveforms])

    def _vector(self, waveform: np.ndarray) -> np.ndarray:
        parts = _stretches(waveform)
        found = np.concatenate(
            [
                self._network(parts[at : at + _BATCH]).numpy()
                for at in range(0, len(parts), _BATCH)
            ]
        )
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        mean = found.mean(0)
        return mean / np.linalg.norm(mean)


def _stretches(waveform: np.ndarray) -> np.ndarray:
    """Mels (of power, not its logarithm) float32 [stretches, _FRAMES, _BANDS]."""
    import librosa

    loudness = np.sqrt(np.mean(np.square(waveform)))
    if 0 < loudness < _LEAST_LOUDNESS:
        waveform = waveform * (_LEAST_LOUDNESS / loudness)
    frames = -(-(len(waveform) + 1) // _HOP)
    starts = list(range(0, max(1, frames - _FRAMES + _STEP + 1), _STEP))
    heard = (len(waveform) - starts[-1] * _HOP) / (_FRAMES * _HOP)
    if heard < _LEAST_HEARD and len(starts) > 1:
        starts.pop()
    missing = max(0, (starts[-1] + _FRAMES) * _HOP - len(waveform))
    mel = librosa.feature.melspectrogram(
        y=np.pad(waveform, (0, missing)).astype(np.float32),
        sr=_RATE,
        n_fft=_WINDOW,
        hop_length=_HOP,
        n_mels=_BANDS,
    ).T.astype(np.float32)
    return np.stack([mel[start : start + _FRAMES] for start in starts])


def _network(weights: dict[str, np.ndarray]) -> keras.Model:
    size = weights["lstm.weight_hh_l0"].shape[1]
    layers = [keras.layers.LSTM(size, return_sequences=i < _LAYERS - 1) for i in range(_LAYERS)]
    head = keras.layers.Dense(weights["linear.weight"].shape[0], activation="relu")
    network = keras.Sequential([keras.Input([None, _BANDS]), *layers, head])
    for i, layer in enumerate(layers):
        layer.set_weights(
            [
                weights[f"lstm.weight_ih_l{i}"].T,
                weights[f"lstm.weight_hh_l{i}"].T,
                weights[f"lstm.bias_ih_l{i}"] + weights[f"lstm.bias_hh_l{i}"],
            ]
        )
    head.set_weights([weights["linear.weight"].T, weights["linear.bias"]])
    return network


def _installed() -> Path:
    """The weights, found without importing the package, which would import PyTorch."""
    found = importlib.util.find_spec("resemblyzer")
    path = Path(next(iter(found.submodule_search_locations))) / "pretrained.pt" if found else None
    if path is None or not path.is_file():
        raise UserError(f"--judge=resemblyzer needs the weights in PyPI's resemblyzer: {_INSTALL}")
    return path


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file that PyTorch wrote before its version 1.6: pickles, one after the
    other, and then the numbers of each storage behind their count."""
    data = path.read_bytes()
    pickles, at = [], 0
    try:
        for _ in range(_PICKLES):
            end = next(p for o, _, p in pickletools.genops(data[at:]) if o.name == "STOP")
            pickles.append(describe(data[at : at + end + 1], str(path)))
            at += end + 1
        storages = {}
        for key in pickles[4]:
            (count,) = struct.unpack_from("<q", data, at)
            storages[key] = np.frombuffer(data, "<f4", count, at + 8)
            at += 8 + 4 * count
        tensors = pickles[3]["model_state"]
        return {
            name: _tensor(value, storages)
            for name, value in tensors.items()
            if name.startswith(("lstm.", "linear."))
        }
    except (StopIteration, ValueError, LookupError, TypeError, struct.error) as error:
        raise UserError(
            f"{path} does not hold the weights of resemblyzer 0.1.4 ({error}): {_INSTALL}"
        ) from None


def _tensor(value: object, storages: dict[str, np.ndarray]) -> np.ndarray:
    is_tensor = isinstance(value, Call) and value.function == Global(
        "torch._utils", "_rebuild_tensor_v2"
    )
    if not is_tensor or not isinstance(value.arguments[0], Outside):
        raise ValueError("a weight is no plain tensor")
    storage, offset, shape, strides = value.arguments[:4]
    key = storage.name[2]
    flat = storages[key]
    if strides != tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape))):
        raise ValueError("a weight is not contiguous")
    return flat[offset : offset + int(np.prod(shape))].reshape(shape)
