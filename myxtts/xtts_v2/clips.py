"""The clips of a batch as the published training uses them; computed on the data device."""

import tensorflow as tf

from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.resampling import resampled
from myxtts.xtts_v2.sizes import CODE_SAMPLES, Objective

_LEFT_OUT_SAMPLES = 256  # samples of a code, as the published trainer counts


def at_mel_rate(
    waveform: tf.Tensor, lengths: tf.Tensor, rate: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """`(waveform float32 [B, T'], lengths)` at 22,050 Hz, from int16 [B, T].

    Every clip is as if it had been resampled by itself, with zeros beyond its length."""
    made = tf.cast(waveform, tf.float32) / 32768.0
    made = tf.clip_by_value(resampled(made, rate, mels.RATE), -1.0, 1.0)
    wide = tf.cast(lengths, tf.int64)
    lengths = tf.cast((wide * mels.RATE + rate - 1) // rate, tf.int32)
    there = tf.sequence_mask(lengths, tf.shape(made)[1])
    return tf.where(there, made, 0.0), lengths


def mirrored(waveform: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Fills what lies beyond a length with the clip backwards, then forwards, and so on."""
    period = tf.maximum(2 * (lengths - 1), 1)[:, None]
    place = tf.range(tf.shape(waveform)[1])[None] % period
    return tf.gather(waveform, tf.minimum(place, period - place), batch_dims=1)


def left_out_codes(objective: Objective, starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """int32 [B, 2]: the range of each clip's codes that are not targets. `starts` and `lengths` are
    those of its crop, in samples at 22,050 Hz."""
    places = tf.stack([starts, starts + lengths], 1)
    if objective.crop != "same_clip" or objective.left_out == "nothing":
        return tf.zeros_like(places)
    if objective.left_out == "every_row":
        return places // CODE_SAMPLES
    last = tf.range(tf.shape(places)[0]) == tf.shape(places)[0] - 1
    return tf.where(last[:, None], places // _LEFT_OUT_SAMPLES, 0)
