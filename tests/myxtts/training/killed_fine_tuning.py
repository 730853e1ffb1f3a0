"""Fine-tunes once in peace, once until it is killed, and goes on there.

    python killed_fine_tuning.py START PREPARED WHERE

Run by test_fine_tuning, as killed_runs is by test_killed.
"""

import json
import os
import sys
import traceback
from pathlib import Path

import tensorflow as tf

from myxtts.corpus.manifest import Corpus
from myxtts.training.start import start_of
from tests.myxtts.training.killed_runs import kill_at


def start(directory: str, prepared: str, run: Path, killed: bool = False) -> int:
    """The process id of a training in `run`."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(f"{run}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if killed:
            kill_at(lambda event, path: event == "steps" and path >= 4)
        from tests.myxtts.training.test_fine_tuning import trainer

        corpus = Corpus.load(prepared)
        order = corpus.samples.argsort(kind="stable")
        english = [i for i in order if corpus.language_of(i) == "en"]
        clips = corpus.subset(english[:10]), corpus.subset(english[10:14])
        made = trainer(
            run,
            start_of(directory),
            clips,
            tf.distribute.get_strategy(),
            rank=2,
            deterministic=True,
        )
        made.run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(directory: str, prepared: str, where: Path) -> None:
    ended = {"calm": os.waitpid(start(directory, prepared, where / "calm"), 0)[1]}
    ended["killed"] = os.waitpid(start(directory, prepared, where / "killed", killed=True), 0)[1]
    ended["continued"] = os.waitpid(start(directory, prepared, where / "killed"), 0)[1]
    print(json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
