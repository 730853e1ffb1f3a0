"""Batches per second from disk to log-mel: read_batches and features against soundfile and librosa.

    python tests/benchmarks/reading.py [DIRECTORY]

Both sides read the same clips in the same batches: the clip and its conditioning crop, decoded,
padded, and their log-mels. The other side works clip by clip in a thread pool of as many threads
as TensorFlow's executor and tf.data are given, with two batches submitted ahead; within a clip both
have one thread. The sides take turns; the median counts.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIPS, BATCH, BATCHES, ROUNDS = 640, 16, 20, 7


def lay_out(root: Path) -> None:
    import numpy as np
    import soundfile

    (root / "wavs").mkdir(parents=True)
    chance = np.random.default_rng(0)
    with open(root / "metadata.csv", "w", encoding="utf-8") as table:
        for i in range(CLIPS):
            seconds = float(np.clip(chance.normal(6.6, 2.2), 1.1, 10.1))  # LJSpeech's lengths
            sound = (3000 * chance.standard_normal(int(seconds * 22050))).astype(np.int16)
            soundfile.write(root / "wavs" / f"c{i}.wav", sound, 22050)
            table.write(f"c{i}|Sentence number {i}.|\n")


def measure(root: Path, threads: int) -> None:
    sys.path.insert(0, str(ROOT))
    from concurrent.futures import ThreadPoolExecutor

    import librosa
    import numpy as np
    import soundfile
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from myxtts.config import AudioConfig, BatchConfig, FeatureConfig, TextConfig
    from myxtts.corpus.batches import read_batches
    from myxtts.corpus.manifest import Corpus
    from myxtts.corpus.plan import BatchPlan
    from myxtts.corpus.prepare import Source, prepare
    from myxtts.corpus.texts import encode_texts
    from myxtts.features import make_features
    from myxtts.text.vocabulary import Vocabulary

    corpus = Corpus.load(prepare(Source(root), progress=False)[0])
    vocabulary = Vocabulary.train(corpus.texts, ["en"] * len(corpus), TextConfig())
    corpus, texts = encode_texts(corpus, vocabulary, 402)
    audio = AudioConfig()
    plan = BatchPlan(
        corpus.samples,
        speaker_ids=corpus.speaker_ids,
        language_ids=corpus.language_ids,
        config=BatchConfig(BATCH),
        audio=audio,
    )
    dataset = read_batches(corpus, texts, plan, workers=threads, host_prefetch=2).map(
        make_features(FeatureConfig(audio, keep_waveform=False))
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    batches = iter(dataset.with_options(options))
    pool = ThreadPoolExecutor(threads)

    def log_mel(samples):
        mel = librosa.feature.melspectrogram(
            y=samples, sr=22050, n_fft=1024, hop_length=256, n_mels=80, fmin=0, fmax=8000
        )
        return np.log(np.maximum(mel, 1e-5)).T

    def one(clip, source, start, count):
        samples, _ = soundfile.read(corpus.paths[clip], dtype="float32")
        crop, _ = soundfile.read(corpus.paths[source], count, start, dtype="float32")
        return log_mel(samples), log_mel(crop)

    def padded(mels, frames):
        batch = np.full((BATCH, frames, 80), np.log(1e-5), np.float32)
        for row, mel in enumerate(mels):
            batch[row, : min(len(mel), frames)] = mel[:frames]
        return batch

    def by_librosa():
        epoch, waiting, number = plan.epoch(0), [], 0
        while True:
            while len(waiting) < 3:
                index = number % len(epoch)
                columns = (epoch.clips, epoch.crop_clips, epoch.crop_start, epoch.crop_samples)
                rows = zip(*(column[index].tolist() for column in columns), strict=True)
                frames = int(plan.bucket_frames[epoch.bucket[index]])
                waiting.append((frames, [pool.submit(one, *row) for row in rows]))
                number += 1
            frames, futures = waiting.pop(0)
            mels, crops = zip(*(future.result() for future in futures), strict=True)
            yield padded(mels, frames), padded(crops, 517)

    others = by_librosa()

    def ours():
        next(batches)["mel"].numpy()

    sides = {"read_batches": ours, "librosa": lambda: next(others)}
    speed = {name: [] for name in sides}
    for name in ("read_batches", "librosa", "read_batches", "librosa"):
        sides[name]()
    for _ in range(ROUNDS):
        for name, step in sides.items():
            for _ in range(4):  # what the side prepared while the other one was measured
                step()
            start = time.perf_counter()
            for _ in range(BATCHES):
                step()
            speed[name].append(BATCHES / (time.perf_counter() - start))
    ratios = [a / b for a, b in zip(*speed.values(), strict=True)]
    a, b = (sorted(values)[ROUNDS // 2] for values in speed.values())
    print(
        f"{threads} thread{'s' * (threads > 1)}, batches of {BATCH}: read_batches {a:.1f} "
        f"batches/s, soundfile and librosa {b:.1f}, ratio {sorted(ratios)[ROUNDS // 2]:.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f} by round)",
        flush=True,
    )


def main(root: Path) -> None:
    if not (root / "metadata.csv").exists():
        lay_out(root)
    for threads in (1, 2):
        pinned = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
        subprocess.run(
            [sys.executable, __file__, str(root), str(threads)],
            env={**os.environ, **pinned, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(Path(sys.argv[1]), int(sys.argv[2]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "corpus")
