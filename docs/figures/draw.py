"""Draws the README's two pictures: `python docs/figures/draw.py [COMPARE.json]`.

`python -m dual_device_strategy.compare --json=COMPARE.json` writes that file.  Its medians are
kept in comparison.json beside this script, and comparison.svg is drawn from them.  Without an
argument the kept medians are drawn again.  slots.svg is a schedule computed from given times.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
OURS, OTHERS, SHARED = "#1f6fb2", "#b9bec4", "#7a828a"
BATCHES = ["#1f6fb2", "#e08a1e", "#3a9a5b", "#8a5bb0", "#c2483f", "#5f7f95"]
NAMES = {
    "split (ours)": "DataModelSplitStrategy",
    "split, data device trains a share (ours)": "MirroredDataModelSplitStrategy,\nshares",
    "front end on the host": "Dataset.map on the host,\nwith as many free cores as it wants",
    "mirrored, front end in the step": "MirroredStrategy on both,\nhalf a batch each",
    "mirrored, one device": "MirroredStrategy, one device,\nfront end in the step",
    "one device": "OneDeviceStrategy,\nfront end in the step",
    "tf.device on both devices": "tf.device\non both devices",
}


def kept_medians(report: dict) -> dict:
    """The first case of a comparison: its times and the median step of every contender."""
    case = report["batch_sizes"][0]
    return {
        "emulated": report["emulated"],
        "part_ms": case["part_ms"],
        "slowest_alone_ms": round(case["limit_ms"], 2),
        "step_ms": {row["name"]: round(row["step_ms"], 2) for row in case["contenders"]},
    }


def draw_comparison(medians: dict) -> None:
    steps = sorted(medians["step_ms"].items(), key=lambda item: -item[1])
    figure, axes = plt.subplots(figsize=(8, 3.5))
    host, front_end, step = medians["part_ms"]
    for place, (name, ms) in enumerate(steps):
        ours = name == "split (ours)"
        axes.barh(place, ms, color=OURS if ours else OTHERS, height=0.66)
        axes.text(
            ms - 0.4,
            place,
            f"{ms:.1f} ms",
            ha="right",
            va="center",
            fontsize=9,
            color="white" if ours else "black",
            fontweight="bold" if ours else "normal",
        )
    axes.set_yticks(range(len(steps)), [NAMES[name] for name, _ in steps], fontsize=8)
    axes.axvline(medians["slowest_alone_ms"], color=SHARED, linewidth=1, linestyle="--", zorder=0)
    axes.text(
        medians["slowest_alone_ms"] + 0.3, len(steps) - 0.45, "slowest part alone", fontsize=8
    )
    axes.set_xlabel("milliseconds a training step (median)", fontsize=9)
    axes.set_title(
        f"Host {host:g} ms, front end {front_end:g} ms, step {step:g} ms, on two emulated GPUs",
        fontsize=10,
        loc="left",
        pad=16,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    save(figure, "comparison")


def in_turns(batches: int, front_end: float, step: float) -> list[tuple]:
    """(row, batch, begin, length) on one device that does both."""
    bars, now = [], 0.0
    for batch in range(batches):
        bars += [("GPU", batch, now, front_end), ("GPU", batch, now + front_end, step)]
        now += front_end + step
    return bars


def in_slots(batches: int, front_end: float, step: float) -> list[tuple]:
    """The same work where a batch is PREPARING, READY and TRAINING; two may be READY."""
    bars, trained = [], [0.0, 0.0, 0.0]
    prepared = 0.0
    for batch in range(batches):
        begin = max(prepared, trained[-3])  # a READY slot is free
        prepared = begin + front_end
        bars.append(("data device", batch, begin, front_end))
        begin = max(prepared, trained[-1])
        bars += [("READY", batch, prepared, begin - prepared)] if begin > prepared else []
        trained.append(begin + step)
        bars.append(("model device", batch, begin, step))
    return bars


def draw_slots(front_end: float = 0.8, step: float = 1.0, until: float = 4.8) -> None:
    panels = (
        ("Both on one GPU: they take turns", in_turns(4, front_end, step), ["GPU"]),
        (
            "DataModelSplitStrategy: they overlap",
            in_slots(6, front_end, step),
            ["data device", "READY", "model device"],
        ),
    )
    heights = [len(rows) for _, _, rows in panels]
    figure, both = plt.subplots(2, figsize=(8, 3.4), height_ratios=heights, sharex=True)
    for axes, (title, bars, rows) in zip(both, panels, strict=True):
        for row, batch, begin, length in bars:
            end = min(begin + length, until)
            if end <= begin:
                continue
            trains = row == "model device" or (row == "GPU" and length == step)
            colour = BATCHES[batch % len(BATCHES)]
            axes.barh(
                -rows.index(row),
                end - begin,
                left=begin,
                height=0.7,
                color=colour,
                alpha=1.0 if trains else 0.45,
                edgecolor="white",
                linewidth=1.5,
            )
            if end - begin > 0.25:
                told = f"train {batch}" if trains else str(batch) if row == "READY" else None
                axes.text(
                    (begin + end) / 2,
                    -rows.index(row),
                    told or f"prepare {batch}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if trains else "black",
                )
        labels = {"data device": "PREPARING\ndata device", "READY": "READY\nmodel device"}
        labels["model device"] = "TRAINING\nmodel device"
        axes.set_yticks(
            [-i for i in range(len(rows))], [labels.get(r, r) for r in rows], fontsize=8
        )
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.tick_params(length=0, labelbottom=False)
        axes.set_xlim(0, until)
    both[1].set_xlabel("time →", fontsize=9, loc="right")
    save(figure, "slots")


def save(figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def main(arguments: list[str]) -> None:
    plt.rcParams["svg.fonttype"] = "none"  # text stays text
    plt.rcParams["svg.hashsalt"] = "dual-device-strategy"  # the same file from the same figures
    kept = HERE / "comparison.json"
    if arguments:
        medians = kept_medians(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
        kept.write_text(json.dumps(medians, indent=1) + "\n", encoding="utf-8")
    draw_comparison(json.loads(kept.read_text(encoding="utf-8")))
    draw_slots()


if __name__ == "__main__":
    main(sys.argv[1:])
