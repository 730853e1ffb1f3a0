"""What a run shows while it goes on: TensorBoard, a progress bar, pictures and sounds."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
import tensorflow as tf
from tqdm import tqdm


class Board:
    """Writes figures, pictures and sounds of a stage for TensorBoard."""

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


class Exhibits:
    """Where a stage puts what is to be seen and heard, and what it makes it of.

    Attributes:
      strategy: to run networks under.
      clips: a batch of a few held-out clips with features (and waveforms), not cut.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        clips: dict,
        texts: Sequence[tuple[list[int], int]],
        board: Board,
        directory: Path,
        sample_rate: int,
        step: int = 0,
    ):
        self.strategy, self.clips, self._texts = strategy, clips, texts
        self._board, self._directory, self._rate = board, directory, sample_rate
        self.step = step

    def spoken(self) -> Iterator[tuple[list[int], tuple[tf.Tensor, tf.Tensor]]]:
        """`(token ids, (reference mel [1, C, mels], its length [1]))` of every evaluation text."""
        for ids, clip in self._texts:
            length = self.clips["conditioning_mel_lengths"][clip : clip + 1]
            yield ids, (self.clips["conditioning_mel"][clip : clip + 1, : int(length[0])], length)

    def mel(self, name: str, mel: tf.Tensor) -> None:
        self._board.picture(self.step, name, np.flipud(np.asarray(mel).T))

    def attention(self, name: str, weights: tf.Tensor) -> None:
        """`weights [audio, text]`, shown with the text upwards."""
        self._board.picture(self.step, name, np.flipud(np.asarray(weights).T))

    def sound(self, name: str, waveform: tf.Tensor) -> None:
        """Into TensorBoard, and as a WAV file into samples/."""
        waveform = np.clip(np.asarray(waveform, np.float32), -1.0, 1.0)
        self._board.sound(self.step, name, waveform, self._rate)
        place = self._directory / f"step-{self.step:08d}"
        place.mkdir(parents=True, exist_ok=True)
        with open(place / f"{name}.wav", "wb") as file:  # for its errors
            soundfile.write(file, waveform, self._rate, subtype="PCM_16", format="WAV")


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

    def tell(self, loss: float, wait_share: float) -> None:
        self._bar.set_postfix_str(f"loss {loss:.4f}, {wait_share:.0%} waiting", refresh=False)

    def close(self) -> None:
        self._bar.close()
