"""What the loop knows of a stage: its networks, its losses, and what happens on the data device."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator

import keras
import tensorflow as tf

from myxtts.training.config import TrainConfig
from myxtts.training.optimizer import Learner
from myxtts.training.run_directory import RunDirectory


@dataclasses.dataclass
class Surroundings:
    """What a stage is made in; it is made inside the strategy's scope."""

    config: TrainConfig
    run: RunDirectory
    text_tokens: int
    precision: str = "float32"

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Networks made here compute in float32, as they will in synthesis."""
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy("float32")
        try:
            yield
        finally:
            keras.config.set_dtype_policy(policy)


class Stage:
    """One part of the training. Those that are real: `stage_tokenizer`, `stage_gpt`,
    `stage_vocoder`.

    Attributes:
      name: as in `config.STAGES`.
      networks: what is trained and saved as the result, by name.
      helpers: what is trained beside them and needed only to go on training.
      learners: who learns what, by name; `losses` gives each its loss.
      parts: names of the figures of a training step, the first one being the loss to show.
      held_out: names of the figures of an evaluation; the first one decides which is best (less
        is better).
      needs_waveform: batches keep it.
    """

    name: str
    parts: tuple[str, ...]
    held_out: tuple[str, ...]
    needs_waveform = False

    def __init__(self):
        self.networks: dict[str, keras.Model] = {}
        self.helpers: dict[str, keras.Model] = {}
        self.learners: dict[str, Learner] = {}

    @property
    def phases(self) -> tuple[int, ...]:
        """The steps from which `losses` is another function: its `phase` counts them."""
        return (0,)

    def front_end(self, batch: dict) -> dict:
        """Runs on the data device, after the features were made; random by the batch's key only."""
        return batch

    def losses(self, batch: dict, seed: tf.Tensor, phase: int) -> tuple[dict, dict]:
        """`(loss by learner, figures by name)` of a training step, traced once per phase.

        A learner without a loss rests in this phase, a figure that is missing is 0.
        """
        raise NotImplementedError

    def evaluate(self, batch: dict) -> dict:
        """The figures of `held_out`, each the mean over the batch's clips."""
        raise NotImplementedError

    def show(self, exhibits) -> None:
        """Gives pictures and sounds to a `reports.Exhibits`, with the averaged weights in place."""

    def judge(self, batches: Iterable[dict]) -> dict:
        """Further figures for the stage's result, of held-out batches with features; the best
        weights are in place."""
        return {}
