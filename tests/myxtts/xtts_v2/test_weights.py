"""All variants of a checkpoint that people have give the same tensors under the same names."""

import json
import struct

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.xtts_v2.pth import write_pth
from myxtts.xtts_v2.weights import read_dvae, read_mel_stats, read_speakers, read_weights

MODEL = {
    "gpt.final_norm.weight": np.arange(4, dtype=np.float32),
    "hifigan_decoder.ups.0.parametrizations.weight.original0": np.ones([2, 1, 1], np.float32),
    "hifigan_decoder.ups.0.parametrizations.weight.original1": np.ones([2, 3, 4], np.float32),
}


def write_safetensors(path, tensors, kinds):
    table, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        place = [len(data), len(data) + value.nbytes]
        table[name] = {"dtype": kinds, "shape": list(value.shape), "data_offsets": place}
        data += value.tobytes()
    header = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def assert_model(weights):
    assert weights.model.keys() == MODEL.keys()
    for name, wanted in MODEL.items():
        np.testing.assert_array_equal(np.asarray(weights.model[name], np.float32), wanted)


def test_a_published_file_and_a_bare_table_of_tensors_are_read(tmp_path):
    for content in ({"model": MODEL, "step": 0, "config": None}, MODEL):
        write_pth(tmp_path / "model.pth", content)
        weights = read_weights(tmp_path / "model.pth")
        assert_model(weights)
        assert not weights.dvae and not weights.ignored and weights.licence is None


def test_a_checkpoint_of_the_trainer_is_read_with_its_dvae_and_without_its_optimizer(tmp_path):
    state = {f"xtts.{name}": value for name, value in MODEL.items()}
    state["dvae.codebook.embed"] = np.eye(2, dtype=np.float32)
    state["torch_mel_spectrogram_dvae.mel_stft.spectrogram.window"] = np.ones(3, np.float32)
    write_pth(tmp_path / "a.pth", {"model": state, "optimizer": [{"state": {"0": np.ones(9)}}]})
    weights = read_weights(tmp_path / "a.pth")
    assert_model(weights)
    assert list(weights.dvae) == ["codebook.embed"]
    assert weights.ignored == ("torch_mel_spectrogram_dvae.mel_stft.spectrogram.window",)


def test_the_older_spelling_of_weight_norm_is_read(tmp_path):
    state = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): value
        for name, value in MODEL.items()
    }
    assert state.keys() != MODEL.keys()
    write_pth(tmp_path / "a.pth", {"model": state})
    assert_model(read_weights(tmp_path / "a.pth"))


@pytest.mark.parametrize("kind", [np.float16, np.float64, tf.bfloat16.as_numpy_dtype])
def test_copies_in_other_precisions_are_read(tmp_path, kind):
    write_pth(tmp_path / "a.pth", {"model": {k: v.astype(kind) for k, v in MODEL.items()}})
    assert_model(read_weights(tmp_path / "a.pth"))


@pytest.mark.parametrize(
    "name, kind", [("F32", np.float32), ("F16", np.float16), ("BF16", tf.bfloat16.as_numpy_dtype)]
)
def test_safetensors_are_read_whatever_the_file_is_called(tmp_path, name, kind):
    path = tmp_path / "model.pth"
    write_safetensors(path, {k: v.astype(kind) for k, v in MODEL.items()}, name)
    assert_model(read_weights(path))


def test_damaged_safetensors_are_refused_by_what_is_damaged(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, MODEL, "F32")
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(UserError, match=r"original1 in .* cannot be read .its bytes lie outside"):
        read_weights(path)
    path.write_bytes(whole[:60])
    with pytest.raises(UserError, match="table of contents cannot be read"):
        read_weights(path)
    write_safetensors(path, MODEL, "F8_E4M3")
    with pytest.raises(UserError, match=r"gpt.final_norm.weight in .* cannot be read"):
        read_weights(path)


def test_copies_that_older_code_left_are_ignored_and_named(tmp_path):
    strays = (
        "gpt.gpt_inference.transformer.h.0.ln_1.weight",
        "gpt.gpt.wte.weight",
        "gpt.gpt.h.0.attn.bias",
        "gpt.gpt.h.0.attn.masked_bias",
    )
    state = {**MODEL, **{name: np.ones(1, np.float32) for name in strays}}
    state["gpt.gpt.h.0.attn.c_attn.bias"] = np.ones(1, np.float32)
    write_pth(tmp_path / "a.pth", {"model": state})
    weights = read_weights(tmp_path / "a.pth")
    assert weights.ignored == strays
    assert "gpt.gpt.h.0.attn.c_attn.bias" in weights.model


@pytest.mark.parametrize("content", [[1, 2], {"model": 3}, {"a": 1, 2: 3}])
def test_what_holds_no_tensors_is_refused(tmp_path, content):
    write_pth(tmp_path / "a.pth", content)
    with pytest.raises(UserError, match=r"holds no dictionary of tensors"):
        read_weights(tmp_path / "a.pth")
    with pytest.raises(UserError, match="does not exist"):
        read_weights(tmp_path / "b.pth")


def test_the_small_files_beside_the_model_are_read(tmp_path):
    write_pth(tmp_path / "dvae.pth", {"codebook.embed": np.eye(2)})
    assert read_dvae(tmp_path / "dvae.pth")["codebook.embed"].shape == (2, 2)
    write_pth(tmp_path / "mel_stats.pth", np.arange(80, dtype=np.float32))
    np.testing.assert_array_equal(read_mel_stats(tmp_path / "mel_stats.pth"), np.arange(80))
    latents, vector = np.ones([1, 32, 8], np.float32), np.ones([1, 16, 1], np.float32)
    voices = {"Ana": {"gpt_cond_latent": latents, "speaker_embedding": vector}}
    write_pth(tmp_path / "speakers.pth", voices)
    found = read_speakers(tmp_path / "speakers.pth")["Ana"]
    assert [value.shape for value in found] == [latents.shape, vector.shape]
    write_pth(tmp_path / "speakers.pth", {"Ana": {"gpt_cond_latent": latents}})
    with pytest.raises(UserError, match=r"Ana in .* is no voice"):
        read_speakers(tmp_path / "speakers.pth")
