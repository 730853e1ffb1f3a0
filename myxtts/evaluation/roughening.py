"""Random changes that make log-mels resemble resynthesised speech.

A network trained on them judges what is said, or who says it, and is not misled by traces of a
tokenizer or a vocoder.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Roughening:
    """Changes mels with `roughening(mel, seed)`; each clip by random amounts, up to those given.

    A tokenizer blurs and makes errors that are alike over neighbouring frames and bands; a vocoder
    fills silence with noise. Stretches of frames and of bands are blanked so that no single cue is
    relied on.
    """

    blur: float = 0.3
    error: float = 0.7
    gain: float = 1.5
    noise_floor: tuple[float, float] = (-12.0, -5.0)
    blank_frames: int = 8
    blank_bands: int = 10

    def __call__(self, mel: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        clips, frames, bands = tf.unstack(tf.shape(mel))
        seeds = iter(tf.unstack(tf.random.split(seed, 11)))

        def amount(low: float, high: float) -> tf.Tensor:
            return tf.random.stateless_uniform([clips, 1, 1], next(seeds), low, high)

        for axis in (1, 2):
            sides = tf.roll(mel, 1, axis) + tf.roll(mel, -1, axis)
            mel += amount(0.0, self.blur) * (sides - 2 * mel)
        error = tf.random.stateless_normal([clips, frames // 4 + 1, bands // 4, 1], next(seeds))
        mel += amount(0.0, self.error) * tf.image.resize(error, [frames, bands])[..., 0]
        mel += amount(-self.gain, self.gain)
        noise = tf.random.stateless_normal(tf.shape(mel), next(seeds), stddev=0.7)
        noise += amount(*self.noise_floor)
        mel = tf.maximum(mel, noise) + tf.math.log1p(tf.exp(-tf.abs(mel - noise)))
        mean = tf.reduce_mean(mel, [1, 2], keepdims=True)
        for axis, longest in ((1, self.blank_frames), (2, self.blank_bands)):
            size = tf.cast(tf.shape(mel)[axis], tf.float32)
            begin = amount(0.0, 1.0) * size
            end = begin + amount(0.0, float(longest))
            at = tf.reshape(tf.range(size), [1, -1, 1] if axis == 1 else [1, 1, -1])
            mel = tf.where((at >= begin) & (at < end), mean, mel)
        return mel
