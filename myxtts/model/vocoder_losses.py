"""The losses that the vocoder is trained with.

    loss = ReconstructionLoss(audio)
    made = vocoder(mel, speaker)
    parts = loss(recorded, made)                          # {"mel", "magnitude", ..., "loss"}
    # and from config.adversarial_from_step on
    parts |= judged(discriminators, recorded, made)       # {"adversarial", "features", "critics"}
    total = parts["loss"] + parts["adversarial"] + 2 * parts["features"]

Waveforms are float32 [B, T] and of one length. Losses are those of the whole batch (`whole_batch`).
"""

import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import mel_filters
from myxtts.model.whole_batch import means, total

RESOLUTIONS = ((512, 128), (1024, 256), (2048, 512))


class ReconstructionLoss:
    """The distance of log-mels, and of magnitudes at three resolutions."""

    def __init__(self, audio: AudioConfig):
        self.audio = audio
        self._filters = mel_filters(audio)

    def __call__(self, recorded: tf.Tensor, made: tf.Tensor) -> dict[str, tf.Tensor]:
        both = tf.concat([recorded, made], 0)
        apart, norms, mel = [], [], 0.0
        for n_fft, hop in RESOLUTIONS:
            power = _power(both, n_fft, hop)
            real, fake = tf.split(tf.sqrt(power + 1e-7), 2)
            apart.append(tf.abs(tf.math.log(real + 1e-3) - tf.math.log(fake + 1e-3)))
            norms += [tf.reduce_sum(tf.square(real - fake)), tf.reduce_sum(tf.square(real))]
            if n_fft == self.audio.n_fft:
                mel = mel_distance(*tf.split(self._log_mel(power), 2))
        norms = tf.unstack(tf.sqrt(total(tf.stack(norms))))
        convergence = [
            far / (loud + 1e-3) for far, loud in zip(norms[::2], norms[1::2], strict=True)
        ]
        parts = {
            "mel": mel,
            "magnitude": tf.add_n(means(apart)) / len(RESOLUTIONS),
            "convergence": tf.add_n(convergence) / len(RESOLUTIONS),
        }
        parts["loss"] = 3.0 * parts["mel"] + parts["magnitude"] + parts["convergence"]
        return parts

    def mel(self, recorded: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """The distance of log-mels alone."""
        both = tf.concat([recorded, made], 0)
        power = _power(both, self.audio.n_fft, self.audio.hop_length)
        return mel_distance(*tf.split(self._log_mel(power), 2))

    def _log_mel(self, power):
        power = power if self.audio.power == 2.0 else tf.sqrt(power + 1e-7)
        mel = power @ self._filters
        return tf.math.log(tf.maximum(mel, self.audio.log_floor))


def mel_distance(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The mean absolute difference of log-mels, the measure by which vocoders are compared."""
    return means([tf.abs(one - other)])[0]


def judged(critics, recorded: tf.Tensor, made: tf.Tensor, *, squared: bool = False) -> dict:
    """What discriminators say of generated waveforms: the vocoder's losses `adversarial` and
    `features`, and the discriminators' own, `critics`. With least squares, as in HiFi-GAN, or with
    hinges."""
    scores, features = critics(made, training=True)
    real_scores, real_features = critics(recorded, training=True)
    return {
        "adversarial": adversarial_loss(scores, squared=squared),
        "features": feature_loss(real_features, features),
        "critics": discriminator_loss(real_scores, scores, squared=squared),
    }


def adversarial_loss(scores: list[tf.Tensor], *, squared: bool = False) -> tf.Tensor:
    """The vocoder's loss on the scores of its waveforms, per discriminator."""
    short = tf.square if squared else tf.nn.relu
    return tf.add_n(means([short(1 - s) for s in scores])) / len(scores)


def discriminator_loss(
    real: list[tf.Tensor], made: list[tf.Tensor], *, squared: bool = False
) -> tf.Tensor:
    """The discriminators' loss, per discriminator."""
    if squared:
        parts = [tf.square(1 - r) for r in real] + [tf.square(m) for m in made]
    else:
        parts = [tf.nn.relu(1 - r) for r in real] + [tf.nn.relu(1 + m) for m in made]
    return tf.add_n(means(parts)) / len(real)


def feature_loss(real: list[list[tf.Tensor]], made: list[list[tf.Tensor]]) -> tf.Tensor:
    """The distance between the feature maps of recorded and generated speech, per map."""
    pairs = [
        (tf.stop_gradient(tf.cast(r, tf.float32)), tf.cast(m, tf.float32))
        for rs, ms in zip(real, made, strict=True)
        for r, m in zip(rs, ms, strict=True)
    ]
    return tf.add_n(means([tf.abs(r - m) for r, m in pairs])) / len(pairs)


def _power(waveform, n_fft, hop):
    bins = tf.signal.stft(waveform, n_fft, hop)
    return tf.square(tf.math.real(bins)) + tf.square(tf.math.imag(bins))
