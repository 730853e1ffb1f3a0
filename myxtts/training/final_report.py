"""report.md and loss.png: what a run came to."""

from collections.abc import Mapping

from myxtts import UserError
from myxtts.config import write_whole
from myxtts.training.config import STAGES, TrainConfig
from myxtts.training.run_directory import RunDirectory
from myxtts.training.step_log import read_steps


def write_report(run: RunDirectory, config: TrainConfig, watched: Mapping[str, str | None]) -> str:
    """Writes both and returns the Markdown. `watched`: what monitors said, by stage."""
    results = {stage: run.result(stage) for stage in STAGES}
    results = {stage: result for stage, result in results.items() if result is not None}
    lines = [f"# Training in {run.path.name}", ""]
    lines += [
        "| stage | steps | minutes | ended because | parameters | waiting for data | skipped |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for stage, result in results.items():
        size = sum(result["parameters"].values()) / 1e6
        lines.append(
            f"| {stage} | {result['steps']:,} | {result['seconds'] / 60:.1f} | {result['reason']} "
            f"| {size:.2f} M | {result['wait_share']:.1%} | {result['skipped']} |"
        )
    lines += ["", "## Held-out figures", ""]
    for stage, result in results.items():
        if result["held_out"]:
            figures = ", ".join(f"{n} {v:.4f}" for n, v in result["held_out"].items())
            lines.append(f"- {stage}, best at step {result['best_step']:,}: {figures}")
        else:
            lines.append(f"- {stage}: there were no held-out clips")
    vocoder = results.get("vocoder")
    if vocoder and "comparison" in vocoder:
        lines += ["", "## Vocoder", "", *_compared(vocoder)]
    lines += ["", "## Devices", ""]
    for stage, text in watched.items():
        if text:
            lines += [f"{stage}:", "", "```", text, "```", ""]
    if not any(watched.values()):
        lines += ["Nothing was watched in this run of the command.", ""]
    lines += ["## Loss", "", _drawn(run, config), ""]
    text = "\n".join(lines)
    try:
        write_whole(run.report_file, text)
    except OSError as error:
        raise UserError(f"{run.report_file} cannot be written: {error.strerror}") from None
    return text


def _compared(vocoder: dict) -> list[str]:
    figures = vocoder["comparison"]
    chosen = vocoder["default_vocoder"]
    return [
        "Distance of the log-mels of what they make from the recording's, on held-out clips: "
        + ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        + f". Synthesis uses {chosen} unless told otherwise."
    ]


def _drawn(run: RunDirectory, config: TrainConfig) -> str:
    """Draws the loss curves; what the report says of them."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return "No curve was drawn: matplotlib is not installed (`pip install matplotlib`)."
    steps = read_steps(run.steps_file)
    stages = [stage for stage in STAGES if any(line["stage"] == stage for line in steps)]
    if not stages:
        return "No step was made."
    figure = Figure(figsize=(5 * len(stages), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, stage in zip(figure.subplots(1, len(stages), squeeze=False)[0], stages, strict=True):
        lines = [line for line in steps if line["stage"] == stage and line["counts"]]
        places = [line["step"] for line in lines]
        losses = [line["loss"] for line in lines]
        axes.plot(places, losses, color="0.8", linewidth=0.8)
        axes.plot(places, _smooth(losses), label="training")
        result = run.result(stage)
        if result and result["evaluations"]:
            name = next(iter(result["held_out"]))
            found = result["evaluations"]
            axes.plot(
                [e["step"] for e in found],
                [e[name] for e in found],
                "o-",
                label=f"held out: {name}",
            )
        axes.set(title=stage, xlabel="step", ylabel="loss")
        axes.legend()
    figure.savefig(run.loss_picture, dpi=100)
    return f"![losses]({run.loss_picture.name})"


def _smooth(values: list[float]) -> list[float]:
    smooth, share = [], min(1.0, 10 / max(len(values), 1))
    for value in values:
        smooth.append(value if not smooth else smooth[-1] + share * (value - smooth[-1]))
    return smooth
