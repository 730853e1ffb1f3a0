"""How far apart two texts or two pieces of speech are."""

from collections.abc import Sequence

import numpy as np


def edits(found: Sequence, wanted: Sequence) -> int:
    """Insertions, deletions and replacements that make `wanted` of `found` (Levenshtein)."""
    wanted = np.array(list(wanted), object)
    steps = np.arange(len(wanted) + 1)
    row = steps
    for item in found:
        without_insertions = np.minimum(row[1:] + 1, row[:-1] + (wanted != item))
        best = np.concatenate([[row[0] + 1], without_insertions])
        # A run of insertions costs one each: the cheapest start of it, by a running minimum.
        row = np.minimum.accumulate(best - steps) + steps
    return int(row[-1])


def character_error(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Edits per character of `wanted`, over all the texts together."""
    total = sum(edits(f, w) for f, w in zip(found, wanted, strict=True))
    return total / max(1, sum(map(len, wanted)))
