"""The weights in PyPI's resemblyzer are read and run without PyTorch."""

import io
import pickle
import struct
import sys
import types

import librosa
import numpy as np
import pytest

from myxtts import UserError
from myxtts.evaluation import resemblyzer
from myxtts.evaluation.resemblyzer import Resemblyzer, read_weights

RATE, BANDS, SIZE, VECTOR = 16_000, 40, 6, 5


@pytest.fixture(scope="module")
def weights():
    chance = np.random.default_rng(0)
    shapes = {"linear.weight": (VECTOR, SIZE), "linear.bias": (VECTOR,)}
    for i in range(3):
        shapes |= {
            f"lstm.weight_ih_l{i}": (4 * SIZE, SIZE if i else BANDS),
            f"lstm.weight_hh_l{i}": (4 * SIZE, SIZE),
            f"lstm.bias_ih_l{i}": (4 * SIZE,),
            f"lstm.bias_hh_l{i}": (4 * SIZE,),
        }
    shapes["similarity_weight"] = (1,)
    return {name: chance.normal(size=s).astype(np.float32) for name, s in shapes.items()}


@pytest.fixture(scope="module")
def file(weights, tmp_path_factory):
    """As PyTorch wrote it before 1.6."""
    path = tmp_path_factory.mktemp("weights") / "pretrained.pt"
    path.write_bytes(_legacy({"step": 7, "model_state": weights}))
    return path


def _legacy(content: dict) -> bytes:
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    class FloatStorage:
        __module__, __qualname__ = "torch", "FloatStorage"

    def _rebuild_tensor_v2(*arguments):
        raise AssertionError("nothing is called")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    torch.FloatStorage, utils._rebuild_tensor_v2 = FloatStorage, _rebuild_tensor_v2

    class Tensor:
        def __init__(self, array, key):
            self.array, self.key = array, key

        def __reduce__(self):
            strides = tuple(step // 4 for step in self.array.strides)
            storage = Storage(self.key, self.array.size)
            return _rebuild_tensor_v2, (storage, 0, self.array.shape, strides, False, {})

    class Storage:
        def __init__(self, key, count):
            self.name = ("storage", FloatStorage, key, "cpu", count, None)

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return value.name if isinstance(value, Storage) else None

    arrays = content["model_state"]
    tensors = {name: Tensor(array, str(i)) for i, (name, array) in enumerate(arrays.items())}
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules |= {"torch": torch, "torch._utils": utils}
    try:
        written = io.BytesIO()
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(value, written, 2)
        Pickler(written, 2).dump({**content, "model_state": tensors})
        pickle.dump([tensor.key for tensor in tensors.values()], written, 2)
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    storages = (struct.pack("<q", array.size) + array.tobytes() for array in arrays.values())
    return written.getvalue() + b"".join(storages)


def _vector(weights, mel):
    """One stretch through the network, gate by gate as PyTorch has them."""
    x = mel
    for i in range(3):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        of = {name: weights[f"lstm.{name}_l{i}"] for name in names}
        h, c, outputs = np.zeros(SIZE), np.zeros(SIZE), []
        for row in x:
            gates = of["weight_ih"] @ row + of["bias_ih"] + of["weight_hh"] @ h + of["bias_hh"]
            enter, forget, new, leave = np.split(gates, 4)
            c = c / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-enter))
            h = np.tanh(c) / (1 + np.exp(-leave))
            outputs.append(h)
        x = outputs
    found = np.maximum(weights["linear.weight"] @ x[-1] + weights["linear.bias"], 0)
    return found / np.linalg.norm(found)


def test_the_weights_are_those_in_the_file(weights, file):
    found = read_weights(file)
    assert set(found) == set(weights) - {"similarity_weight"}
    assert all(np.array_equal(found[name], weights[name]) for name in found)


def test_a_vector_is_the_mean_over_stretches_of_the_network_s(weights, file):
    seconds = np.arange(int(2.6 * RATE)) / RATE
    clip = (0.3 * np.sin(2 * np.pi * (200 + 300 * seconds) * seconds)).astype(np.float32)
    # Stretches of 1.6 s begin every 0.77 s; a third one would be heard for less than 0.75 of it.
    padded = np.pad(clip, (0, max(0, (77 + 160) * 160 - len(clip))))
    mel = librosa.feature.melspectrogram(y=padded, sr=RATE, n_fft=400, hop_length=160, n_mels=40).T
    wanted = _vector(weights, mel[:160]) + _vector(weights, mel[77 : 77 + 160])
    (found,) = Resemblyzer(file).vectors([clip], RATE)
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted), atol=1e-4)


def test_a_quiet_clip_is_amplified(file):
    clip = np.random.default_rng(1).normal(size=RATE).astype(np.float32)
    judge = Resemblyzer(file)
    np.testing.assert_allclose(
        judge.vectors([1e-4 * clip], RATE), judge.vectors([1e-3 * clip], RATE), atol=1e-4
    )


def test_what_is_missing_or_damaged_is_told_with_the_remedy(file, tmp_path, monkeypatch):
    cut = tmp_path / "cut.pt"
    cut.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserError, match="does not hold the weights of resemblyzer"):
        read_weights(cut)
    monkeypatch.setattr(resemblyzer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps resemblyzer"):
        Resemblyzer()
