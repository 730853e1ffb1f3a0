"""Resampling and interpolation, sample for sample as in PyTorch."""

import functools
import math

import numpy as np
import tensorflow as tf

# torchaudio's defaults for sinc interpolation in a Hann window.
_WIDTH, _ROLLOFF = 6, 0.99


def resampled(waveform: tf.Tensor, old: int, new: int) -> tf.Tensor:
    """Waveforms [B, T] as float32 [B, ceil(T * new / old)], as by torchaudio's `resample`."""
    if old == new:
        return waveform
    kernel, old, new, half = _kernel(old, new)
    batch, samples = tf.unstack(tf.shape(waveform))
    x = tf.pad(waveform, [[0, 0], [half, half + old]])[..., None]
    rows = tf.nn.conv1d(x, kernel, old, "VALID")  # `new` samples for every `old`
    return tf.reshape(rows, [batch, -1])[:, : (samples * new + old - 1) // old]


@functools.cache
def _kernel(old: int, new: int) -> tuple[np.ndarray, int, int, int]:
    shared = math.gcd(old, new)
    old, new = old // shared, new // shared
    base = min(old, new) * _ROLLOFF
    half = math.ceil(_WIDTH * old / base)
    places = np.arange(0, -new, -1)[:, None] / new + np.arange(-half, half + old)[None] / old
    places = np.clip(places * base, -_WIDTH, _WIDTH)
    kernel = np.sinc(places) * np.cos(places * np.pi / _WIDTH / 2) ** 2 * base / old
    return kernel.astype(np.float32).T[:, None], old, new, half


def interpolated_size(size: int | tf.Tensor, scale: float) -> tf.Tensor:
    """The int32 number of positions that `interpolated` returns for `size` positions."""
    return tf.cast(tf.floor(tf.cast(size, tf.float64) * scale), tf.int32)


def interpolated(
    x: tf.Tensor,
    scale: float | tf.Tensor,
    *,
    first: int | tf.Tensor = 0,
    total: int | tf.Tensor | None = None,
    begin: int | tf.Tensor = 0,
    end: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """torch's linear `interpolate(scale_factor=scale)` of x [B, T, C], or a part of it.

    For a part, x holds the positions from `first` on of a sequence of `total`; the result has the
    positions from `begin` to `end`, equal to those of the complete sequence.
    """
    total = tf.shape(x)[1] + first if total is None else total
    size = interpolated_size(total, scale)
    at = tf.cast(tf.range(begin, size if end is None else end), tf.float32)
    # In float32, in this order, as torch rounds it.
    at = tf.maximum(tf.cast(1.0 / scale, tf.float32) * (at + 0.5) - 0.5, 0.0)
    # torch copies a sequence that does not get longer.
    at = tf.where(size == total, tf.cast(tf.range(begin, begin + tf.size(at)), tf.float32), at)
    low = tf.minimum(tf.cast(at, tf.int32), total - 1)
    part = (at - tf.cast(low, tf.float32))[None, :, None]
    high = tf.minimum(low + 1, total - 1)
    return (
        tf.gather(x, low - first, axis=1) * (1.0 - part) + tf.gather(x, high - first, axis=1) * part
    )
