"""The vocoder against Griffin-Lim on clips it was not trained on.

    python tests/benchmarks/vocoder_quality.py [--minutes=30] [--dir=/somewhere]

Trains the vocoder of size `tiny` alone, from recorded mels of 20 minutes of embedded speech, for so
many minutes of processor time (of one thread), and prints the distance of log-mels on new sentences
of the voices trained on and on sentences of voices that were not. Beside it Griffin-Lim's, this
package's and librosa's, which do not depend on training.
"""

import tempfile
from pathlib import Path

import keras
import librosa
import numpy as np
import tensorflow as tf
from absl import app, flags
from vocoder_training import AUDIO, HOP, Training, distance, recordings

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
    print(f"{'':28}" + "".join(f"{name:>16}" for name in held_out), flush=True)
    best = {}
    for name, vocode in (("Griffin-Lim, librosa's", librosas), ("Griffin-Lim", plain)):
        best = {kind: distance(vocode, clips) for kind, clips in held_out.items()}
        print(f"{name:28}" + "".join(f"{value:16.3f}" for value in best.values()), flush=True)
    keras.utils.set_random_seed(0)
    vocoder = Vocoder(SIZES["tiny"].vocoder, AUDIO, speaker_size=1)

    def vocode(mel):
        return vocoder(mel, tf.zeros([tf.shape(mel)[0], 1]))

    seconds = FLAGS.minutes * 60
    training = Training(vocode, vocoder.trainable_variables, trained, seconds)
    in_graph = tf.function(vocode, reduce_retracing=True)
    for _ in range(6):
        training.spend(seconds / 6)
        found = {kind: distance(in_graph, clips) for kind, clips in held_out.items()}
        name = f"network, {training.spent / 60:.1f} min, {training.steps} steps"
        print(f"{name:28}" + "".join(f"{value:16.3f}" for value in found.values()), flush=True)
    lower = [f"{kind} {1 - found[kind] / best[kind]:.0%}" for kind in found]
    print(f"lower than Griffin-Lim by: {', '.join(lower)}")


if __name__ == "__main__":
    app.run(main)
