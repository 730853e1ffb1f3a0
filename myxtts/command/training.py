"""The run itself, and what is said when it ends: where everything is and what it came to."""

import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from absl import logging

from dual_device_strategy.devices import Devices
from myxtts import UserError
from myxtts.command import advice
from myxtts.command.corpora import Clips, vocabulary_of
from myxtts.command.settings import Job
from myxtts.command.situation import situation_of
from myxtts.command.strategies import make_strategy
from myxtts.config import write_whole
from myxtts.corpus.manifest import Corpus
from myxtts.text.alphabets import base_language
from myxtts.training.run_directory import RunDirectory
from myxtts.training.trainer import Report, Trainer, TrainingFailed

DONE, TRAINING_FAILED = 0, 2
_MOST_TEXTS = 4
_SENTENCES = {
    "en": "This is a sentence of my own.",
    "de": "Das ist ein Satz von mir.",
    "es": "Esta es una frase mía.",
    "fa": "این جمله‌ای از خودم است.",
    "fr": "Voici une phrase de moi.",
}


def train(job: Job, devices: Devices, clips: Clips, canonical: Sequence[str]) -> int:
    """Trains, or continues; the exit code."""
    run = RunDirectory(job.run_path)
    vocabulary = vocabulary_of(job, clips.training)
    for sentence in advice.advice(job, situation_of(job, devices, clips, vocabulary)):
        logging.warning("advice: %s", sentence)
    trainer = Trainer(
        job.train,
        run.path,
        clips.training,
        clips.validation,
        vocabulary,
        strategy=make_strategy(job, devices),
        evaluation_texts=_texts(clips.validation or clips.training),
    )
    _explain(run, clips, job, canonical)
    try:
        report = trainer.run(job.stages)
    except UserError:
        raise
    except TrainingFailed as error:
        print(f"training failed: {error}", file=sys.stderr)
        return TRAINING_FAILED
    except tf.errors.ResourceExhaustedError as error:
        print(f"training failed: {_out_of_memory(error, run)}", file=sys.stderr)
        return TRAINING_FAILED
    except Exception:
        traceback.print_exc()
        print(
            f"training failed with the error above; the checkpoints in {run.path} are whole, and "
            "the same command continues from the newest",
            file=sys.stderr,
        )
        return TRAINING_FAILED
    if report.interrupted:
        print(f"\nsaved after {report.interrupted}; to continue:\n  {_command(canonical)}")
    else:
        print(_closing(job, run, clips, report))
    return DONE


def _texts(corpus: Corpus) -> list[tuple[str, str]]:
    """What samples say: held-out sentences, languages in turn, neither the shortest nor the
    longest."""
    of_language: dict[str, list[str]] = {}
    for clip in range(len(corpus)):
        of_language.setdefault(corpus.language_of(clip), []).append(corpus.texts[clip])
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


def _explain(run: RunDirectory, clips: Clips, job: Job, canonical: Sequence[str]) -> None:
    """Leaves the flags and the manifests in the run directory."""
    lines = [flag for flag in canonical if not flag.startswith("--checkpoint_dir")]
    try:
        write_whole(
            run.flags_file,
            "# python train.py --flagfile=THIS_FILE repeats and continues this run\n"
            + "".join(f"{line}\n" for line in [*lines, f"--checkpoint_dir={run.path}"]),
        )
        clips.copy_manifests(run)
    except OSError as error:
        raise UserError(
            f"{run.path} cannot be written: {error.strerror}; make room, or name another place "
            "with --checkpoint_dir"
        ) from None


def _command(canonical: Sequence[str]) -> str:
    return shlex.join([_short(sys.executable), *sys.argv[:1], *canonical])


def _out_of_memory(error: tf.errors.ResourceExhaustedError, run: RunDirectory) -> str:
    return (
        f"a device ran out of memory: {str(error.message).splitlines()[0][:300]}. Halve "
        "--batch_size and double --grad_accum, or lower --max_seconds (--dry_run estimates what "
        f"fits), in another --checkpoint_dir; the checkpoints in {run.path} are whole"
    )


def _closing(job: Job, run: RunDirectory, clips: Clips, report: Report) -> str:
    lines = ["", f"Done. Everything is in {run.path}:"]
    for what, path in (
        ("report", run.report_file),
        ("loss curves", run.loss_picture),
        ("speech", run.samples),
        ("TensorBoard", run.events),
        ("settings", run.config_file),
    ):
        if path.exists():
            lines.append(f"  {what:<12} {path}")
    lines.append("Held-out figures:")
    for stage, result in report.stages.items():
        figures = ", ".join(f"{name} {value:.3f}" for name, value in result["held_out"].items())
        lines.append(f"  {stage:<12} {figures or 'no clip was held out'}")
    lines.append("Overlap of the devices:")
    for stage, result in report.stages.items():
        waited = result["wait_share"]
        lines.append(
            f"  {stage:<12} {result['steps']:,} steps, {1 - waited:.0%} of the time training, "
            f"{waited:.0%} waiting for a batch"
        )
    if run.weights("gpt") is None:
        lines.append("To speak, the stages tokenizer and gpt are needed; see --stage.")
        return "\n".join(lines)
    lines.append("To hear a sentence of your own:")
    lines.append(f"  {_synthesis_command(run, clips.validation or clips.training)}")
    return "\n".join(lines)


def _synthesis_command(run: RunDirectory, corpus: Corpus) -> str:
    """In the voice of the longest clip up to six seconds, which is what training saw."""
    seconds = corpus.samples / corpus.sample_rate
    chosen = max(range(len(corpus)), key=lambda clip: (seconds[clip] <= 6, seconds[clip]))
    if seconds[chosen] > 6:
        chosen = int(seconds.argmin())
    language = corpus.language_of(chosen)
    words = [
        *(_short(sys.executable), "-m", "myxtts.synthesis"),
        f"--checkpoint={_short(run.path)}",
        f"--text={_SENTENCES.get(base_language(language), corpus.texts[chosen])}",
        f"--speaker_wav={_short(corpus.paths[chosen])}",
        f"--language={language}",
        "--out=own.wav",
    ]
    return shlex.join(words)


def _short(path: str | Path) -> str:
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
