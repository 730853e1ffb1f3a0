"""--keep_data=DIR:SHARE: clips of the languages a model has, against forgetting them."""

import dataclasses

import numpy as np
from absl import logging

from myxtts import UserError
from myxtts.corpus.formats import ReadOptions, choose_format
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source


@dataclasses.dataclass(frozen=True)
class Kept:
    source: Source
    share: float  # of the clips to train on

    def mixed(self, corpus: Corpus, kept: Corpus) -> Corpus:
        """`corpus` and as many clips of `kept`, evenly from all of it, as make up the share; all
        of them where they are too few, which a warning says."""
        wanted = round(len(corpus) * self.share / (1 - self.share))
        if wanted < len(kept):
            kept = kept.subset(np.linspace(0, len(kept) - 1, max(wanted, 1)).round().astype(int))
        mixed = corpus.joined(kept)
        found = len(kept) / len(mixed)
        text = f"{len(kept)} clips of {self.source.directory} are {found:.0%} of those trained on"
        if wanted > len(kept):
            logging.warning("%s, %.0f %% were asked for: there are no more", text, 100 * self.share)
        else:
            logging.info("%s", text)
        return mixed


def kept_from(text: str | None, mistakes: list[str]) -> Kept | None:
    """The value of --keep_data."""
    if text is None:
        return None
    directory, _, share = text.rpartition(":")
    try:
        number = float(share)
    except ValueError:
        number = 0.0
    if not directory or not 0 < number < 1:
        mistakes.append(
            f"--keep_data={text}: give a directory and a share of the clips between 0 and 1, such "
            "as old_voices:0.2"
        )
        return None
    source = Source(directory)
    try:
        choose_format(source.root, source.format, ReadOptions(source.metadata, source.audio_dir))
    except UserError as error:
        mistakes.append(f"--keep_data: {error}")
    return Kept(source, number)
