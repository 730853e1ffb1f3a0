"""Log-mels of a batch with tf.data's features against librosa clip by clip.

    python tests/benchmarks/features.py

Each case is a process of its own. With n threads, the clips of a batch are worked on by n threads
of TensorFlow's executor (the graph has a piece per clip) and by n Python threads; within a clip
both sides have one thread (intra-op, BLAS, OpenMP). The sides take turns; the median of the rounds
counts. Wall time depends on what else the machine does: the fastest round, which was disturbed
least, and the processor time are printed as well.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS, CLIPS, SECONDS = 41, 16, 7.0


def measure(threads: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from concurrent.futures import ThreadPoolExecutor

    import librosa
    import numpy as np
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from myxtts.config import AudioConfig
    from myxtts.features import make_log_mel

    audio = AudioConfig()
    samples = int(SECONDS * audio.sample_rate) // audio.hop_length * audio.hop_length
    chance = np.random.default_rng(0)
    pcm = (3000 * chance.standard_normal((CLIPS, samples))).astype(np.int16)
    lengths = tf.fill([CLIPS], samples)
    log_mel = make_log_mel(audio)
    batch = tf.constant(pcm)

    @tf.function(jit_compile=False)
    def batched(waveform):
        return log_mel(waveform, lengths)[0]

    def one(clip):
        mel = librosa.feature.melspectrogram(
            y=clip.astype(np.float32) / 32768,
            sr=audio.sample_rate,
            n_fft=audio.n_fft,
            hop_length=audio.hop_length,
            n_mels=audio.n_mels,
            fmin=audio.f_min,
            fmax=audio.f_max,
        )
        return np.log(np.maximum(mel, audio.log_floor)).T

    pool = ThreadPoolExecutor(threads)

    def by_librosa():
        return list(pool.map(one, pcm)) if threads > 1 else [one(clip) for clip in pcm]

    ours, theirs = batched(batch).numpy(), np.stack(by_librosa())
    apart = float(np.abs(ours - theirs[:, : ours.shape[1]]).max())
    sides = {"features": lambda: batched(batch).numpy(), "librosa": by_librosa}
    wall = {name: [] for name in sides}
    busy = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, run in sides.items():
            start, cpu = time.perf_counter(), time.process_time()
            run()
            wall[name].append(1000 * (time.perf_counter() - start))
            busy[name].append(1000 * (time.process_time() - cpu))
    middle = {name: sorted(values)[ROUNDS // 2] for name, values in wall.items()}
    used = {name: sorted(values)[ROUNDS // 2] for name, values in busy.items()}
    print(f"{threads} thread{'s' * (threads > 1)}, {CLIPS} clips of {SECONDS:g} s, ms a batch:")
    for what, values in (
        ("median round", middle),
        ("fastest round", {name: min(values) for name, values in wall.items()}),
        ("processor time", used),
    ):
        a, b = values["features"], values["librosa"]
        print(f"  {what:14} features {a:5.1f}, librosa {b:5.1f}, ratio {b / a:.2f}")
    print(f"  largest difference in log-mel {apart:.1e}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
        sys.exit()
    for threads in (1, 2):
        inner = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
        subprocess.run(
            [sys.executable, __file__, str(threads)],
            env={**os.environ, **inner, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=subprocess.DEVNULL,
            check=True,
        )
