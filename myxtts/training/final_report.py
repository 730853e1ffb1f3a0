"""report.md and loss.png: what a run came to."""

import datetime
import platform
from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

import myxtts
from myxtts import UserError
from myxtts.config import write_whole
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named, stage_names
from myxtts.training.step_log import read_steps


def write_report(run: RunDirectory) -> str:
    """Writes both, of the stages that are done, and returns the Markdown."""
    form = run.config().model.form
    results = {stage: run.result(stage) for stage in stage_names(form)}
    results = {stage: result for stage, result in results.items() if result is not None}
    lines = [f"# Training in {run.path.name}", "", *_how_it_was_made(run), ""]
    lines += [
        "| stage | steps | minutes | in steps | before and after them | ended because | parameters "
        "| waiting for data | skipped |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for stage, result in results.items():
        size = sum(result["parameters"].values()) / 1e6
        lines.append(
            f"| {stage} | {result['steps']:,} | {result['seconds'] / 60:.1f} "
            f"| {_share_in_steps(result):.0%} | {result.get('seconds_before', 0):.0f} and "
            f"{result.get('seconds_after', 0):.0f} s | {result['reason']} "
            f"| {size:.2f} M | {result['wait_share']:.1%} | {result['skipped']} |"
        )
    for stage, result in results.items():
        for sentence in result.get("complaints", ()):
            lines += ["", f"**{stage}**: {sentence}."]
    lines += ["", "## Held-out figures", ""]
    for stage, result in results.items():
        if result["held_out"]:
            figures = ", ".join(f"{n} {v:.4f}" for n, v in result["held_out"].items())
            lines.append(f"- {stage}, best at step {result['best_step']:,}: {figures}")
        else:
            lines.append(f"- {stage}: there were no held-out clips")
    for stage, result in results.items():
        if said := stage_named(stage, form).report_lines(result):
            lines += ["", f"## {stage.capitalize()}", "", *said]
    lines += ["", "## Devices", ""]
    for stage, result in results.items():
        if result.get("devices"):
            lines += [f"{stage}:", "", "```", result["devices"], "```", ""]
    if not any(result.get("devices") for result in results.values()):
        lines += ["They were not watched.", ""]
    lines += ["## Samples", "", *_samples(run, results), ""]
    lines += ["## Loss", "", _drawn(run, form), ""]
    text = "\n".join(lines)
    try:
        write_whole(run.report_file, text)
    except OSError as error:
        raise UserError(f"{run.report_file} cannot be written: {error.strerror}") from None
    return text


def _how_it_was_made(run: RunDirectory) -> Iterator[str]:
    """Command, date and versions."""
    today = datetime.datetime.now().astimezone().isoformat(" ", "minutes")
    yield (
        f"Written {today} by myxtts {myxtts.__version__} with TensorFlow {tf.__version__}, Keras "
        f"{keras.__version__} and Python {platform.python_version()} on {platform.machine()}."
    )
    if run.flags_file.exists():
        lines = run.flags_file.read_text(encoding="utf-8").splitlines()
        yield from ("", "Flags ([flags.txt](flags.txt)):", "", "```", *lines[1:], "```")


def _samples(run: RunDirectory, results: Iterable[str]) -> Iterator[str]:
    """Links to what each stage sounded like at its end, with the texts."""
    for stage in results:
        places = sorted((run.samples / stage).glob("step-*"))
        for sound in sorted(places[-1].glob("*.wav")) if places else ():
            beside = sound.with_suffix(".txt")
            text = beside.read_text(encoding="utf-8").strip() if beside.exists() else ""
            yield f"- {stage}: [{sound.stem}]({sound.relative_to(run.path)}): {text}"


def _share_in_steps(result: dict) -> float:
    return result.get("seconds_in_steps", 0.0) / max(result["seconds"], 0.1)


def _drawn(run: RunDirectory, form: str) -> str:
    """Draws the loss curves; what the report says of them."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return "No curve was drawn: matplotlib is not installed (`pip install matplotlib`)."
    steps = read_steps(run.steps_file)
    steps = [line for line in steps if line["counts"]]
    stages = [stage for stage in stage_names(form) if any(line["stage"] == stage for line in steps)]
    if not stages:
        return "No step was made."
    figure = Figure(figsize=(4.2 * len(stages), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, stage in zip(figure.subplots(1, len(stages), squeeze=False)[0], stages, strict=True):
        result = run.result(stage) or {}
        evaluations = result.get("evaluations", [])
        # What decided which weights are the best; the whole loss where nothing was held out.
        name = next(iter(result.get("held_out") or ["loss"]))
        lines = [line for line in steps if line["stage"] == stage]
        # A stage may be judged by a figure that its steps do not have.
        of_steps = name if name in lines[0] else stage_named(stage, form).parts[0]
        places, values = [line["step"] for line in lines], [line[of_steps] for line in lines]
        axes.plot(places, values, color="tab:blue", alpha=0.2, linewidth=0.6)
        label = "training" if name == of_steps else f"training ({of_steps})"
        axes.plot(places, _smooth(values), color="tab:blue", linewidth=1.4, label=label)
        if evaluations:
            found = [(one["step"], one[name]) for one in evaluations]
            axes.plot(
                *zip(*found, strict=True), "o-", color="tab:orange", markersize=4, linewidth=1.4,
                label="held out, averaged weights",
            )  # fmt: skip
        if best := result.get("best_step"):
            axes.axvline(best, color="0.6", linestyle=":", linewidth=1, label="best")
        axes.set(title=stage, xlabel="training step", ylabel=name.replace("_", " "))
        # What the first steps come to would leave no room for the others.
        shown = [*_smooth(values)[len(values) // 50 :], *(one[name] for one in evaluations)]
        room = 0.08 * (max(shown) - min(shown)) or 0.1
        axes.set_ylim(min(shown) - room, max(shown) + room)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(run.loss_picture, dpi=150)
    return f"![losses]({run.loss_picture.name})"


def _smooth(values: list[float]) -> np.ndarray:
    """The mean of a twentieth of the run around every step."""
    window = np.ones(max(1, len(values) // 20) | 1)
    return np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same")
