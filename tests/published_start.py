"""A published model of the smallest sizes that training can start from, with random weights."""

import json
from pathlib import Path

import keras
import numpy as np

from myxtts.text.languages import find_language
from myxtts.xtts_v2.config import ModelArgs, PublishedConfig
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.hifigan import HifiGan
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.networks import make_conditioning, make_gpt
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.sizes import DvaeSizes, HifiGanSizes, PublishedModel, SpeakerSizes
from myxtts.xtts_v2.speaker import SpeakerEncoder

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
    ids = {token: number for number, token in enumerate([*special, *letters])}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": ids[token], "content": token, "special": True, **plain} for token in special]
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "[UNK]",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "vocab": ids,
            "merges": [],
        },
    }
    return json.dumps(file)


def make_start(
    path: Path,
    vocabulary: str | None = None,
    *,
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    dvae: DvaeSizes = SMALL_DVAE,
    hifigan_width: int = 16,
    speaker: SpeakerSizes = SMALL_SPEAKER,
    mel_stats: np.ndarray | None = None,
    seed: int = 0,
) -> PublishedDirectory:
    """Writes it into the new directory `path`. `vocabulary`: the text of a vocab.json."""
    vocabulary = vocabulary or letters_vocabulary("en", "de")
    file = json.loads(vocabulary)
    ids = file["model"]["vocab"]
    tokens = 1 + max([*file["model"]["vocab"].values(), *(t["id"] for t in file["added_tokens"])])
    args = ModelArgs(
        gpt_layers=layers,
        gpt_n_model_channels=width,
        decoder_input_dim=width,
        gpt_n_heads=heads,
        gpt_max_audio_tokens=280,
        gpt_max_text_tokens=200,
        gpt_number_text_tokens=tokens,
        gpt_num_audio_tokens=dvae.codes + 2,
        gpt_start_audio_token=dvae.codes,
        gpt_stop_audio_token=dvae.codes + 1,
        d_vector_dim=speaker.size,
    )
    model = PublishedModel(
        args=args,
        speaker=speaker,
        hifigan=HifiGanSizes(inputs=width, width=hifigan_width, speaker=speaker.size),
        dvae=dvae,
    )
    keras.utils.set_random_seed(seed)
    stats = np.full(80, 5.0, np.float32) if mel_stats is None else mel_stats.astype(np.float32)
    tables = made_tables(model)
    directory = PublishedDirectory(
        path=str(path),
        config=PublishedConfig(args),
        model={**tables[0], "mel_stats": stats},
        dvae=tables[1],
        vocabulary=vocabulary,
        # A tag that nothing published has stands for a language that was added.
        normaliser=Normaliser().with_language("fa") if "[fa]" in ids else Normaliser(),
        licence=LICENCE,
    )
    directory.write(path)
    return directory


def made_tables(model: PublishedModel) -> tuple[dict, dict]:
    """Random tensors under their published names."""
    names, dvae = Names(), Names()
    make_conditioning(model, names), make_gpt(model, names)
    SpeakerEncoder(model.speaker, names), HifiGan(model.hifigan, names)
    Dvae(model.dvae, dvae)
    return names.tensors(), dvae.tensors()
