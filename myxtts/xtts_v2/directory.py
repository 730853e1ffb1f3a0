"""A directory in the published layout, read and written.

    published = PublishedDirectory.open("XTTS-v2")
    published.write("copy")

    model.pth          the tensors of GPT, conditioning, speaker encoder and HiFi-GAN
    config.json        sizes, and how the voice speaks
    vocab.json         the BPE vocabulary, in the format of Hugging Face's tokenizers
    dvae.pth           the tensors of the DVAE; without them a model speaks but cannot be trained
    mel_stats.pth      what every mel band is divided by; model.pth holds it as well
    speakers_xtts.pth  voices by name, if there are any
    text.json          how the training texts were written; not in directories from others
    LICENSE.txt        what the weights may be used for

Instead of model.pth there may be model.safetensors, or best_model.pth of the published trainer.
"""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np

from myxtts import UserError
from myxtts.xtts_v2.config import CPML, PublishedConfig
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.pth import write_pth
from myxtts.xtts_v2.sizes import (
    PUBLISHED_OBJECTIVE,
    ConditioningSizes,
    DvaeSizes,
    HifiGanSizes,
    Objective,
    PublishedModel,
    SpeakerSizes,
)
from myxtts.xtts_v2.weights import read_dvae, read_mel_stats, read_speakers, read_weights

MODEL_FILES = ("model.pth", "model.safetensors", "best_model.pth")
_MEL_STATS = "mel_stats"


@dataclasses.dataclass(frozen=True)
class PublishedDirectory:
    """The contents of a directory. Tensors are mapped from the files and read only when they are
    used."""

    path: str
    config: PublishedConfig
    model: dict[str, np.ndarray]
    vocabulary: str  # vocab.json
    dvae: dict[str, np.ndarray] | None = None  # None: this model speaks but cannot be trained
    speakers: dict[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    normaliser: Normaliser = Normaliser()
    ignored: tuple[str, ...] = ()  # tensors in the file that are not needed
    # Published files do not state their licence, so a file without one is taken to have theirs. The
    # licence stays with the weights through every training and export.
    licence: str = CPML

    @classmethod
    def open(cls, path: str | os.PathLike) -> "PublishedDirectory":
        """Reads everything except the values of tensors. UserError names files that are missing or
        do not belong together."""
        path = Path(path)
        model_file = _model_file(path)
        for name in ("config.json", "vocab.json"):
            if not (path / name).is_file():
                raise UserError(
                    f"{path} has no {name}; put the {name} beside {model_file.name} that was "
                    "published with these weights"
                )
        config = PublishedConfig.load(path / "config.json")
        weights = read_weights(model_file)
        if not any(name.startswith("gpt.conditioning_perceiver.") for name in weights.model):
            raise UserError(
                f"{model_file} has no Perceiver (gpt.conditioning_perceiver): it is a model of "
                "XTTS v1, which is not read; take one of XTTS v2"
            )
        vocabulary = _vocabulary(path / "vocab.json")
        _check_sizes(path, config, weights.model, json.loads(vocabulary))
        dvae = weights.dvae or None
        if (path / "dvae.pth").exists():
            dvae = read_dvae(path / "dvae.pth")
        speakers = path / "speakers_xtts.pth"
        return cls(
            path=str(path),
            config=config,
            model=_with_mel_stats(weights.model, path),
            vocabulary=vocabulary,
            dvae=dvae,
            speakers=read_speakers(speakers) if speakers.exists() else {},
            normaliser=Normaliser.load(path),
            ignored=weights.ignored,
            licence=weights.licence or CPML,
        )

    @property
    def mel_stats(self) -> np.ndarray:
        """float32 [mels]: the divisor of every mel band."""
        return self.model[_MEL_STATS]

    def sizes(self, objective: Objective = PUBLISHED_OBJECTIVE) -> PublishedModel:
        """The sizes that decide which variables the networks have."""
        args, ids = self.config.model_args, json.loads(self.vocabulary)["model"]["vocab"]
        start, stop = args.gpt_start_text_token, args.gpt_stop_text_token
        return PublishedModel(
            args=args,
            start_text=ids["[START]"] if start is None else start,
            stop_text=ids["[STOP]"] if stop is None else stop,
            conditioning=ConditioningSizes.of(self.model),
            speaker=SpeakerSizes.of(self.model),
            hifigan=HifiGanSizes.of(self.model),
            dvae=DvaeSizes.of(self.dvae or {}),
            objective=objective,
        )

    def need_dvae(self) -> dict[str, np.ndarray]:
        """The tensors of the DVAE, which training needs."""
        if self.dvae is None:
            raise UserError(
                f"{self.path} has no dvae.pth, so it speaks but cannot be trained; "
                "put the dvae.pth that was published with these weights beside them"
            )
        return self.dvae

    def write(self, path: str | os.PathLike) -> None:
        """Writes a new directory. An incomplete one never appears under this name."""
        path = Path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{path} exists and is not empty; give a new directory to write to")
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            partial.mkdir(parents=True)
            self._write_files(partial)
            if path.exists():
                path.rmdir()
            os.rename(partial, path)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}; make room") from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _write_files(self, path: Path) -> None:
        state = {"model": dict(self.model), "licence": self.licence}
        write_pth(path / "model.pth", state)
        write_pth(path / "mel_stats.pth", self.mel_stats)
        self.config.save(path / "config.json")
        (path / "vocab.json").write_text(self.vocabulary, encoding="utf-8")
        self.normaliser.save(path)
        (path / "LICENSE.txt").write_text(self.licence + "\n", encoding="utf-8")
        if self.dvae is not None:
            write_pth(path / "dvae.pth", dict(self.dvae))
        if self.speakers:
            names = ("gpt_cond_latent", "speaker_embedding")
            voices = {
                name: dict(zip(names, pair, strict=True)) for name, pair in self.speakers.items()
            }
            write_pth(path / "speakers_xtts.pth", voices)


def is_published(path: str | os.PathLike) -> bool:
    """Whether `path` is a directory in the published layout, rather than one of our runs."""
    path = Path(path)
    return (path / "vocab.json").is_file() and any((path / name).is_file() for name in MODEL_FILES)


def _model_file(path: Path) -> Path:
    if not path.is_dir():
        raise UserError(f"{path} is no directory; give one that holds model.pth and config.json")
    for name in MODEL_FILES:
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path} holds none of {', '.join(MODEL_FILES)}; it is no XTTS v2 directory")


def _vocabulary(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
        if not isinstance(json.loads(text)["model"]["vocab"], dict):
            raise ValueError("its vocabulary is no table")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read as a vocabulary: {error!r}") from None
    return text


def _check_sizes(path: Path, config: PublishedConfig, model: dict, vocabulary: dict) -> None:
    """Refuses files whose vocabulary, token table and config.json have different numbers of
    tokens."""
    tokens = 1 + max(
        *vocabulary["model"]["vocab"].values(),
        *(token["id"] for token in vocabulary.get("added_tokens", ())),
        -1,
        -1,
    )
    table = model.get("gpt.text_embedding.weight")
    rows = tokens if table is None else table.shape[0]
    told = config.model_args.gpt_number_text_tokens
    if not tokens == rows == told:
        raise UserError(
            f"{path}: vocab.json has {tokens} tokens, the model's table has {rows} rows and "
            f"config.json says {told}; take all three files of one version"
        )


def _with_mel_stats(model: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    file = path / "mel_stats.pth"
    beside = read_mel_stats(file) if file.exists() else None
    inside = model.get(_MEL_STATS)
    if inside is None and beside is None:
        raise UserError(f"{path} has no mel_stats, neither in the model nor as mel_stats.pth")
    if inside is not None and beside is not None:
        near = np.asarray(inside, np.float32), beside
        if near[0].shape != near[1].shape or not np.allclose(*near, rtol=2e-3):
            raise UserError(
                f"{file} and the mel_stats in the model differ; one is of another model"
            )
    return {**model, _MEL_STATS: beside if inside is None else inside}
