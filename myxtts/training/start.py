"""The weights that a run starts from: a published directory or another run (`--init_from`), or
random ones of the published form.

    start = start_of("XTTS-v2")      # or random_start(model, corpus, seed=0)
    start.model, start.vocabulary      # those of the new run
    start.leave(RunDirectory("runs/mine"))

Everything else about the new run is its own: clips, steps, optimizer, settings. The weights are
copied into its `init/`, so that it can be continued, exported and heard without the original.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from myxtts import UserError
from myxtts.config import AudioConfig, TextConfig, write_whole
from myxtts.corpus.manifest import Corpus
from myxtts.model.config import ModelConfig
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_names
from myxtts.xtts_v2.beginning import NO_LICENCE, Beginning, with_vocabulary
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.hifigan import SAMPLE_RATE
from myxtts.xtts_v2.vocabulary import PublishedVocabulary


@dataclasses.dataclass(frozen=True)
class Start:
    """The weights that a run starts from; make it with `start_of`.

    Attributes:
      path: the path as given; None for random weights.
      model: the sizes of all networks.
      vocabulary: the one the weights were trained with.
      licence: the licence of the weights; None if it is not stated.
      source: the published networks; None for our own.
      weights: for our own networks, the checkpoint of each stage.
      beginning: where `source` is still to be made of random weights.
    """

    path: str | None
    model: ModelConfig
    vocabulary: object
    licence: str | None = None
    source: PublishedDirectory | None = None
    weights: dict[str, Path] = dataclasses.field(default_factory=dict)
    beginning: Beginning | None = None

    def leave(self, run: RunDirectory, languages: Iterable[str] = ()) -> None:
        """Copies it into the run, whole or not at all; an existing copy stays.

        `languages` are those of the clips; the libraries that write their texts are recorded.
        """
        if run.init.exists():
            return
        run.path.mkdir(parents=True, exist_ok=True)
        said = {"from": self.path, "licence": self.licence}
        write_whole(run.init_file, json.dumps(said, indent=1) + "\n")
        if self.licence:
            write_whole(run.path / "LICENSE.txt", self.licence + "\n")
        source = self.source if self.beginning is None else self.beginning.drawn()
        if source is not None:
            normaliser = source.normaliser.recorded(languages)
            dataclasses.replace(source, normaliser=normaliser).write(run.init)
        else:
            partial = run.init.with_name("init.partial")
            shutil.rmtree(partial, ignore_errors=True)
            for stage, weights in self.weights.items():
                names = [name for name in os.listdir(weights) if not name.startswith("training.")]
                (partial / stage).mkdir(parents=True)
                for name in names:
                    shutil.copyfile(weights / name, partial / stage / name)
            os.rename(partial, run.init)


def start_of(path: str | os.PathLike, run: RunDirectory | None = None) -> Start:
    """The start in `path`. If `run` was begun from there, it has a copy, which is used instead;
    UserError if it was begun from something else."""
    path = os.path.abspath(path)
    if run is not None and run.init.exists():
        begun = _said(run)["from"]
        if begun != path:
            was = f"--init_from={begun}" if begun else "random weights"
            raise UserError(
                f"{run.path} was begun with {was}, not {path}; give that, or another "
                "--checkpoint_dir"
            )
        config = run.config() if run.config_file.exists() else None
        if config is not None and config.model.form == "own":
            return Start(path, config.model, run.vocabulary())
        return start_from(path, PublishedDirectory.open(run.init))
    source = published_source(path)
    if source is not None:
        return start_from(path, source)
    old = RunDirectory.holding(path)
    here = Path(path)
    stages = {s: here if here.parent == old.stage(s) else old.weights(s) for s in stage_names()}
    stages = {stage: weights for stage, weights in stages.items() if weights is not None}
    if not stages:
        raise UserError(f"{old.path} holds no weights yet; nothing can start from it")
    return Start(path, old.config().model, old.vocabulary(), weights=stages)


def random_start(
    model: ModelConfig, corpus: Corpus, seed: int, run: RunDirectory | None = None
) -> Start:
    """Random weights of the published form, and a vocabulary made from the corpus. If `run` was
    begun with random weights, those and its vocabulary count."""
    if run is not None and run.init.exists():
        source = PublishedDirectory.open(run.init)
        start = start_from(None, source)
        sizes = with_vocabulary(model.xtts_v2, source.vocabulary)
        return dataclasses.replace(start, model=dataclasses.replace(model, xtts_v2=sizes))
    beginning = Beginning.of(model.xtts_v2, corpus, model.text, seed)
    return Start(
        None,
        dataclasses.replace(model, xtts_v2=beginning.model),
        PublishedVocabulary(beginning.vocabulary, beginning.normaliser),
        licence=NO_LICENCE,
        beginning=beginning,
    )


def begun_from(run: RunDirectory) -> str | None:
    """The --init_from that a run was begun with."""
    return _said(run)["from"] if run.init.exists() else None


def _said(run: RunDirectory) -> dict:
    try:
        return json.loads(run.init_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{run.init_file} cannot be read: {error}; take a new run") from None


def start_from(path: str | None, source: PublishedDirectory) -> Start:
    """From published networks, which `path` led to."""
    source.need_dvae()
    sizes = source.sizes()
    model = ModelConfig(
        audio=AudioConfig(sample_rate=SAMPLE_RATE),
        text=TextConfig(max_tokens=sizes.args.gpt_max_text_tokens - 1),
        xtts_v2=sizes,
    )
    vocabulary = PublishedVocabulary(source.vocabulary, source.normaliser)
    return Start(path, model, vocabulary, licence=source.licence, source=source)
