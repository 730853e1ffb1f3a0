"""Log-mels of a batch, with ops that have GPU kernels, to be run on the data device:

    dataset = dataset.apply(on_data_device(make_features(config)))

Takes the batches of `corpus.batches` and returns them with

    mel                       float32 [B, T / hop, mels]   log(floor) beyond its length
    mel_lengths               int32 [B]
    conditioning_mel          float32 [B, C / hop, mels]
    conditioning_mel_lengths  int32 [B]
    waveform                  int16 [B, T], only with `keep_waveform`

Frame t is centred on sample t * hop. The mels are librosa's (`melspectrogram(center=True)`, zeros
outside the clip), except that librosa adds a last frame if the length is a multiple of the hop.
Everything random depends only on the batch's `key`.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from myxtts.config import AudioConfig, AugmentConfig, FeatureConfig
from myxtts.model.whole_batch import drawn


def make_features(config: FeatureConfig) -> Callable[[dict], dict]:
    """The function `features(batch) -> batch` for these settings."""
    audio, augment = config.audio, config.augment
    log_mel = make_log_mel(audio)

    def features(batch: dict) -> dict:
        batch = dict(batch)
        key = batch["key"]
        waveform, crop = batch.pop("waveform"), batch.pop("conditioning")
        if config.keep_waveform:
            batch["waveform"] = waveform
        reference_lengths = batch.pop("conditioning_lengths")
        batch.pop("conditioning_starts", None)
        if augment.gain_probability:
            gain = _gain(key, augment)
            waveform, crop = _to_float(waveform) * gain, _to_float(crop) * gain
            if config.keep_waveform:
                batch["waveform"] = _to_int16(waveform)
        if augment.noise_probability:
            crop = _with_noise(key, _to_float(crop), reference_lengths, augment)
        mel, mel_lengths = log_mel(waveform, batch["waveform_lengths"])
        reference_mel, reference_mel_lengths = log_mel(crop, reference_lengths)
        if augment.mask_probability:
            reference_mel = _masked(key, reference_mel, augment, math.log(audio.log_floor))
        return {
            **batch,
            "mel": mel,
            "mel_lengths": mel_lengths,
            "conditioning_mel": reference_mel,
            "conditioning_mel_lengths": reference_mel_lengths,
        }

    return features


@functools.lru_cache
def make_log_mel(audio: AudioConfig) -> Callable[[tf.Tensor, tf.Tensor], tuple]:
    """`log_mel(waveform, lengths) -> (mel, mel_lengths)` of int16 or float waveforms [B, T].

    T must be a multiple of the hop; what lies beyond a length must be zero.
    """
    filters = mel_filters(audio)
    heard = int(np.flatnonzero(filters.any(1))[-1]) + 1  # bins below f_max
    filters = filters[:heard]
    # A transform in float32 leaves rounding noise 130 dB below the loudest bin, which changes the
    # quiet mels next to a loud one by 1e-4. librosa's is in float64 as well.
    window = hann_window(audio.n_fft)
    hop, overlap = audio.hop_length, audio.n_fft // audio.hop_length
    floor = np.float32(audio.log_floor)

    def mel_of(waveform):
        """The mels of one clip [T] or of several [B, T], before the logarithm."""
        outside = tf.zeros([*tf.unstack(tf.shape(waveform))[:-1], audio.n_fft // 2], waveform.dtype)
        waveform = tf.concat([outside, waveform, outside[..., hop:]], -1)
        # n_fft is a multiple of the hop, so a frame is a few whole rows of this: much cheaper
        # than the gather of tf.signal.frame.
        rows = tf.reshape(waveform, [*tf.unstack(tf.shape(waveform))[:-1], -1, hop])
        frames = tf.shape(rows)[-2] - (overlap - 1)
        pieces = tf.concat([rows[..., i : i + frames, :] for i in range(overlap)], -1)
        scale = 1 / 32768 if waveform.dtype == tf.int16 else 1.0
        bins = tf.signal.rfft(tf.cast(pieces, tf.float64) * (window * scale))
        bins = tf.cast(bins[..., :heard], tf.complex64)
        power = tf.square(tf.math.real(bins)) + tf.square(tf.math.imag(bins))
        return tf.matmul(tf.sqrt(power) if audio.power == 1.0 else power, filters)

    # Traced once for all clips, batches and datasets; the runtime puts it into each of them.
    mel_of_clip = tf.function(mel_of, reduce_retracing=True, autograph=False)

    def log_mel(waveform, lengths):
        if waveform.shape[0] is None:
            mel = mel_of(waveform)
        else:
            # Clip by clip, as pieces of one graph: the spectrogram of a whole batch fits into no
            # cache, and glibc gives blocks above 32 MB back after every op. 16 clips of 7 s take
            # 19 ms so and 31 ms at once on one core; on a GPU the launches do not show.
            mel = tf.stack([mel_of_clip(clip) for clip in tf.unstack(waveform)])
        mel_lengths = (lengths + (hop - 1)) // hop
        there = tf.sequence_mask(mel_lengths, tf.shape(mel)[1])[:, :, None]
        return tf.math.log(tf.maximum(tf.where(there, mel, 0.0), floor)), mel_lengths

    return log_mel


def mel_filters(audio: AudioConfig) -> np.ndarray:
    """librosa's filters as a matrix [n_fft / 2 + 1, mels] to multiply spectra with.

    Made here, number for number, because `librosa.filters` loads compilers (numba) that training
    has no other use for: seconds, and hundreds of megabytes.
    """
    lowest, highest = _slaney_mels(np.array([audio.f_min, audio.f_max]))
    edges = _slaney_hertz(np.linspace(lowest, highest, audio.n_mels + 2))
    bins = np.fft.rfftfreq(audio.n_fft, 1.0 / audio.sample_rate)
    apart, widths = edges[:, None] - bins, np.diff(edges)[:, None]
    rising, falling = -apart[:-2] / widths[:-1], apart[2:] / widths[1:]
    triangles = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    triangles *= (2.0 / (edges[2:] - edges[:-2]))[:, None]  # each of area 1
    return triangles.T


# Slaney's scale: linear up to 1,000 Hz, logarithmic above.
_HERTZ_A_MEL, _BREAK = 200.0 / 3, 1000.0
_LOG_STEP = math.log(6.4) / 27.0


def _slaney_mels(hertz: np.ndarray) -> np.ndarray:
    above = _BREAK / _HERTZ_A_MEL + np.log(np.maximum(hertz, _BREAK) / _BREAK) / _LOG_STEP
    return np.where(hertz < _BREAK, hertz / _HERTZ_A_MEL, above)


def _slaney_hertz(mels: np.ndarray) -> np.ndarray:
    linear = _BREAK / _HERTZ_A_MEL
    above = _BREAK * np.exp(_LOG_STEP * (mels - linear))
    return np.where(mels < linear, _HERTZ_A_MEL * mels, above)


def hann_window(size: int) -> np.ndarray:
    """scipy's periodic window, which librosa takes."""
    return 0.5 + 0.5 * np.cos(np.linspace(-np.pi, np.pi, size + 1)[:-1])


def _to_float(waveform: tf.Tensor) -> tf.Tensor:
    if waveform.dtype != tf.int16:
        return waveform
    return tf.cast(waveform, tf.float32) * np.float32(1 / 32768)


def _to_int16(waveform: tf.Tensor) -> tf.Tensor:
    scaled = tf.round(tf.clip_by_value(waveform * 32768.0, -32768.0, 32767.0))
    return tf.cast(scaled, tf.int16)


# Every use of chance has a number of its own, so that switching one on leaves the others alone.
_GAIN, _GAIN_WHERE, _NOISE, _NOISE_SNR, _NOISE_WHERE, _MASK_WHERE, _MASKS = range(7)


def _seed(key: tf.Tensor, use: int) -> tf.Tensor:
    """Two words for the stateless ops from (seed, epoch, batch): no two batches share theirs
    below 2 ** 20 batches an epoch."""
    seed, epoch, batch = tf.unstack(key[0, :3])
    return tf.stack([seed + use * 0x3C6EF35F % 2**31, epoch * (1 << 20) + batch])


def _uniform(key, use, low=0.0, high=1.0):
    """A number for each clip, [B, 1]."""
    seed = _seed(key, use)
    return drawn(lambda rows: tf.random.stateless_uniform([rows, 1], seed, low, high), key)


def _gain(key, augment: AugmentConfig):
    decibel = _uniform(key, _GAIN, *augment.gain_db)
    changed = _uniform(key, _GAIN_WHERE) < augment.gain_probability
    return tf.where(changed, tf.pow(10.0, decibel / 20.0), 1.0)


def _with_noise(key, waveform, lengths, augment: AugmentConfig):
    samples = tf.shape(waveform)[1]
    there = tf.cast(tf.sequence_mask(lengths, samples), tf.float32)
    power = tf.reduce_sum(tf.square(waveform), 1, keepdims=True) / tf.cast(
        tf.maximum(lengths, 1)[:, None], tf.float32
    )
    snr = _uniform(key, _NOISE_SNR, *augment.noise_snr_db)
    level = tf.sqrt(power * tf.pow(10.0, -snr / 10.0))
    noisy = _uniform(key, _NOISE_WHERE) < augment.noise_probability
    seed = _seed(key, _NOISE)
    noise = drawn(lambda rows: tf.random.stateless_normal([rows, samples], seed), key) * there
    return waveform + tf.where(noisy, level, 0.0) * noise


def _masked(key, mel, augment: AugmentConfig, floor: float):
    """SpecAugment: a few stretches of time and bands of mels are silenced."""
    clips, frames, bands = tf.unstack(tf.shape(mel))
    chosen = _uniform(key, _MASK_WHERE)[:, :, None] < augment.mask_probability
    hidden = tf.zeros([clips, 1, 1], tf.bool)
    masks = [(frames, augment.time_mask_frames, 1)] * augment.time_masks
    masks += [(bands, augment.mel_mask_bands, 2)] * augment.mel_masks
    for number, (size, longest, axis) in enumerate(masks):
        seed = _seed(key, _MASKS + number)
        pair = drawn(
            lambda rows, seed=seed: tf.random.stateless_uniform([2, rows, 1], seed), key, axis=1
        )
        width = tf.floor(pair[0] * (longest + 1))
        start = tf.floor(pair[1] * (tf.cast(size, tf.float32) - width + 1))
        place = tf.cast(tf.range(size), tf.float32)[None]
        inside = (place >= start) & (place < start + width)
        hidden |= tf.expand_dims(inside, 3 - axis)
    return tf.where(hidden & chosen, floor, mel)
