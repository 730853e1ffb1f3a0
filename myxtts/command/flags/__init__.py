"""The flags of `train.py`.

table      what a flag is, how it is registered and described
data       flags of the corpus and of its batches
training   flags of the networks and of their training
run        flags of devices, the run directory, and what to do instead of training
spellings  the spellings of older scripts
arguments  parsing: flag files, older spellings, all mistakes at once

A new flag is one `Flag` in `data`, `training` or `run`; with `sets` it fills a settings field.
"""

from myxtts.command.flags import data, run, training
from myxtts.command.flags.table import Flag


def groups() -> dict[str, tuple[Flag, ...]]:
    """All flags by the title of their group, with those of every registered stage."""
    return {
        "Corpus": data.CORPUS,
        "Corpus made without --train_data": data.EMBEDDED,
        "Text": data.TEXT,
        "Batches": data.BATCHES,
        "Augmentation": data.AUGMENTATION,
        "Networks": training.MODEL,
        "From published weights": training.FINE_TUNING,
        "How long": training.how_long(),
        "Optimisation": training.optimisation(),
        "Devices": run.DEVICES,
        "Run directory": run.RUN,
        "Instead of training": run.INSTEAD,
    }


def all_flags() -> tuple[Flag, ...]:
    return tuple(flag for group in groups().values() for flag in group)
