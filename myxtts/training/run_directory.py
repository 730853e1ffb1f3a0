"""The directory of a training run: what is where.

config.json          the settings (TrainConfig)
flags.txt            the flags of the command; train.py --flagfile=RUN/flags.txt repeats it
vocabulary.json      the vocabulary
identity.json        fingerprints of clips and vocabulary, to recognise another job; the precision
init/, init.json     the weights that training started from, with --init_from (`training.start`)
LICENSE.txt          the licence of weights that were made from others
manifests/           copies of the manifests trained and evaluated on
checkpoints/STAGE/   STAGE is tokenizer, gpt, vocoder, ... (see `training.stages`)
    step-00001500/   a checkpoint to continue from, see `training.checkpoints`
    best/            the weights with the lowest held-out loss (with EMA: its averages)
    finished.json    its result, once it is done
samples/             speech made during the training, as WAV
events/              for TensorBoard
log.txt              all lines of the log, with date, level and file
steps.jsonl          the losses of every step, one JSON object a line
monitor-STAGE.jsonl  step times, waiting and devices
report.md, loss.png  the final report
"""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from myxtts import UserError
from myxtts.config import load_config
from myxtts.model.config import was_big
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig


class RunDirectory:
    """The paths of the parts of a run; nothing is read or made until it is needed."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(os.path.abspath(path))
        self.config_file = self.path / "config.json"
        self.flags_file = self.path / "flags.txt"
        self.vocabulary_file = self.path / "vocabulary.json"
        self.identity_file = self.path / "identity.json"
        self.init = self.path / "init"
        self.init_file = self.path / "init.json"
        self.manifests = self.path / "manifests"
        self.samples = self.path / "samples"
        self.events = self.path / "events"
        self.steps_file = self.path / "steps.jsonl"
        self.log_file = self.path / "log.txt"
        self.report_file = self.path / "report.md"
        self.loss_picture = self.path / "loss.png"

    @classmethod
    def holding(cls, path: str | os.PathLike) -> "RunDirectory":
        """The run directory at `path`, or around it if `path` is, say, one of its checkpoints."""
        path = Path(os.path.abspath(path))
        if not path.exists():
            raise UserError(f"{path} does not exist; give the directory of a training run")
        for place in (path, *path.parents):
            if (place / "config.json").is_file() and (place / "checkpoints").is_dir():
                return cls(place)
        raise UserError(
            f"{path} is no training run: there is no config.json with checkpoints/ beside it; "
            "give the directory that train.py wrote"
        )

    def config(self) -> TrainConfig:
        config = load_config(TrainConfig, self.config_file)
        if was_big(config.model):
            raise UserError(
                f"{self.path} was trained with --model_size=big, whose networks are no more: take "
                "--model_size=xtts_v2 and another --checkpoint_dir, or the version of myxtts that "
                "began the run"
            )
        return config

    def vocabulary(self):
        """A `Vocabulary`, or a `PublishedVocabulary`."""
        if (self.init / "vocab.json").exists():
            from myxtts.xtts_v2.vocabulary import PublishedVocabulary

            return PublishedVocabulary.load(self.init)
        return Vocabulary.load(self.vocabulary_file)

    def languages(self) -> tuple[str, ...]:
        return self.vocabulary().languages

    def stage(self, stage: str) -> Path:
        return self.path / "checkpoints" / stage

    def monitor_file(self, stage: str) -> Path:
        return self.path / f"monitor-{stage}.jsonl"

    def result(self, stage: str) -> dict | None:
        """The contents of finished.json; None while the stage is not done."""
        path = self.stage(stage) / "finished.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path} cannot be read: {error}; delete it to have the stage finished again"
            ) from None

    def identity(self) -> dict:
        """The contents of identity.json; empty before the run was begun."""
        try:
            return dict(json.loads(self.identity_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            raise UserError(
                f"{self.identity_file} cannot be read: {error}; give another run directory"
            ) from None

    def record(self, stage: str) -> dict | None:
        """What the stage's result, or else its newest checkpoint, says of how it was trained:
        "config" and "identity" among others. None where nothing was saved yet."""
        from myxtts.training.checkpoints import newest

        result = self.result(stage)
        if result is None and (found := newest(self.stage(stage), only_described=True)):
            return found[1]
        return result

    def weights(self, stage: str) -> Path | None:
        """The checkpoint directory whose weights are to be used: the best, else the newest, else
        the one that the run started from."""
        from myxtts.training.checkpoints import step_directories

        if (self.stage(stage) / "best").is_dir():
            return self.stage(stage) / "best"
        steps = step_directories(self.stage(stage))
        first = self.init / stage
        return steps[-1] if steps else first if first.is_dir() else None

    def default_vocoder(self) -> str:
        """ "network" or "griffin_lim": which was better on the held-out clips."""
        result = self.result("vocoder")
        return default_vocoder(result) if result else "griffin_lim"


def default_vocoder(result: Mapping) -> str:
    """The better vocoder by the vocoder stage's result; never a network that is untrained."""
    return "griffin_lim" if result.get("untrained") else result.get("default_vocoder", "network")


def locked(run: RunDirectory):
    """An open file; until it is closed nobody else trains in the directory, where two trainings
    would overwrite each other's checkpoints."""
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        file = open(run.path / ".lock", "a")  # noqa: SIM115
    except OSError as error:
        raise not_writable(run, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(
            f"another training is running in {run.path}; wait for it, stop it, or give another "
            "run directory"
        ) from None
    return file


def not_writable(run: RunDirectory, error: OSError) -> UserError:
    return UserError(
        f"the run directory {run.path} cannot be written: {error.strerror}; make room or make it "
        "writable, or name another place"
    )
