"""The flags' values as the settings of a run; all mistakes in them are reported at once."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from myxtts import UserError
from myxtts.command.flags import all_flags, groups
from myxtts.command.flags.arguments import Mistakes
from myxtts.command.kept import Kept, kept_from
from myxtts.command.start import (
    refuse_flags_of_others,
    sizes_asked_for,
    stages_to_train,
    what_is_started_from,
)
from myxtts.config import AugmentConfig, BadSetting, BatchConfig, PrepareConfig
from myxtts.corpus.embedded import EmbeddedConfig
from myxtts.corpus.formats import ReadOptions, choose_format
from myxtts.corpus.prepare import Source
from myxtts.model.config import ModelConfig
from myxtts.training.config import TrainConfig
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import STAGES, stages_of
from myxtts.training.start import Start
from myxtts.xtts_v2.sizes import PublishedModel

DEFAULT_MINUTES = 10.0  # without data and without another limit
SPEECH_PER_MINUTE = 48.0  # minutes of speech for each minute of a run: each clip is seen 3 times
MOST_SPEECH = 1440.0  # 3.7 GB
_EMBEDDED_MINUTES = re.compile(r"^--embedded_minutes=([\d.]+)$", re.MULTILINE)
DEFAULT_EPOCHS = 100  # with data and without another limit


@dataclasses.dataclass(frozen=True)
class Job:
    """A job: everything that a command line decides.

    Attributes:
      train: the settings of the training.
      source: the corpus; None if `embedded` describes one to make.
      stages: the stages to train.
      start: the weights to start from; None for random ones.
      kept: clips of languages that the model has, against forgetting; None for no such clips.
      slots: the slots of the split strategy, a number or "auto".
      given: the names of the flags that were given.
    """

    train: TrainConfig
    source: Source | None
    embedded: EmbeddedConfig
    prepare: PrepareConfig
    stages: tuple[str, ...]
    slots: int | str
    values: flags.FlagValues
    given: frozenset[str]
    start: Start | None = None
    kept: Kept | None = None

    @property
    def run_path(self) -> Path:
        return Path(os.path.abspath(self.values.checkpoint_dir))


def job_from(values: flags.FlagValues, mistakes: Sequence[str] = ()) -> Job:
    """The job of parsed flags; raises Mistakes, including those found in the arguments."""
    mistakes = list(mistakes)
    given = frozenset(flag.name for flag in all_flags() if values[flag.name].present)
    overrides = _overrides(values)
    source = _source(values, given, overrides.pop("source"), mistakes)
    start = what_is_started_from(values, given, mistakes)
    model = start.model if start is not None else sizes_asked_for(values, mistakes)
    if model.form != "own":
        overrides["prepare"]["sample_rate"] = ("model_size", model.audio.sample_rate)
    if start is not None or values.init_from is None:
        refuse_flags_of_others(values, start, mistakes, form=model.form, given=given)
    if source is None and not values.model_config and start is None and model.form == "own":
        # espeak-ng is there then, and a voice is learnt sooner from what it says than from letters.
        overrides["text"].setdefault("phonemes", ("phonemes", True))
    _default_length(values, overrides["train"])
    if source is None:
        _default_minutes(values.checkpoint_dir, overrides)
    embedded = _built(EmbeddedConfig(), overrides.pop("embedded"), mistakes)
    prepare = _built(PrepareConfig(), overrides.pop("prepare"), mistakes)
    train = _train_config(values, overrides, model, mistakes)
    bpe = train.model.text.vocabulary == "bpe"
    if start is None and not bpe and values["vocabulary_size"].present:
        mistakes.append("--vocabulary_size is of --vocabulary=bpe, which these settings do not use")
    slots = _slots(values.slots, mistakes)
    if slots == "auto" and values.strategy == "multi_worker":
        mistakes.append("--slots=auto is not there for --strategy=multi_worker: give a number")
    if values.shares == "auto" and values.deterministic:
        mistakes.append(
            "--shares=auto goes by the times of steps, which are others in every run, and "
            "--deterministic wants the same run again: give the shares as numbers, such as those "
            "that a run with --shares=auto has chosen"
        )
    if values.data_service is not None and values.strategy not in ("split", "multi_worker"):
        mistakes.append(
            "--data_service is for --strategy=split and multi_worker, not "
            f"{values.strategy}: leave one of them out"
        )
    if values.shares is not None and values.strategy != "split":
        mistakes.append(
            f"--shares is for --strategy=split, not {values.strategy}, whose devices all have the "
            "same share: leave it out"
        )
    kept = kept_from(values.keep_data, mistakes)
    stages = stages_to_train(values.stage, train.model.form, mistakes)
    if values.dry_run and values.profile:
        mistakes.append("--dry_run and --profile both do something else than training: give one")
    for name in ("checkpoint_dir", "prepared_dir", "embedded_dir"):
        if name != "embedded_dir" or source is None:
            mistakes += _not_writable(name, values[name].value)
    if mistakes:
        raise Mistakes(mistakes)
    return Job(
        train,
        source=source,
        embedded=embedded,
        prepare=prepare,
        stages=stages,
        slots=slots,
        values=values,
        given=given,
        start=start,
        kept=kept,
    )


def _overrides(values) -> dict[str, dict[str, tuple[str, object]]]:
    """For each settings class the fields that flags fill: {field: (flag, value)}."""
    parts = ("source", "embedded", "prepare", "text", "batches", "augment", "model_gpt")
    parts += ("objective", "sound", "train")
    found: dict[str, dict] = {part: {} for part in (*parts, "stages", *STAGES)}
    for flag in all_flags():
        value = values[flag.name].value
        if flag.sets and value is not None:
            part, field = flag.sets.split(".")
            found[part][field] = (flag.name, tuple(value) if flag.kind == "list" else value)
    for stage in STAGES:  # a flag for one stage takes precedence over the flag for all
        found[stage] = {**found["stages"], **found[stage]}
    return found


def _built(base, overrides: dict[str, tuple[str, object]], mistakes: list[str]):
    """`base` with the overrides; those that it refuses are mistakes and are left out."""
    rest, refused = dict(overrides), set()
    while True:
        try:
            return dataclasses.replace(base, **{field: value for field, (_, value) in rest.items()})
        except BadSetting as error:
            field = error.field.rpartition(".")[2]
            if field not in rest:
                if field not in refused:  # else another flag makes the default a mistake as well
                    mistakes.append(f"{error}")
                return base
            flag, _ = rest.pop(field)
            mistakes.append(f"--{flag} must be {error.needed}, got {error.value!r}")
            refused.add(field)
        except UserError as error:
            mistakes.append(f"{error}")
            return base


def _train_config(values, overrides, model: ModelConfig, mistakes) -> TrainConfig:
    model = dataclasses.replace(
        model,
        text=_built(model.text, overrides["text"], mistakes),
        gpt=_built(model.gpt, overrides["model_gpt"], mistakes),
        xtts_v2=_published(model.xtts_v2, values, overrides, mistakes),
    )
    stages = {}
    for name, stage in stages_of(model.form).items():
        overrides[name].setdefault("learning_rate", (f"{name}_lr", stage.usual_rate(model)))
        stages[name] = _built(stage.learning, overrides[name], mistakes)
    seed = {"seed": ("seed", values.seed)}
    run = TrainConfig(
        model=model,
        batches=_built(BatchConfig(), {**overrides["batches"], **seed}, mistakes),
        augment=_built(AugmentConfig(), overrides["augment"], mistakes),
        stages=stages,
    )
    return _built(run, overrides["train"], mistakes)


def _published(model: PublishedModel | None, values, overrides, mistakes) -> PublishedModel | None:
    if model is None:
        return None

    def given(*parts: str) -> dict:  # a file with sizes may have others than the flags' defaults
        fields = {name: one for part in parts for name, one in overrides[part].items()}
        return {name: one for name, one in fields.items() if values[one[0]].present}

    objective = _built(model.objective, given("model_gpt", "objective"), mistakes)
    sound = _built(model.sound, given("sound"), mistakes)
    adapted = values.trainable == "adapters" and not model.from_random
    rank = values.adapter_rank if adapted else 0
    return dataclasses.replace(model, objective=objective, sound=sound, adapter_rank=rank)


def _default_length(values, train: dict) -> None:
    """Gives a run without any limit a length; it would never leave its first stage."""
    if not {"epochs", "max_steps", "max_minutes"} & set(train):
        if values.train_data is None:
            train["max_minutes"] = ("max_minutes", DEFAULT_MINUTES)
        else:
            train["epochs"] = ("epochs", DEFAULT_EPOCHS)


def _default_minutes(run_path: str, overrides: dict) -> None:
    """The minutes of speech to make: more for a longer run, or it would learn the little there is
    by heart. A run that has begun keeps its speech, even if its time is raised."""
    if "minutes" in overrides["embedded"]:
        return
    begun = _EMBEDDED_MINUTES.search(_text_of(RunDirectory(run_path).flags_file))
    if begun:
        minutes = float(begun[1])
    else:
        _, limit = overrides["train"].get("max_minutes", ("", 0.0))
        minutes = max(EmbeddedConfig.minutes, min(SPEECH_PER_MINUTE * limit, MOST_SPEECH))
    overrides["embedded"]["minutes"] = ("embedded_minutes", minutes)


def made_by_default(job: Job) -> list[str]:
    """Flags that were not given but were chosen by others, for the file that repeats the run."""
    if job.source is not None or "embedded_minutes" in job.given:
        return []
    return [f"--embedded_minutes={job.embedded.minutes:g}"]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _source(values, given, overrides, mistakes) -> Source | None:
    if values.train_data is None:
        corpus = groups()["Corpus"]
        of_source = [flag.name for flag in corpus if flag.sets.startswith("source.")]
        for name in (*of_source, "val_data", "val_metadata", "prepared_dir"):
            if name in given:
                mistakes.append(f"--{name} is about a corpus of yours: give --train_data as well")
        return None
    source = Source(**{field: value for field, (_, value) in overrides.items()})
    if values.val_metadata is not None and values.val_data is None:
        mistakes.append("--val_metadata is a file inside --val_data: give that as well")
    for name, part in (("train_data", source), ("val_data", validation_source(source, values))):
        if part is not None:
            try:
                options = ReadOptions(part.metadata, part.audio_dir)
                choose_format(part.root, part.format, options)
            except UserError as error:
                mistakes.append(f"--{name}: {error}")
    return source


def validation_source(source: Source, values: flags.FlagValues) -> Source | None:
    """The corpus of --val_data, if any: in all else like the one of --train_data."""
    if values.val_data is None:
        return None
    metadata = values.val_metadata or source.metadata
    return dataclasses.replace(source, directory=values.val_data, metadata=metadata)


def _slots(text: str, mistakes: list[str]) -> int | str:
    if text == "auto":
        return text
    if text.isdecimal() and int(text) >= 2:
        return int(text)
    mistakes.append(f"--slots must be auto or a whole number of at least 2, got {text}")
    return 3


def _not_writable(name: str, path: str | None) -> list[str]:
    """Mistakes in output paths, found before anything is made, not after the corpus is prepared."""
    if path is None:
        return []
    place = Path(os.path.abspath(path))
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        return [f"--{name}={path} cannot be made: {place} is a file"]
    if not os.access(place, os.W_OK | os.X_OK):
        return [f"--{name}={path} cannot be written: no permission in {place}"]
    if place != Path(os.path.abspath(path)):
        # Some places refuse although their permissions do not say so, such as /proc.
        try:
            os.rmdir(tempfile.mkdtemp(dir=place))
        except OSError as error:
            return [f"--{name}={path} cannot be made in {place}: {error.strerror}"]
    return []
