"""Fine-tunes some stages once in peace, once with a kill in each of them.

    python killed_fine_tuning.py START PREPARED WHERE tokenizer,gpt,vocoder

Run by test_published_stages, as killed_runs is by test_killed.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import tensorflow as tf

from myxtts.corpus.manifest import Corpus
from myxtts.training.loop import Loop
from myxtts.training.start import start_of


def start(directory, prepared, run: Path, stages: list[str], killed_in: str | None) -> int:
    """The process id of a training in `run`."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(f"{run}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        kill_in(killed_in)
        from tests.myxtts.training.fine_tuning import trainer

        corpus = Corpus.load(prepared)
        order = corpus.samples.argsort(kind="stable")
        english = [i for i in order if corpus.language_of(i) == "en"]
        made = trainer(
            run,
            start_of(directory),
            (corpus.subset(english[:10]), corpus.subset(english[10:14])),
            tf.distribute.get_strategy(),
            rank=2,
            deterministic=True,
            max_steps=6 * len(stages),
        )
        made.run(stages)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def kill_in(stage: str | None) -> None:
    """Between its fourth step and its last checkpoint."""
    run = Loop.run

    def counting(self, *arguments):
        run(self, *arguments)
        if self.stage.name == stage and int(self.step.numpy()) >= 4:
            os.kill(os.getpid(), signal.SIGKILL)

    Loop.run = counting


def main(directory: str, prepared: str, where: Path, stages: list[str]) -> None:
    def ended(name: str, killed_in: str | None = None) -> int:
        return os.waitpid(start(directory, prepared, where / name, stages, killed_in), 0)[1]

    codes = {"calm": ended("calm")}
    codes |= {stage: ended("killed", stage) for stage in stages}
    print(json.dumps({**codes, "continued": ended("killed")}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4].split(","))
