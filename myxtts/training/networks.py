"""The trained networks of a run, for use."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from myxtts.text.vocabulary import Vocabulary
from myxtts.training.checkpoints import read_weights
from myxtts.training.config import TrainConfig
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named, stage_names


@dataclasses.dataclass
class Networks:
    """The networks of a run; those that have not been trained yet are None.

    Those of stages that this class does not name are attributes as well.
    """

    config: TrainConfig
    vocabulary: Vocabulary
    tokenizer: object = None  # model.tokenizer.AudioTokenizer
    speaker: object = None  # model.speaker.SpeakerEncoder
    conditioning: object = None  # model.conditioning.Conditioning
    gpt: object = None  # model.gpt.Gpt
    vocoder: object = None  # model.vocoder.Vocoder


def load_networks(path: str | os.PathLike, stages: Sequence[str] | None = None) -> Networks:
    """The networks of a run with the weights to use (averaged, where there is an EMA).

    `path` may also be one checkpoint inside the run (`RUN/checkpoints/gpt/step-00001500`): then
    that stage has the weights of that moment. Weights that are damaged or do not fit are refused
    by name.
    """
    run = RunDirectory.holding(path)
    found = Networks(run.config(), run.vocabulary())
    form = found.config.model.form
    for stage in stage_names(form) if stages is None else stages:
        directory = run.weights(stage)
        if Path(os.path.abspath(path)).parent == run.stage(stage):
            directory = Path(os.path.abspath(path))
        if directory is not None:
            made = make(stage, found.config.model, len(found.vocabulary))
            read_weights(directory, made)
            for name, network in made.items():
                setattr(found, name, network)
    return found


def make(stage: str, model, text_tokens: int) -> dict[str, keras.Model]:
    """New networks of a stage by name, with all their variables."""
    return stage_named(stage, model.form).make_networks(model, text_tokens)


def parameters(network: keras.Model) -> int:
    """How many numbers of it are trained."""
    return sum(int(np.prod(v.shape)) for v in network.trainable_variables)
