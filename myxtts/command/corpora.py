"""The clips of a job: made by espeak-ng or prepared from a corpus, and what is held out of them."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
from absl import logging

from myxtts import UserError
from myxtts.command.settings import Job, validation_source
from myxtts.config import AudioConfig, write_whole
from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.corpus.summary import Summary
from myxtts.text.languages import base_language
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.run_directory import RunDirectory
from myxtts.xtts_v2.cleaners import LANGUAGES, cleaned
from myxtts.xtts_v2.cleaners.numbers import NoWords


@dataclasses.dataclass(frozen=True)
class Clips:
    """The training clips, the held-out clips (None if there are none), and their source."""

    training: Corpus
    validation: Corpus | None
    prepared: dict[str, Path]
    summary: Summary

    def copy_manifests(self, run: RunDirectory) -> None:
        """Copies the manifests, which list the clips of the run, into the run directory."""
        for part, prepared in self.prepared.items():
            place = run.manifests / part
            place.mkdir(parents=True, exist_ok=True)
            for name in ("manifest.tsv", "corpus.json", "rejected.tsv", "summary.txt"):
                shutil.copyfile(prepared / name, place / name)
            # The manifest's paths lead from there to the clips.
            write_whole(place / "prepared.txt", f"{prepared.resolve()}\n")
        if self.validation is not None:
            paths = "".join(f"{path}\n" for path in self.validation.paths)
            write_whole(run.manifests / "held_out.txt", paths)


def clips_of(job: Job) -> Clips:
    """The clips, made or prepared if they are not there yet; an interrupted run goes on later."""
    if job.source is None:
        directory = job.values.embedded_dir
        logging.info("no --train_data: %s, in %s", job.embedded.describe(), directory)
        source = Source(embedded.make(directory, job.embedded, workers=job.train.workers))
    else:
        source = job.source
    prepared, summary = _prepared(source, job, job.values.prepared_dir)
    corpus = Corpus.load(prepared)
    places = {"training": prepared}
    second = validation_source(source, job.values)
    if second is None:
        training, validation = corpus.split(job.train.validation_share)
    else:
        beside = job.values.prepared_dir and f"{job.values.prepared_dir}_validation"
        places["validation"], _ = _prepared(second, job, beside)
        training, validation = corpus, Corpus.load(places["validation"], known=corpus)
        _check_languages(training, validation, job.values.val_data)
    training = _short_enough(training, job.values.max_mel_frames, job.train.model.audio)
    if not len(training):
        raise UserError(
            f"of {len(corpus)} clips none is left to train on: lower --validation_share, or raise "
            "--max_mel_frames"
        )
    validation = _short_enough(validation, job.values.max_mel_frames, job.train.model.audio)
    if not len(validation):
        logging.warning(
            "no clip is held out, so nothing will say when training has lasted long enough: "
            "give --val_data, or a larger --validation_share"
        )
        validation = None
    if job.kept is not None:
        beside = job.values.prepared_dir and f"{job.values.prepared_dir}_kept"
        places["kept"], _ = _prepared(job.kept.source, job, beside)
        training = job.kept.mixed(training, Corpus.load(places["kept"], known=training))
    if job.train.model.form != "own":
        training = _readable(training)
        validation = validation and _readable(validation)
    return Clips(training, validation, places, summary)


def vocabulary_of(job: Job, corpus: Corpus) -> Vocabulary:
    """That of the weights it starts from; the run's own one where it has been begun; else made of
    the corpus."""
    if job.start is not None:
        return job.start.vocabulary
    run = RunDirectory(job.run_path)
    if run.vocabulary_file.is_file():
        return run.vocabulary()
    languages = [corpus.language_of(clip) for clip in range(len(corpus))]
    return Vocabulary.train(corpus.texts, languages, job.train.model.text)


def _prepared(source: Source, job: Job, prepared_dir: str | None) -> tuple[Path, Summary]:
    return prepare(
        source,
        job.prepare,
        prepared_dir,
        workers=job.train.workers,
        max_rejected=job.values.max_rejected,
    )


def _check_languages(training: Corpus, validation: Corpus, place: str) -> None:
    new = sorted(set(validation.languages) - set(training.languages))
    if new:
        raise UserError(
            f"--val_data={place} has clips in {', '.join(new)}, the training corpus has none: "
            "leave them out, or correct their language"
        )


def _readable(corpus: Corpus) -> Corpus:
    """Without the clips whose texts the published cleaners have no words for."""
    refused = {}
    for clip, text in enumerate(corpus.texts):
        language = base_language(corpus.language_of(clip))
        try:
            if language in LANGUAGES:
                cleaned(text, language)
        except NoWords as error:
            refused[clip] = error
    if not refused:
        return corpus
    clip, error = next(iter(refused.items()))
    message = f"{len(refused)} of {len(corpus)} clips (the first: {corpus.paths[clip]}: {error})"
    if len(refused) == len(corpus):
        raise UserError(f"no text can be read: {message}")
    logging.warning("%s are left out, for numbers in their texts that cannot be read", message)
    return corpus.subset(np.setdiff1d(np.arange(len(corpus)), [*refused]))


def _short_enough(corpus: Corpus, most_frames: int | None, audio: AudioConfig) -> Corpus:
    if most_frames is None:
        return corpus
    kept = np.flatnonzero(audio.frames(corpus.samples) <= most_frames)
    if len(kept) < len(corpus):
        logging.warning(
            "%d of %d clips are left out, they have more than --max_mel_frames=%d frames",
            len(corpus) - len(kept),
            len(corpus),
            most_frames,
        )
    return corpus.subset(kept)
