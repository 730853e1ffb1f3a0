"""A small model in the published form, and what the published code computes with it."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from myxtts.xtts_v2.config import ModelArgs, PublishedConfig
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.voice import PublishedVoice
from tests.myxtts.xtts_v2 import formula

REFERENCE = Path(__file__).parent / "reference.npz"
VOCABULARY = Path(__file__).parent / "vocab.json"


class Reference:
    """The recorded outputs; see make_reference.py."""

    def __init__(self):
        self.file = np.load(REFERENCE)
        self.facts = json.loads(str(self.file["facts"]))

    def __getitem__(self, name):
        return self.file[name]

    def error(self, name: str, found) -> float:
        """How far `found` is from what was recorded, in units of what is allowed: ten times what
        float32 differs from float64 in the published code, or one unit of the last place."""
        wanted, found = self.file[name], np.asarray(found)
        assert found.shape == wanted.shape, name
        if wanted.dtype.kind != "f":
            return float((found != wanted).sum())
        there = np.isfinite(wanted)
        if (np.isfinite(found) != there).any():
            return np.inf
        wanted, found = wanted[there].astype(np.float64), found[there].astype(np.float64)
        gap = np.abs(found - wanted)
        if name.endswith("norms"):
            gap, size = gap / wanted, 1.0
        else:
            size = np.abs(wanted).max()
        allowed = 10 * max(float(self.file[f"noise/{name}"]), np.finfo(np.float32).eps * size)
        return float(gap.max() / allowed)


@pytest.fixture(scope="session")
def reference():
    return Reference()


@pytest.fixture(scope="session")
def small_source(reference) -> PublishedDirectory:
    """The model whose weights are a formula, as if it had been read from a directory."""
    facts = reference.facts
    sizes = formula.GPT
    args = ModelArgs(
        gpt_layers=sizes["layers"],
        gpt_n_model_channels=sizes["model_dim"],
        decoder_input_dim=sizes["model_dim"],
        gpt_n_heads=sizes["heads"],
        gpt_max_audio_tokens=sizes["max_mel_tokens"],
        gpt_max_text_tokens=sizes["max_text_tokens"],
        gpt_number_text_tokens=formula.TEXT_TOKENS,
        gpt_num_audio_tokens=formula.CODES + 2,
        gpt_start_audio_token=formula.CODES,
        gpt_stop_audio_token=formula.CODES + 1,
        d_vector_dim=formula.SPEAKER_SIZE,
    )

    def tensor(name, shape):
        if name.endswith("num_batches_tracked"):
            return np.array(0)
        if "torch_spec" in name:
            return reference[f"constant/{name}"]
        if name.startswith("discrete_loss"):
            return np.zeros(shape, np.float32)
        return formula.weight(name, tuple(shape), facts["gains"].get(name, 1.0))

    book = reference["codebook"]
    made = {
        "codebook.embed": book,
        "codebook.embed_avg": book * np.float32(1.5),
        "codebook.cluster_size": np.full(formula.CODES, 1.5, np.float32),
    }
    dvae = {n: tensor(n, shape) for n, shape in facts["dvae_shapes"].items() if n not in made}
    return PublishedDirectory(
        path="formula",
        config=PublishedConfig(args),
        model={name: tensor(name, shape) for name, shape in facts["shapes"].items()},
        vocabulary=VOCABULARY.read_text(encoding="utf-8"),
        dvae=dvae | made,
    )


@pytest.fixture(scope="session")
def small(small_source) -> Published:
    """Its networks. A test that changes a weight puts it back."""
    return Published.load(small_source)


@pytest.fixture(scope="session")
def published_directory(small_source, reference, tmp_path_factory) -> Path:
    """The same as files, with a voice of its own and without a DVAE."""
    latents = reference["conditioning/latents"][:1]
    speakers = {"Ana": (latents, formula.speaker_vector()[..., None])}
    path = tmp_path_factory.mktemp("published") / "model"
    dataclasses.replace(small_source, speakers=speakers, dvae=None).write(path)
    return path


@pytest.fixture(scope="session")
def published_voice(published_directory) -> PublishedVoice:
    """Traced once for all tests; one that changes its settings puts them back."""
    return PublishedVoice.load(published_directory)
