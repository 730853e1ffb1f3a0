"""The identity of a run: what a job must have in common with it to continue it.

A run belongs to one corpus, one set of held-out clips, one vocabulary and one size of networks
(`RunIdentity`, kept in identity.json from the start). Each stage adds the settings that decide
its batches and weights (`fixed_settings`). All of this is compared before anything is written, for
finished stages as well. The other settings, such as learning rates, may change on the way.
"""

import dataclasses
import json
from collections.abc import Iterator

from myxtts import UserError
from myxtts.config import from_json, to_json, write_whole
from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named

# Settings that decide the batches and weights of every stage; a stage names further ones.
_FIXED = ("model", "batches", "augment", "grad_accum", "seed")
# Settings that decide when a stage ends.
_LENGTH = ("epochs", "max_steps", "max_minutes", "patience")


@dataclasses.dataclass(frozen=True)
class RunIdentity:
    """Fingerprints of what all stages of a run share."""

    corpus: str
    validation: str | None
    vocabulary: str

    @classmethod
    def of(cls, corpus: Corpus, validation: Corpus | None, vocabulary: Vocabulary) -> "RunIdentity":
        return cls(
            corpus.fingerprint,
            None if validation is None else validation.fingerprint,
            vocabulary.fingerprint,
        )

    def refuse_another_job(self, run: RunDirectory, config: TrainConfig) -> None:
        """Raises `UserError` if the run was begun with other clips, texts or networks."""
        if run.vocabulary_file.exists() and run.vocabulary().fingerprint != self.vocabulary:
            raise UserError(
                f"{run.path} was begun with another vocabulary than this corpus gives; "
                f"{_remedy(run)}"
            )
        if run.identity_file.exists():
            self._refuse_other_clips(run, run.identity(), f"{run.path} was begun")
        if run.config_file.exists():
            theirs, mine = (to_json(c)["model"] for c in (run.config(), config))
            for difference in _differences("model", theirs, mine):
                text = f"{run.path} was begun with {difference}"
                if difference.startswith("model.text."):
                    flag = difference.removeprefix("model.text.").split(", not")[0]
                    flag = flag.replace("True", "true").replace("False", "false").replace("'", "")
                    text += f" (--{flag})"
                raise UserError(f"{text}; {_remedy(run)}")

    def refuse_other_stage(
        self, run: RunDirectory, stage: str, config: TrainConfig, precision: str
    ) -> None:
        """Raises `UserError` if the stage was trained on other clips or with other settings."""
        record = run.record(stage)
        if record is None:
            return
        place, identity = run.stage(stage), record["identity"]
        self._refuse_other_clips(run, identity, f"the {stage} in {place} was trained")
        theirs = {
            **fixed_settings(from_json(TrainConfig, record["config"], str(place)), stage),
            "precision": identity["precision"],
        }
        mine = {**fixed_settings(config, stage), "precision": precision}
        for name, value in mine.items():
            for difference in _differences(name, theirs[name], value):
                raise UserError(
                    f"the {stage} in {place} was trained with {difference}; give what it was made "
                    "with, or another run directory"
                )

    def _refuse_other_clips(self, run: RunDirectory, theirs: dict, was: str) -> None:
        for name, words in (("corpus", "clips"), ("validation", "held-out clips")):
            if theirs.get(name) != getattr(self, name):
                raise UserError(f"{was} on other {words} than these; {_remedy(run)}")

    def save(self, run: RunDirectory, precision: str) -> None:
        """Also the precision, which the run is continued in where "auto" is asked for."""
        kept = {**dataclasses.asdict(self), "precision": precision, **_only_precision(run)}
        write_whole(run.identity_file, json.dumps(kept, indent=1) + "\n")


def fixed_settings(config: TrainConfig, stage: str) -> dict:
    """The settings that decide the batches and weights of a stage, as plain JSON types."""
    values = to_json(config)
    fixed = {name: values[name] for name in (*_FIXED, *stage_named(stage, config.model.form).fixed)}
    fixed["batches"]["batch_size"] = config.batch_size(stage)
    return fixed


def without_effect(result: dict, config: TrainConfig, stage: str) -> list[str]:
    """How the settings of a finished stage differ from those asked for now, which come too late
    for it."""
    theirs, mine = (
        {stage: values["stages"][stage], **{name: values[name] for name in _LENGTH}}
        for values in (result["config"], to_json(config))
    )
    return [
        difference
        for name, value in mine.items()
        for difference in _differences(name, theirs[name], value)
    ]


def _only_precision(run: RunDirectory) -> dict:
    return {name: value for name, value in run.identity().items() if name == "precision"}


def _differences(name: str, theirs: object, mine: object) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted(mine.keys() | theirs.keys()):
            yield from _differences(f"{name}.{key}", theirs.get(key), mine.get(key))
    elif theirs != mine:
        yield f"{name}={theirs!r}, not {mine!r}"


def _remedy(run: RunDirectory) -> str:
    if run.flags_file.exists():
        return f"give the flags in {run.flags_file}, or another run directory"
    return "give what it was begun with, or another run directory"
