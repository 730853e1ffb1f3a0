"""Trains a stage once in peace, and once killed at one moment after the other.

    python killed_runs.py PREPARED WHERE

Run by test_killed. Prints at which moments the kills came. The processes are forked from this one,
which has imported everything and started nothing of TensorFlow.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import tensorflow as tf

from myxtts.config import BatchConfig, TextConfig
from myxtts.corpus.manifest import Corpus
from myxtts.model.config import ModelConfig
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.loop import Loop
from myxtts.training.stages import STAGES
from myxtts.training.trainer import Trainer
from tests.myxtts.training.toy_stage import Toy

CONFIG = TrainConfig(
    model=ModelConfig(text=TextConfig(vocabulary="characters")),
    batches=BatchConfig(batch_size=4, buckets=2, conditioning_seconds=(0.5, 1.0)),
    stages={"tokenizer": StageConfig(1e-3, 1.0, warm_up_steps=5)},
    max_steps=40,
    steps_per_call=4,
    log_steps=2,
    evaluate_steps=5,
    evaluation_clips=4,
    sample_steps=1000,
    checkpoint_steps=3,
    keep_checkpoints=2,
    deterministic=True,
)


# What the file system is asked for (Python's audit events) just before a process is killed.
MOMENTS = {
    "nothing is saved yet": lambda event, path: event == "steps" and path >= 2,
    "tensors are written, the state is not": lambda event, path: (
        event == "open" and path.endswith("step-00000006.partial/state.json")
    ),
    "all is written under its first name": lambda event, path: (
        event == "os.rename" and path.endswith("step-00000009.partial")
    ),
    "the best is moved away, the better one not in its place": lambda event, path: (
        event == "os.rename" and path.endswith("best.partial") and is_dir(path, "best.old.partial")
    ),
    "the better one is there, the older one as well": lambda event, path: (
        event == "shutil.rmtree" and path.endswith("best.old.partial") and is_dir(path, "best")
    ),
    "steps are logged that no checkpoint has": lambda event, path: event == "steps" and path >= 29,
    "an old checkpoint is half removed": lambda event, path: (
        event == "os.remove" and path.startswith("training.data")
    ),
    "all is trained, the result has its first name": lambda event, path: (
        event == "os.rename" and "finished.json" in path
    ),
}


def is_dir(path: str, name: str) -> bool:
    return Path(path).with_name(name).is_dir()


def start(prepared: str, run: Path, moment=None) -> int:
    """The process id of a training in `run`, which kills itself at the moment."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(f"{run}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # As in conftest.py, because it takes a part of the time.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        if moment:
            kill_at(moment)
        STAGES["tokenizer"] = Toy
        corpus = Corpus.load(prepared)
        short = corpus.samples.argsort(kind="stable")
        training, held_out = corpus.subset(short[:14]), corpus.subset(short[14:18])
        languages = [training.language_of(i) for i in range(len(training))]
        vocabulary = Vocabulary.train(training.texts, languages, CONFIG.model.text)
        made = Trainer(
            CONFIG,
            run_dir=run,
            corpus=training,
            validation=held_out,
            vocabulary=vocabulary,
            progress=False,
        )
        made.run(["tokenizer"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def kill_at(moment) -> None:
    def kill(event, path):
        if moment(event, path):
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event, arguments):
        if event in ("open", "os.rename", "os.remove", "shutil.rmtree"):
            kill(event, str(arguments[0]))

    run = Loop.run

    def counting(self, *arguments):
        run(self, *arguments)
        kill("steps", int(self.step.numpy()))

    Loop.run = counting
    sys.addaudithook(hook)


def main(prepared: str, where: Path) -> None:
    ended = {"calm": os.waitpid(start(prepared, where / "calm"), 0)[1]}
    for name, moment in MOMENTS.items():
        ended[name] = os.waitpid(start(prepared, where / "killed", moment), 0)[1]
    ended["killed"] = os.waitpid(start(prepared, where / "killed"), 0)[1]
    print(json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
