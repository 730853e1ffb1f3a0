"""A published model of the smallest sizes that training can start from, with random weights."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from myxtts.text.languages import find_language
from myxtts.xtts_v2.beginning import random_tensors, with_vocabulary
from myxtts.xtts_v2.config import ModelArgs, PublishedConfig
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.new_vocabulary import vocabulary_file
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.sizes import (
    ConditioningSizes,
    DvaeSizes,
    HifiGanSizes,
    PublishedModel,
    SpeakerSizes,
)

LICENCE = "nobody's: random weights"
SMALL_SPEAKER = SpeakerSizes((8, 8, 16, 16), (1, 1, 1, 1), 16)
SMALL_DVAE = DvaeSizes(width=16, code_size=8, codes=32)


def letters_vocabulary(*languages: str) -> str:
    """A vocab.json of English letters and marks, and Persian ones for fa; without merges."""
    tags = [f"[{language}]" for language in languages]
    special = ["[STOP]", "[UNK]", "[SPACE]", *tags, "[START]"]
    letters = [*"abcdefghijklmnopqrstuvwxyz", *".,!?;:'-"]
    if "fa" in languages:
        letters += sorted(find_language("fa").alphabet)
    return vocabulary_file(special, letters)


def small_model(
    *,
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    dvae: DvaeSizes = SMALL_DVAE,
    hifigan_width: int = 64,
    speaker: SpeakerSizes = SMALL_SPEAKER,
    all_layers: bool = False,
) -> PublishedModel:
    """The sizes, without those that the vocabulary gives.

    `all_layers`: the conditioning and the HiFi-GAN have as many layers as the published code reads;
    tracing them takes four times as long.
    """
    hifigan = HifiGanSizes(inputs=width, width=hifigan_width, speaker=speaker.size)
    conditioning = ConditioningSizes()
    if not all_layers:
        hifigan = dataclasses.replace(hifigan, kernels=(3,), pairs=1)
        conditioning = ConditioningSizes(blocks=1, layers=1)
    args = ModelArgs(
        gpt_layers=layers,
        gpt_n_model_channels=width,
        decoder_input_dim=width,
        gpt_n_heads=heads,
        gpt_max_audio_tokens=280,
        gpt_max_text_tokens=200,
        gpt_num_audio_tokens=dvae.codes + 2,
        gpt_start_audio_token=dvae.codes,
        gpt_stop_audio_token=dvae.codes + 1,
        d_vector_dim=speaker.size,
    )
    return PublishedModel(
        args=args,
        conditioning=conditioning,
        speaker=speaker,
        hifigan=hifigan,
        dvae=dvae,
    )


def make_start(
    path: Path,
    vocabulary: str | None = None,
    *,
    mel_stats: np.ndarray | None = None,
    seed: int = 0,
    **sizes,
) -> PublishedDirectory:
    """Writes it into the new directory `path`. `vocabulary`: the text of a vocab.json; `sizes` are
    those of `small_model`."""
    vocabulary = vocabulary or letters_vocabulary("en", "de")
    ids = json.loads(vocabulary)["model"]["vocab"]
    model = with_vocabulary(small_model(**sizes), vocabulary)
    stats = np.full(80, 5.0, np.float32) if mel_stats is None else mel_stats.astype(np.float32)
    tables = random_tensors(model, seed)
    directory = PublishedDirectory(
        path=str(path),
        config=PublishedConfig(model.args),
        model={**tables[0], "mel_stats": stats},
        dvae=tables[1],
        vocabulary=vocabulary,
        # A tag that nothing published has stands for a language that was added.
        normaliser=Normaliser().with_language("fa") if "[fa]" in ids else Normaliser(),
        licence=LICENCE,
    )
    directory.write(path)
    return directory


@pytest.fixture(scope="session")
def start_directory(tmp_path_factory):
    """A published directory that training can start from; it reads English and German."""
    path = tmp_path_factory.mktemp("start") / "model"
    make_start(path)
    return path
