"""The text printed when a run is done: where everything is, the figures, and how to hear it."""

import json
import shlex
import statistics
import sys
from pathlib import Path

from myxtts import UserError
from myxtts.command.corpora import Clips
from myxtts.corpus.manifest import Corpus
from myxtts.text.languages import base_language
from myxtts.training.published_run import trained_weights
from myxtts.training.run_directory import RunDirectory
from myxtts.training.step_log import read_steps
from myxtts.training.trainer import Report
from myxtts.voice import SPEAKING_STAGES

_SENTENCES = {
    "en": "This is a sentence of my own.",
    "de": "Das ist ein Satz von mir.",
    "es": "Esta es una frase mía.",
    "fa": "این جمله‌ای از خودم است.",
    "fr": "Voici une phrase de moi.",
}
_FIRST = 5  # steps that trace, and fill the slots


def outcome(run: RunDirectory, clips: Clips, report: Report) -> str:
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
    for stage in report.stages:
        lines.append(f"  {stage:<12} {overlap(run, stage)}")
        if told := both_train(_watched(run, stage).get("devices", {})):
            lines.append(f"  {'':<12} {told}")
    published = run.config().model.form != "own"
    if not published and any(run.weights(stage) is None for stage in SPEAKING_STAGES):
        needed = " and ".join(SPEAKING_STAGES)
        lines.append(f"To speak, the stages {needed} are needed; see --stage.")
        return "\n".join(lines)
    if published:
        try:
            trained_weights(run, run.path)
        except UserError as error:
            lines.append(f"It does not speak yet: {error}.")
            return "\n".join(lines)
    lines.append("To hear a sentence of your own:")
    lines.append(f"  {_synthesis_command(run, clips.validation or clips.training)}")
    if published:
        lines.append("To write it in the published layout:")
        python, place = short_path(sys.executable), short_path(run.path)
        lines.append(f"  {python} -m myxtts.export --format=xtts --checkpoint={place} --out=DIR")
        lines.append(f"Licence: {(run.path / 'LICENSE.txt').read_text(encoding='utf-8').strip()}")
    return "\n".join(lines)


def overlap(run: RunDirectory, stage: str) -> str:
    """How much of the steps was spent on waiting, and how busy the devices were, in words."""
    steps = [line for line in read_steps(run.steps_file) if line["stage"] == stage][_FIRST:]
    if not run.monitor_file(stage).exists():
        return "not watched: --deterministic allows no clocks in graphs"
    watched = _watched(run, stage)
    if not steps or not watched.get("steps"):
        return "too few steps to tell"
    waited = 1e3 * statistics.fmean(line["wait_seconds"] for line in steps)
    step = watched["step_ms"]
    text = f"a step took {step:.1f} ms, {min(1.0, waited / step):.1%} of them waiting for its batch"
    busy = [
        f"{role} device {use['device']} {use['busy']:.0%}"
        for role, use in watched["devices"].items()
        if use["busy"] is not None
    ]
    return f"{text}; busy: {', '.join(busy)}" if busy else text


def both_train(devices: dict[str, dict]) -> str:
    """The saving if the data device trained on a share as well, in words; "" if it is small.

    `devices` are the monitor's figures about them. If a step takes s on one device and preparing f
    on the other, a step takes (f + s) / 2 if both train and one of them prepares too.
    """
    data, model = (devices.get(role, {}) for role in ("data", "model"))
    names = [device.get("device", "") for device in (data, model)]
    front_end, step = (device.get("busy") or 0.0 for device in (data, model))
    if not all(name.startswith("GPU") for name in names) or names[0] == names[1]:
        return ""
    if step <= 0.5 or front_end > 0.8 * step:
        return ""
    share = (step - front_end) / (2 * step)
    return (
        f"{names[0]} only prepares; with a share of the training a step takes about "
        f"{(front_end + step) / (2 * step):.0%} of that: name it in --model_gpu as well, last, "
        f"with --shares={1 - share:.2f},{share:.2f}"
    )


def _watched(run: RunDirectory, stage: str) -> dict:
    """The monitor's summary of the latest session; empty if nothing was watched."""
    if not run.monitor_file(stage).exists():
        return {}
    lines = run.monitor_file(stage).read_text(encoding="utf-8").splitlines()
    summaries = (json.loads(line).get("summary") for line in lines if '"summary"' in line)
    return next((found for found in reversed(list(summaries)) if found), {})


def _synthesis_command(run: RunDirectory, corpus: Corpus) -> str:
    """The command that speaks in the voice of the longest clip of at most six seconds.

    Training saw references of that length.
    """
    seconds = corpus.samples / corpus.sample_rate
    chosen = max(range(len(corpus)), key=lambda clip: (seconds[clip] <= 6, seconds[clip]))
    if seconds[chosen] > 6:
        chosen = int(seconds.argmin())
    language = corpus.language_of(chosen)
    words = [
        *(short_path(sys.executable), "-m", "myxtts.synthesis"),
        f"--checkpoint={short_path(run.path)}",
        f"--text={_SENTENCES.get(base_language(language), corpus.texts[chosen])}",
        f"--speaker_wav={short_path(corpus.paths[chosen])}",
        f"--language={language}",
        "--out=own.wav",
    ]
    # --text="..." reads better than "--text=...".
    parts = (word.partition("=") for word in words)
    return " ".join(name + equals + (value and shlex.quote(value)) for name, equals, value in parts)


def short_path(path: str | Path) -> str:
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
