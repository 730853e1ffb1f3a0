"""Mels and attention as pictures with axes, as arrays [height, width, 3] of 0 to 255.

They need matplotlib (the extra `demo`); without it they are shades of grey, without axes.
"""

import functools
from collections.abc import Sequence

import numpy as np
from absl import logging

from myxtts.config import AudioConfig
from myxtts.features import mel_filters

_MOST_LABELS = 50  # beside an axis


def mel_picture(mel: np.ndarray, audio: AudioConfig) -> np.ndarray:
    """A log-mel [frames, mels]: seconds to the right, hertz upwards."""
    seconds = len(mel) * audio.hop_length / audio.sample_rate
    # The frequency at which each band is highest.
    peaks = mel_filters(audio).argmax(0) * audio.sample_rate / audio.n_fft
    wanted = [250, 500, 1000, 2000, 4000, 8000]
    ticks = {f"{hertz}": int(np.abs(peaks - hertz).argmin()) for hertz in wanted}
    ticks = {name: band for name, band in ticks.items() if int(name) <= audio.f_max}
    return _drawn(mel.T, seconds, "frequency (Hz)", ticks)


def attention_picture(weights: np.ndarray, seconds: float, tokens: Sequence[str]) -> np.ndarray:
    """Weights [audio, text]: seconds of speech to the right, the text upwards, some tokens to a
    label where there are many."""
    return _drawn(weights.T, seconds, "text", _labels(tokens))


def _labels(tokens: Sequence[str]) -> list[tuple[int, str]]:
    size = -(-len(tokens) // _MOST_LABELS)
    return [(i, "".join(tokens[i : i + size])) for i in range(0, len(tokens), size or 1)]


def _drawn(rows: np.ndarray, seconds: float, label: str, ticks) -> np.ndarray:
    figure, canvas = _figure()
    if figure is None:
        return _grey(np.flipud(rows))
    axes = figure.add_subplot()
    axes.imshow(
        rows,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, max(seconds, 1e-3), -0.5, len(rows) - 0.5),
    )
    axes.set(xlabel="time (s)", ylabel=label)
    if isinstance(ticks, dict):
        axes.set_yticks([*ticks.values()], [*ticks])
    else:
        axes.set_yticks([i for i, _ in ticks], [text for _, text in ticks], fontsize=6)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _figure() -> tuple:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        _say_once()
        return None, None
    figure = Figure(figsize=(7, 4), dpi=100)
    figure.subplots_adjust(left=0.11, right=0.98, bottom=0.13, top=0.97)
    return figure, FigureCanvasAgg(figure)


@functools.cache
def _say_once() -> None:
    logging.info("pictures have no axes: matplotlib is not installed (`pip install matplotlib`)")


def _grey(rows: np.ndarray) -> np.ndarray:
    """The largest is white."""
    low, high = float(rows.min()), float(rows.max())
    grey = np.uint8(255 * (rows - low) / max(high - low, 1e-9))
    return np.repeat(grey[:, :, None], 3, 2)
