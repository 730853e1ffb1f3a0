"""`Trainer`: tokenizer, then GPT, then vocoder, from a corpus to a voice."""

import dataclasses
import os
from collections.abc import Sequence

import tensorflow as tf

from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig


class TrainingFailed(Exception):
    """The training itself went wrong (commands exit with code 2): numbers that are not finite."""


@dataclasses.dataclass
class Report:
    """What a run came to.

    Attributes:
      finished: every stage that was asked for is done.
      interrupted: the signal's name ("SIGINT", "SIGTERM"), where one ended the run; everything
        was saved, and the same command continues.
      stages: by stage, what is in its finished.json: steps, seconds, the held-out figures, ...
      text: the final report as Markdown, also in report.md; "" when interrupted.
    """

    finished: bool
    interrupted: str | None
    stages: dict[str, dict]
    text: str


class Trainer:
    """Trains the stages of a run, and continues where it was stopped.

        trainer = Trainer(config, "runs/mine", corpus, validation, vocabulary, strategy=strategy)
        report = trainer.run()

    Works alike under DataModelSplitStrategy, OneDeviceStrategy, MirroredStrategy with one
    replica, and none.

    Args:
      config: all settings. Those that decide weights or batches must be what they were when the
        run began; others may change.
      run_dir: the run directory, see `run_directory`; made if it is not there.
      corpus: prepared clips to train on, with all its clips (what does not fit is left out here).
      validation: held-out clips with the same speaker and language ids, or None.
      vocabulary: made of the corpus. It must be the one of the run where that exists already.
      strategy: None for the one in scope, or none.
      monitor: watch steps and devices, see `dual_device_strategy.monitor`.
      evaluation_texts: (text, language) pairs that are spoken every `sample_steps`.
      progress: show a progress bar.

    `run` raises `UserError` (one sentence; exit code 1) and `TrainingFailed` (exit code 2).
    """

    def __init__(
        self,
        config: TrainConfig,
        run_dir: str | os.PathLike,
        corpus: Corpus,
        validation: Corpus | None,
        vocabulary: Vocabulary,
        *,
        strategy: tf.distribute.Strategy | None = None,
        monitor: bool = True,
        evaluation_texts: Sequence[tuple[str, str]] = (),
        progress: bool = True,
    ):
        raise NotImplementedError

    def run(self, stages: Sequence[str] | None = None) -> Report:
        """Trains `stages` (all by default), one after the other; those done are skipped.

        SIGINT and SIGTERM save and return.
        """
        raise NotImplementedError
