"""A run whose networks are the published ones, as a published directory."""

import dataclasses
import os
from pathlib import Path

from myxtts import UserError
from myxtts.training.networks import load_networks
from myxtts.training.run_directory import RunDirectory
from myxtts.xtts_v2.directory import MODEL_FILES, PublishedDirectory


def published_source(path: str | os.PathLike) -> PublishedDirectory | None:
    """The published networks in `path`: a published directory, a run begun from one, or one of its
    checkpoints. None where `path` is a run with networks of our own."""
    if any((Path(path) / name).is_file() for name in MODEL_FILES):
        return PublishedDirectory.open(path)
    run = RunDirectory.holding(path)
    if run.config().model.form == "own":
        return None
    return _trained(run, path)


def _trained(run: RunDirectory, path: str | os.PathLike) -> PublishedDirectory:
    """What the run started from, with what it trained in its place; adapters are added up."""
    if run.weights("gpt") is None:
        raise UserError(f"{run.path} holds no trained gpt yet; go on with the training first")
    source, networks = PublishedDirectory.open(run.init), load_networks(path)
    model = dict(source.model)
    for network in (networks.conditioning, networks.gpt):
        model |= network.published_names.tensors()
    return dataclasses.replace(source, path=str(path), model=model)
