"""Where a stage shows how it goes: TensorBoard and a progress bar."""

from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm


class Board:
    """TensorBoard's record of a stage: figures, pictures and sounds."""

    def __init__(self, directory: Path, stage: str):
        self._writer = tf.summary.create_file_writer(str(directory / stage))

    def figures(self, step: int, values: dict[str, float]) -> None:
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)

    def picture(self, step: int, name: str, rows: np.ndarray) -> None:
        """`rows [height, width]` as shades of grey, the largest white."""
        low, high = float(rows.min()), float(rows.max())
        grey = (rows - low) / max(high - low, 1e-9)
        with self._writer.as_default(step=step):
            tf.summary.image(name, grey[None, :, :, None])

    def sound(self, step: int, name: str, waveform: np.ndarray, rate: int) -> None:
        with self._writer.as_default(step=step):
            tf.summary.audio(name, waveform[None, :, None], rate)

    def close(self) -> None:
        self._writer.close()


class Bar:
    """A stage's progress bar."""

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

    def plan(self, steps: int) -> None:
        self._bar.total = steps
        self._bar.refresh()

    def advance(self, steps: int) -> None:
        self._bar.update(steps)

    def show(self, loss: float, wait_share: float) -> None:
        self._bar.set_postfix_str(f"loss {loss:.4f}, {wait_share:.0%} waiting", refresh=False)

    def close(self) -> None:
        self._bar.close()
