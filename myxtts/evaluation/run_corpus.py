"""The clips that a run was trained on, and those that were held out."""

import os

from myxtts import UserError
from myxtts.corpus.manifest import Corpus
from myxtts.training.run_directory import RunDirectory


def run_corpus(
    run: RunDirectory, prepared: str | os.PathLike | None = None
) -> tuple[Corpus, Corpus]:
    """(training, held out), divided as train.py does.

    `prepared` is the prepared directory, for runs whose manifests do not say where it is.
    """
    validation = None
    if prepared is None:
        prepared = _place(run, "training")
        if prepared is None:
            raise UserError(
                f"{run.manifests} does not say which corpus {run.path} was trained on; name its "
                "prepared directory with --prepared_dir"
            )
        validation = _place(run, "validation")
    corpus = Corpus.load(prepared)
    if validation is not None:
        return corpus, Corpus.load(validation, known=corpus)
    training, held_out = corpus.split(run.config().validation_share)
    if not len(held_out):
        raise UserError(
            f"no clip of {prepared} is held out (validation_share is "
            f"{run.config().validation_share:g}), so there is nothing to measure on"
        )
    return training, held_out


def _place(run: RunDirectory, part: str) -> str | None:
    try:
        return (run.manifests / part / "prepared.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
