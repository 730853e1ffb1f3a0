"""The vocoder against Griffin-Lim on clips it was not trained on.

    python tests/benchmarks/vocoder_quality.py [--minutes=30] [--dir=/somewhere]

Trains the vocoder of size `tiny` alone, from recorded mels of 20 minutes of embedded speech, for so
many minutes of processor time (of one thread). Printed are two distances on new sentences of the
voices trained on, and the same on sentences of other voices: of log-mels, and of log-magnitudes at
three resolutions. Beside it are Griffin-Lim, librosa's and this package's; what corrections do for
the latter; and the network with random weights, for which they do all there is done.
"""

import tempfile
from pathlib import Path

import keras
import librosa
import numpy as np
import tensorflow as tf
from absl import app, flags
from vocoder_training import AUDIO, HOP, Training, distances, recordings

from myxtts.model.config import SIZES
from myxtts.model.griffin_lim import griffin_lim
from myxtts.model.vocoder import Vocoder

FLAGS = flags.FLAGS
flags.DEFINE_float("minutes", 30.0, "Processor time of the training.")
flags.DEFINE_string("dir", None, "Where the speech is made and kept; default: a temporary one.")


def librosas(mel):
    power = np.exp(mel[0].numpy().T)
    waveform = librosa.feature.inverse.mel_to_audio(
        power, sr=AUDIO.sample_rate, n_fft=AUDIO.n_fft, hop_length=HOP, fmax=AUDIO.f_max
    )
    return np.pad(waveform, (0, HOP))[None, : power.shape[1] * HOP].astype(np.float32)


def main(_):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    place = Path(FLAGS.dir or tempfile.mkdtemp())
    trained = recordings(place / "trained", 20, 8, 0)
    held_out = {
        "new sentences": recordings(place / "sentences", 2, 8, 99),
        "new voices": recordings(place / "voices", 2, 8, 98, first_voice=20),
    }
    plain = tf.function(lambda mel: griffin_lim(mel, AUDIO), reduce_retracing=True)
    keras.utils.set_random_seed(0)
    vocoder = Vocoder(SIZES["tiny"].vocoder, AUDIO, speaker_size=1)

    def vocode(mel, training=True):
        return vocoder(mel, tf.zeros([tf.shape(mel)[0], 1]), training=training)

    def corrected(mel):
        around = tf.concat([mel[:, :1], mel, mel[:, -1:], mel[:, -1:]], 1)
        margin = AUDIO.n_fft // 2 + HOP
        samples = tf.pad(griffin_lim(mel, AUDIO), [[0, 0], [margin, margin]])
        rounds = vocoder.corrections
        return vocoder.within(vocoder.correction.correct(samples, around, rounds))

    print(f"{'':32}" + "".join(f"{kind:>20}" for kind in held_out))
    print(f"{'':32}" + "        mel     magn" * len(held_out), flush=True)

    def judge(name, vocode):
        found = [distances(vocode, clips) for clips in held_out.values()]
        row = "".join(f"{mel:11.3f}{magnitude:9.3f}" for mel, magnitude in found)
        print(f"{name:32}{row}", flush=True)
        return found

    judge("Griffin-Lim, librosa's", librosas)
    best = judge("Griffin-Lim", plain)
    judge("Griffin-Lim, corrected", tf.function(corrected, reduce_retracing=True))
    seconds = FLAGS.minutes * 60
    used = tf.function(lambda mel: vocode(mel, training=False), reduce_retracing=True)
    judge("network, random weights", used)
    training = Training(vocode, vocoder.trainable_variables, trained, seconds)
    for _ in range(6):
        training.spend(seconds / 6)
        found = judge(f"network, {training.spent / 60:.1f} min, {training.steps} steps", used)
    for kind, theirs, ours in zip(held_out, best, found, strict=True):
        print(f"{kind}: mel distance {1 - ours[0] / theirs[0]:.0%} lower than Griffin-Lim's")


if __name__ == "__main__":
    app.run(main)
