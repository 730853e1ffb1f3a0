"""A run whose networks are the published ones, as a published directory."""

import dataclasses
import os
from pathlib import Path

from myxtts import UserError
from myxtts.training.checkpoints import described, read_weights
from myxtts.training.networks import make
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import PUBLISHED_STAGES
from myxtts.xtts_v2.directory import MODEL_FILES, PublishedDirectory
from myxtts.xtts_v2.networks import with_trained


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
    weights = trained_weights(run, path)
    if not weights:
        raise UserError(f"{run.path} holds no trained stage yet; go on with the training first")
    model, text_tokens, networks = run.config().model, len(run.vocabulary()), []
    for stage, directory in weights.items():
        made = make(stage, model, text_tokens)
        read_weights(directory, made)
        networks += made.values()
    made = with_trained(PublishedDirectory.open(run.init), networks)
    return dataclasses.replace(made, path=str(path))


def trained_weights(run: RunDirectory, path: str | os.PathLike) -> dict[str, Path]:
    """The weights of every stage that was trained, in `path` (the run, or a checkpoint in it).
    UserError where the GPT was not trained on the codes that the DVAE makes now, or a network still
    has random weights."""
    here, weights = Path(os.path.abspath(path)), {}
    for stage in PUBLISHED_STAGES:
        found = here if here.parent == run.stage(stage) else run.weights(stage)
        if found is not None:
            weights[stage] = found
    if run.config().model.form == "new_xtts_v2":
        for stage in PUBLISHED_STAGES:
            if stage not in weights:
                raise UserError(
                    f"the {stage} in {run.path} still has the random weights that it began with; "
                    f"train it with --stage={stage}"
                )
    if "tokenizer" not in weights:
        return weights
    record = described(weights["gpt"]) if "gpt" in weights else {"identity": {}}
    if record["identity"].get("tokenizer") == described(weights["tokenizer"])["digest"]:
        return weights
    remedy = "train its GPT on them with --stage=gpt"
    if "gpt" in weights:
        remedy = f"delete {run.stage('gpt')} and {remedy}"
    raise UserError(
        f"the GPT in {run.path} expects the codes of another DVAE than the one that was trained "
        f"there; {remedy}"
    )
