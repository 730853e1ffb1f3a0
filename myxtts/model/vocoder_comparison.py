"""Compares the trained vocoder with Griffin-Lim: which makes the better waveforms?

judged = compare_vocoders(vocoder, audio, clips)
# {"network": 0.21, "griffin_lim": 0.34, "default_vocoder": "network"}
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.features import make_log_mel
from myxtts.model.griffin_lim import griffin_lim


def compare_vocoders(
    vocoder, audio: AudioConfig, batches: Iterable[tuple[tf.Tensor, ...]]
) -> dict[str, float | str]:
    """Mean distance of log-mels to the recorded ones, frame by frame, over all the clips.

    A batch is `(mel, recorded, lengths, speaker)`: the mel given to both (as in synthesis, the
    tokenizer's reconstruction), the recording's mel, the number of frames, and the speaker
    vectors. The nearer one is the `default_vocoder`.
    """
    log_mel = make_log_mel(audio)

    # One trace for all shapes: tracing takes as long as the clips.
    mels = tf.TensorSpec([None, None, audio.n_mels])
    signature = [mels, mels, tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None])]

    @tf.function(input_signature=signature, autograph=False)
    def distances(mel, recorded, lengths, speaker):
        there = tf.sequence_mask(lengths, tf.shape(mel)[1], tf.float32)[:, :, None]
        # A clip is silent beyond its length, so padding favours neither.
        silence = tf.math.log(audio.log_floor)
        mel = mel * there + silence * (1 - there)
        both = vocoder(mel, speaker), griffin_lim(mel, audio)
        samples = lengths * audio.hop_length
        sums = []
        for waveform in both:
            waveform *= tf.sequence_mask(samples, tf.shape(waveform)[1], waveform.dtype)
            found, _ = log_mel(waveform, samples)
            sums.append(tf.reduce_sum(tf.abs(found - recorded) * there))
        return tf.stack([*sums, tf.reduce_sum(there) * audio.n_mels])

    total = np.zeros(3)
    for batch in batches:
        total += distances(*batch).numpy()
    if not total[2]:
        raise ValueError("compare_vocoders needs at least one clip with frames, got none")
    network, plain = (float(value) for value in total[:2] / total[2])
    better = "network" if network <= plain else "griffin_lim"
    return {"network": network, "griffin_lim": plain, "default_vocoder": better}
