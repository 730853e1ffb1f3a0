"""Preparing 1,000 and 10,000 clips: speed and peak memory must not depend on the size.

    python tests/benchmarks/preparing.py [DIRECTORY]

The corpora (one in four clips is 44.1 kHz stereo and needs a copy) are written to DIRECTORY or to
a temporary one. Every run is a process of its own; small and large take turns. Then: the same
command again when nothing has changed, and the time from nothing to the first batch.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES, ROUNDS = (1_000, 10_000), 3

RUN = """
import json, resource, sys, time
sys.path.insert(0, {root!r})
from myxtts.corpus.prepare import Source, prepare
from myxtts.corpus.summary import Summary
stamps, add = [], Summary.add
Summary.add = lambda *a: (stamps.append(time.perf_counter()), add(*a))
start = time.perf_counter()
_, summary = prepare(Source({corpus!r}), workers=2, progress=False)
seconds = time.perf_counter() - start
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
busy = sum(usage.ru_utime + usage.ru_stime for usage in used)
peak = [usage.ru_maxrss for usage in used]
# Up to 64 clips are ahead of the one that is counted, but none at the end: those are left out.
steady = (len(stamps) - 364) / (stamps[-65] - stamps[299])
print(json.dumps([summary.clips, summary.copies, seconds, steady, busy, *peak]))
"""
FIRST_BATCH = """
import json, sys, time
sys.path.insert(0, {root!r})
import tensorflow as tf
from myxtts.config import AudioConfig, BatchConfig, TextConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.batches import read_batches
from myxtts.corpus.texts import encode_texts
from myxtts.text.vocabulary import Vocabulary
now = time.perf_counter
times = [now()]
corpus = Corpus.load({corpus!r} + "/prepared")
times.append(now())
vocabulary = Vocabulary.train(corpus.texts, ["en"] * len(corpus), TextConfig())
times.append(now())
corpus, texts = encode_texts(corpus, vocabulary, 402)
times.append(now())
ids = corpus.speaker_ids, corpus.language_ids
plan = BatchPlan(corpus.samples, *ids, BatchConfig(), AudioConfig())
next(iter(read_batches(corpus, texts, plan, begin=(7, 33))))
times.append(now())
print(json.dumps([b - a for a, b in zip(times, times[1:])]))
"""


def lay_out(root: Path, clips: int) -> Path:
    import numpy as np
    import soundfile

    sys.path.insert(0, str(ROOT))
    from myxtts.corpus.sentences import different_sentences

    (root / "wavs").mkdir(parents=True)
    chance = np.random.default_rng(clips)
    sentences = different_sentences("en", clips)
    with open(root / "metadata.csv", "w", encoding="utf-8") as table:
        for i in range(clips):
            rate, channels = (44100, 2) if i % 4 == 0 else (22050, 1)
            size = (int(chance.uniform(1.0, 3.0) * rate), channels)
            sound = (2000 * chance.standard_normal(size)).astype(np.int16)
            soundfile.write(root / "wavs" / f"c{i}.wav", sound, rate)
            table.write(f"c{i}|{next(sentences)}|\n")
    return root


def fresh(code: str, corpus: Path) -> list:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code.format(root=str(ROOT), corpus=str(corpus))],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(where: Path) -> None:
    corpora = {size: lay_out(where / str(size), size) for size in SIZES}
    figures = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size, corpus in corpora.items():
            shutil.rmtree(corpus / "prepared", ignore_errors=True)
            clips, copies, seconds, steady, busy, own, workers = fresh(RUN, corpus)
            assert clips == size and copies == size // 4
            figures[size].append(
                (clips / seconds, steady, clips / busy, own / 1024, workers / 1024)
            )
    small, large = (
        [sorted(column)[ROUNDS // 2] for column in zip(*figures[size], strict=True)]
        for size in SIZES
    )
    for size, (speed, steady, per_busy, own, workers) in zip(SIZES, (small, large), strict=True):
        print(
            f"{size:6} clips: {speed:.0f} clips/s, {steady:.0f} after the first 300 (the workers "
            f"have started), {per_busy:.0f} per second of processor time; peak memory "
            f"{own:.1f} MB, a worker {workers:.1f} MB"
        )
    names = (
        "clips/s",
        "after the first 300",
        "per processor second",
        "peak memory",
        "worker's peak memory",
    )
    ratios = [f"{name} {b / a:.3f}" for name, a, b in zip(names, small, large, strict=True)]
    print(f"large / small: {', '.join(ratios)}")
    for size, corpus in corpora.items():
        start = time.perf_counter()
        fresh(RUN, corpus)
        again = time.perf_counter() - start
        load, train, encode, first = fresh(FIRST_BATCH, corpus)
        print(
            f"{size:6} clips: again, nothing changed, {again:.2f} s with the start of Python; "
            f"manifest {load:.2f} s, training a vocabulary {train:.2f} s, encoding the texts "
            f"{encode:.2f} s, plan and first batch (33 of epoch 7) {first:.2f} s"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory))
