"""Log-mels of a batch with tf.data's features against librosa clip by clip.

    python tests/benchmarks/features.py

Each case is a process of its own in which TensorFlow, BLAS and OpenMP are given the same number of
threads; librosa's clips are shared out over as many Python threads. The sides take turns, the
median of the rounds counts. Wall time depends on what else the machine does, so the processor time
of each side is printed as well.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS, CLIPS, SECONDS = 15, 16, 7.0


def measure(threads: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from concurrent.futures import ThreadPoolExecutor

    import librosa
    import numpy as np
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
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
        return log_mel(tf.cast(waveform, tf.float32) * np.float32(1 / 32768), lengths)[0]

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
    median = {name: sorted(values)[ROUNDS // 2] for name, values in wall.items()}
    used = {name: sorted(values)[ROUNDS // 2] for name, values in busy.items()}
    print(
        f"{threads} thread{'s' * (threads > 1)}, {CLIPS} clips of {SECONDS:g} s: "
        f"features {median['features']:.1f} ms, librosa {median['librosa']:.1f} ms, "
        f"ratio {median['librosa'] / median['features']:.2f} "
        f"(processor time {used['features']:.1f} and {used['librosa']:.1f} ms, "
        f"ratio {used['librosa'] / used['features']:.2f}); "
        f"largest difference {apart:.1e}",
        flush=True,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
        sys.exit()
    for threads in (1, 2):
        names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
        pinned = {f"{name}_NUM_THREADS": str(threads) for name in names}
        if threads > 1:
            # The clips already keep both threads busy; BLAS threads on top only get in the way.
            pinned["OPENBLAS_NUM_THREADS"] = "1"
        subprocess.run(
            [sys.executable, __file__, str(threads)],
            env={**os.environ, **pinned, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=subprocess.DEVNULL,
            check=True,
        )
