"""How much of a batch is padding: the bucketed plan against random batches.

    python tests/benchmarks/padding.py [PREPARED_DIRECTORY ...]

For lengths distributed as in well-known corpora (drawn, from their published means and ranges) and
for prepared corpora named on the command line. Random batches are padded to their longest clip.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from myxtts.config import AudioConfig, BatchConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan

CLIPS, BATCH = 13_000, 16


def distributions():
    chance = np.random.default_rng(0)

    def drawn(values, low, high):
        return np.clip(values, low, high)[:CLIPS]

    yield "like LJSpeech", drawn(chance.normal(6.6, 2.2, CLIPS), 1.1, 10.1)
    yield "like VCTK", drawn(chance.lognormal(np.log(3.4), 0.3, CLIPS), 1.2, 15)
    yield "like Common Voice", drawn(chance.normal(5.2, 1.6, CLIPS), 1.3, 11)
    yield "like LibriTTS", drawn(chance.gamma(1.6, 3.6, CLIPS), 0.5, 20)
    yield "even, 0.3 to 20 s", chance.uniform(0.3, 20, CLIPS)


def main() -> None:
    corpora = [(name, (seconds * 22050).astype(int)) for name, seconds in distributions()]
    corpora += [(path, Corpus.load(path).samples) for path in sys.argv[1:]]
    print(f"batches of {BATCH}; padding share of bucketed, static and random batches")
    for name, samples in corpora:
        same = np.zeros(len(samples), int)
        start = time.perf_counter()
        plan = BatchPlan(
            samples,
            speaker_ids=same,
            language_ids=same,
            config=BatchConfig(BATCH),
            audio=AudioConfig(),
        )
        bucketed = np.mean([plan.padding_share(epoch) for epoch in range(3)])
        took = (time.perf_counter() - start) / 3
        static = BatchPlan(
            samples,
            speaker_ids=same,
            language_ids=same,
            config=BatchConfig(BATCH, static_shapes=True),
            audio=AudioConfig(),
        )
        order = np.random.default_rng(1).permutation(len(samples))
        rows = samples[order[: len(order) // BATCH * BATCH]].reshape(-1, BATCH)
        random = 1 - rows.sum() / (rows.max(1) * BATCH).sum()
        print(
            f"{name:20} {len(samples):6} clips: bucketed {bucketed:5.1%} in "
            f"{len(plan.bucket_frames)} shapes, one shape {static.padding_share():5.1%}, random "
            f"{random:5.1%} in {len(np.unique(rows.max(1)))} shapes; "
            f"{random / bucketed:.1f} times less padding; a plan takes {1000 * took:.0f} ms"
        )


if __name__ == "__main__":
    main()
