"""Shows the progress of a stage: TensorBoard and a progress bar."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams
from tqdm import tqdm

from myxtts.start_up import is_terminal


class Board:
    """TensorBoard's record of a stage: figures, settings, pictures and sounds.

    A figure has the same name where it is of training steps and where it is of held-out clips, and
    the two are written as two runs, so that TensorBoard draws both curves into one chart. Without
    a directory nothing is written.
    """

    def __init__(self, directory: Path | None, stage: str):
        self._stage, self._writes = stage, directory is not None
        self._training, self._held_out = (
            tf.summary.create_file_writer(str(directory / stage / name))
            if directory
            else tf.summary.create_noop_writer()
            for name in ("training", "held_out")
        )

    def figures(self, step: int, values: dict[str, float], *, held_out: bool = False) -> None:
        writer = self._held_out if held_out else self._training
        with writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{self._stage}/{name}", value)

    def settings(self, values: dict) -> None:
        """Shown on the page HPARAMS; nested names are joined by dots."""
        if not self._writes:
            return
        with self._training.as_default(step=0):
            hparams.hparams(dict(_flat(values)))

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """`pixels [height, width, 3]` from 0 to 255."""
        with self._training.as_default(step=step):
            tf.summary.image(name, pixels[None])

    def sound(self, step: int, name: str, waveform: np.ndarray, *, rate: int, text: str) -> None:
        """`text` is what is spoken; it stands beside the sound."""
        with self._training.as_default(step=step):
            tf.summary.audio(name, waveform[None, :, None], rate, description=text)

    def close(self) -> None:
        self._training.close()
        self._held_out.close()


def _flat(values: dict, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None:
            number = isinstance(value, bool | int | float)
            yield f"{before}{name}", value if number else str(value)


class _Clock:
    """Draws a bar of a terminal again every second, so that its time goes on whatever is done.

    Tracing a step or judging samples may take seconds without a word.
    """

    def __init__(self, bar: tqdm):
        self._bar, self._over = bar, threading.Event()
        if not bar.disable and is_terminal():
            threading.Thread(target=self._go, daemon=True).start()

    def _go(self) -> None:
        while not self._over.wait(1.0):
            self._bar.refresh()

    def stop(self) -> None:
        self._over.set()


class Bar:
    """A stage's progress bar, with the time that is left of the whole run."""

    def __init__(self, stage: str, step: int, planned: int | None, shown: bool):
        self._bar = tqdm(
            desc=stage,
            total=planned,
            initial=step,
            unit="step",
            disable=not shown,
            dynamic_ncols=True,
            mininterval=0.5,
        )
        self._clock = _Clock(self._bar)
        self._run_left = ""

    def plan(self, steps: int) -> None:
        self._bar.total = steps
        self._bar.refresh()

    def advance(self, steps: int) -> None:
        self._bar.update(steps)

    def run_left(self, seconds: float | None) -> None:
        """`seconds` are left of the run, this stage and those after it; None if unknown."""
        left = "" if seconds is None else tqdm.format_interval(round(seconds))
        self._run_left = left and f", {left} left of the run"

    def show(self, loss: float, wait_share: float) -> None:
        text = f"loss {loss:.4f}, {wait_share:.0%} waiting{self._run_left}"
        self._bar.set_postfix_str(text, refresh=False)

    def says(self, what: str) -> None:
        """What is being done now that is no step."""
        if self._bar.disable:  # closed, too
            return
        self._bar.set_postfix_str(f"{what}{self._run_left}", refresh=True)

    def close(self) -> None:
        self._clock.stop()
        self._bar.close()


class Parts:
    """A bar for what is done before the steps of a stage, or after them.

    with Parts("gpt, before its steps", 2, shown=True) as parts:
        parts.begin("clips and texts")
        ...
        parts.begin("networks")
    """

    def __init__(self, title: str, count: int, shown: bool):
        self._title, self._begun = title, 0
        self._bar = tqdm(
            desc=title,
            total=count,
            disable=not shown,
            dynamic_ncols=True,
            leave=False,
            bar_format="{desc} |{bar}| {n_fmt}/{total_fmt} {elapsed}",
        )
        self._clock = _Clock(self._bar)

    def begin(self, what: str) -> None:
        """The part before is done."""
        self._bar.update(min(self._begun, 1))
        self._begun += 1
        self._bar.set_description_str(f"{self._title}: {what}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._clock.stop()
        self._bar.close()
