"""Two vocoders at equal processor time: inverse transform at frame rate, and HiFi-GAN's generator.

    python tests/benchmarks/vocoder_heads.py [--minutes=10] [--dir=/somewhere]

Both are trained with the same losses on the same clips, one thread, in turns, until each has had so
many minutes of processor time. Printed are the distances of log-mels and of log-magnitudes, on new
sentences and on other voices, and the processor time that 5 s of speech take. The frame-rate
network is the package's, of size `tiny`; also without its corrections. The generator is HiFi-GAN's
(V1's shape: strides 8, 8, 2, 2, three kernels with three dilations each), with its 512 channels and
with a quarter of them, and is not used by the package.
"""

import statistics
import tempfile
import time
from pathlib import Path

import keras
import tensorflow as tf
from absl import app, flags
from keras import layers
from vocoder_training import AUDIO, Training, distances, recordings

from myxtts.model.config import SIZES, VocoderConfig
from myxtts.model.vocoder import Vocoder

FLAGS = flags.FLAGS
flags.DEFINE_float("minutes", 10.0, "Processor time of each training.")
flags.DEFINE_string("dir", None, "Where the speech is made and kept; default: a temporary one.")
ROUNDS = 5


class Generator(keras.Model):
    """Transposed convolutions from frames to samples, with residual blocks between them."""

    def __init__(self, channels: int):
        super().__init__(autocast=False)
        self.first = layers.Conv1D(channels, 7, padding="same")
        self.ups, self.stacks = [], []
        for i, stride in enumerate((8, 8, 2, 2)):
            width = channels // 2 ** (i + 1)
            self.ups.append(layers.Conv1DTranspose(width, 2 * stride, stride, padding="same"))
            self.stacks.append(
                [
                    [
                        (
                            layers.Conv1D(width, kernel, padding="same", dilation_rate=dilation),
                            layers.Conv1D(width, kernel, padding="same"),
                        )
                        for dilation in (1, 3, 5)
                    ]
                    for kernel in (3, 7, 11)
                ]
            )
        # Spelled out as attributes, so that Keras finds them in the nested lists.
        self.found = [layer for up in self.stacks for r in up for pair in r for layer in pair]
        self.last = layers.Conv1D(1, 7, padding="same", activation="tanh")

    def call(self, mel):
        x = self.first(mel * 0.25 + 1.0)
        for up, stack in zip(self.ups, self.stacks, strict=True):
            x = up(tf.nn.leaky_relu(x, 0.1))
            x = tf.add_n([self._residual(x, pairs) for pairs in stack]) / len(stack)
        return self.last(tf.nn.leaky_relu(x, 0.1))[..., 0]

    def _residual(self, x, pairs):
        for dilated, plain in pairs:
            x += plain(tf.nn.leaky_relu(dilated(tf.nn.leaky_relu(x, 0.1)), 0.1))
        return x


def frame_rate(config: VocoderConfig):
    vocoder = Vocoder(config, AUDIO, speaker_size=1)

    def vocode(mel, training=True):
        return vocoder(mel, tf.zeros([tf.shape(mel)[0], 1]), training=training)

    return vocoder, vocode, lambda mel: vocode(mel, training=False)


def generator(channels: int):
    network = Generator(channels)
    network(tf.zeros([1, 8, AUDIO.n_mels]))
    return network, network, network


def seconds_of(vocode, mel) -> float:
    vocode(mel)
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        vocode(mel).numpy()
        took.append(time.process_time() - start)
    return statistics.median(took)


def main(_):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    place = Path(FLAGS.dir or tempfile.mkdtemp())
    trained = recordings(place / "trained", 20, 8, 0)
    held_out = (
        recordings(place / "sentences", 2, 8, 99)[:5],
        recordings(place / "voices", 2, 8, 98, first_voice=20)[:5],
    )
    seconds = FLAGS.minutes * 60
    sides = {}
    for name, make in (
        ("inverse transform", lambda: frame_rate(SIZES["tiny"].vocoder)),
        ("HiFi-GAN, 128 channels", lambda: generator(128)),
        ("HiFi-GAN, 512 channels", lambda: generator(512)),
    ):
        keras.utils.set_random_seed(0)
        network, vocode, used = make()
        training = Training(vocode, network.trainable_variables, trained, seconds)
        sides[name] = network, training, tf.function(used, reduce_retracing=True)
    for _ in range(ROUNDS):
        for _, training, _ in sides.values():
            training.spend(seconds / ROUNDS)
    speech = tf.constant(trained[0][1][None, : int(5 * AUDIO.sample_rate / AUDIO.hop_length)])
    print(f"{'':26}{'weights':>12}{'steps':>8}{'sentences':>16}{'voices':>16}{'ms for 5 s':>12}")
    for name, (network, training, used) in sides.items():
        rows = [(name, used)]
        if isinstance(network, Vocoder):
            rows.append((f"{name}, bare", _without_corrections(network)))
        for row, vocode in rows:
            print(
                f"{row:26}{network.count_params():12,}{training.steps:8}"
                + "".join("{:9.3f}{:7.3f}".format(*distances(vocode, c)) for c in held_out)
                + f"{1000 * seconds_of(vocode, speech):12.0f}",
                flush=True,
            )


def _without_corrections(network: Vocoder):
    def vocode(mel):
        corrections, network.corrections = network.corrections, 0
        made = network(mel, tf.zeros([tf.shape(mel)[0], 1]))
        network.corrections = corrections
        return made

    return tf.function(vocode, reduce_retracing=True)


if __name__ == "__main__":
    app.run(main)
