"""Runs the training, and prints at its end where everything is and what the results are."""

import shlex
import sys
import traceback
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import data_service
from dual_device_strategy.devices import Devices
from dual_device_strategy.out_of_memory import exhausted_device
from myxtts import UserError
from myxtts.command import console
from myxtts.command.advice import advice, facts_of
from myxtts.command.corpora import Clips, vocabulary_of
from myxtts.command.outcome import outcome, short_path
from myxtts.command.settings import Job, made_by_default
from myxtts.config import write_whole
from myxtts.corpus.manifest import Corpus
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.run_directory import RunDirectory
from myxtts.training.trainer import Trainer, TrainingFailed
from myxtts.training.workers import Workers

DONE, TRAINING_FAILED = 0, 2
_MOST_TEXTS = 4


def train(
    job: Job,
    devices: Devices,
    clips: Clips,
    strategy: tf.distribute.Strategy,
    *,
    again: Sequence[str],
    flags: Sequence[str],
) -> int:
    """Trains, or continues; returns the exit code. With several workers, the first one reports.

    Args:
      again: Python's arguments that run the same command again.
      flags: the flags among them.
    """
    run, workers = RunDirectory(job.run_path), Workers(strategy)
    vocabulary = vocabulary_of(job, clips.training)
    if workers.chief:
        facts = facts_of(job, devices, clips, vocabulary, workers=workers.count)
        for sentence in advice(job, facts):
            logging.warning("advice: %s", sentence)
    trainer = Trainer(
        job.train,
        run_dir=run.path,
        corpus=clips.training,
        validation=clips.validation,
        vocabulary=vocabulary,
        start=job.start,
        strategy=strategy,
        evaluation_texts=_texts(
            clips.validation or clips.training, vocabulary, job.train.model.text.max_tokens
        ),
        leave_notes=lambda run: _leave_notes(
            run, clips=clips, again=again, flags=[*flags, *made_by_default(job)], given=len(flags)
        ),
    )
    try:
        report = trainer.run(job.stages)
    except UserError:
        raise
    except TrainingFailed as error:
        print(f"training failed: {error}", file=sys.stderr)
        return TRAINING_FAILED
    except Exception as error:
        if silence := data_service.explained(error, strategy):
            print(
                f"training failed: {silence}. Start the service again, and the same command: it "
                f"continues from the newest checkpoint in {run.path}, if there is one",
                file=sys.stderr,
            )
            return TRAINING_FAILED
        exhausted = exhausted_device(error)
        if workers.count > 1 and isinstance(error, tf.errors.OpError) and not exhausted:
            raise  # the strategy says which worker is gone
        if not exhausted:
            traceback.print_exc()
        print(f"training failed{failure(error, run)}", file=sys.stderr)
        return TRAINING_FAILED
    if report.interrupted:
        print(f"\nsaved after {report.interrupted}; to continue:\n  {_command(again)}")
    elif workers.chief:
        print(outcome(run, clips, report))
    else:
        print(f"done; worker 0 has written what came of it to {run.path}")
    return DONE


def _texts(corpus: Corpus, vocabulary: Vocabulary, most: int) -> list[tuple[str, str]]:
    """The texts of samples: held-out sentences of medium length, languages in turn."""
    of_language: dict[str, list[str]] = {}
    for clip in range(len(corpus)):
        text, language = corpus.texts[clip], corpus.language_of(clip)
        if len(vocabulary.encode(text, language)) <= most:
            of_language.setdefault(language, []).append(text)
    middle = {
        language: sorted(texts, key=lambda text: (len(text), text))[len(texts) // 2 :]
        for language, texts in of_language.items()
    }
    turns = [
        (texts[turn], language)
        for turn in range(2)
        for language, texts in middle.items()
        if turn < len(texts)
    ]
    return turns[:_MOST_TEXTS]


def _leave_notes(
    run: RunDirectory, *, clips: Clips, again: Sequence[str], flags: Sequence[str], given: int
) -> None:
    """Leaves the flags, the manifests and the log in the run directory."""
    console.write_to(run)
    lines = [flag for flag in flags if not flag.startswith("--checkpoint_dir")]
    program = shlex.join(["python", *again[: len(again) - given]])
    write_whole(
        run.flags_file,
        f"# {program} --flagfile=THIS_FILE repeats and continues this run\n"
        + "".join(f"{line}\n" for line in [*lines, f"--checkpoint_dir={run.path}"]),
    )
    clips.copy_manifests(run)


def _command(arguments: Sequence[str]) -> str:
    return shlex.join([short_path(sys.executable), *arguments])


def failure(error: Exception, run: RunDirectory) -> str:
    """The text after "training failed", which explains a device that ran out of memory.

    Nothing else is explained: a `MemoryError` in Python, a full disk and too many open files are
    ordinary errors, although TensorFlow gives them the same class.
    """
    if not exhausted_device(error):
        return (
            f" with the error above; the checkpoints in {run.path} are whole, and the same command "
            "continues from the newest"
        )
    return (
        f": a device ran out of memory: {str(error).splitlines()[0][:300]}. Halve --batch_size and "
        "double --grad_accum, or lower --max_seconds (--dry_run estimates what fits), in another "
        f"--checkpoint_dir; the checkpoints in {run.path} are whole"
    )
