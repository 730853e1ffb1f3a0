"""The comparison as a Markdown table, as JSON, and as a plot."""

import html
import math
from pathlib import Path

from dual_device_strategy.compare.contenders import HOST_SIDE, OURS, Setting
from dual_device_strategy.compare.rounds import Comparison

NOTES = {
    "mirrored, half a batch each": (
        "data parallel; assumes that half a batch takes half the time, and has a model to keep on "
        "each device"
    ),
}


def table(comparison: Comparison, setting: Setting, host_ms: float | None) -> str:
    """One batch size; `host_ms` is what the front end takes on a core, where that is known."""
    limit, best = comparison.limit_ms, comparison.best_ms
    given = ""
    if comparison.stage_ms:
        given = " (host {:g}, front end {:g}, step {:g} ms)".format(*comparison.stage_ms)
    alone = ", ".join(
        f"{name} {row.step_ms:.1f}" if row.step_ms else f"{name}: {row.problem}"
        for name, row in comparison.alone.items()
    )
    lines = [
        f"Batch size {comparison.batch_size}{given}; each stage alone, ms: {alone}",
        "",
        "| | ms a step | variation | to the best | to the limit | MB data | MB model | |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in comparison.rows:
        if row.step_ms is None:
            lines.append(f"| {row.name} | - | - | - | - | - | - | {row.problem} |")
            continue
        memory = [row.memory_mb.get(role) for role in ("data", "model")]
        cells = [
            row.name,
            f"{row.step_ms:.1f}",
            f"{row.variation:.1%}",
            f"{row.step_ms / best:.2f}",
            f"{row.step_ms / limit:.2f}" if limit else "-",
            *("-" if mb is None else f"{mb:.0f}" for mb in memory),
            _note(row, comparison, host_ms),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def break_even_cores(comparison: Comparison, host_ms: float | None) -> int | None:
    """With fewer cores than these the host cannot make batches as fast as ours takes them."""
    ours = next((row.step_ms for row in comparison.rows if row.name == OURS), None)
    if not ours or not host_ms:
        return None
    return max(1, math.ceil(host_ms / ours - 0.02))


def _note(row, comparison, host_ms):
    note = NOTES.get(row.name, "")
    if row.name == HOST_SIDE:
        cores = break_even_cores(comparison, host_ms)
        if cores:
            note = f"as fast as ours from {cores} free core{'s' if cores > 1 else ''} on"
    ours = next((r.step_ms for r in comparison.rows if r.name == OURS), None)
    if row.name != OURS and ours and row.step_ms < 0.97 * ours:
        faster = f"{ours / row.step_ms:.2f} x faster than ours here"
        note = f"{faster}: {note}" if note else faster
    return note


def recommendation(comparisons: list[Comparison], slots) -> str:
    """Settings for this much device memory: the batch size of the most elements a second."""
    ours = [
        row
        for comparison in comparisons
        for row in comparison.rows
        if row.name == OURS and row.step_ms
    ]
    if not ours:
        return "No batch size fits: make batches smaller than the smallest tried."
    rates = {row.batch_size: row.batch_size / row.step_ms * 1e3 for row in ours}
    fastest = max(rates.values())
    # Of sizes that are as fast to within 2 %, the smallest leaves most memory.
    chosen = min(size for size, rate in rates.items() if rate >= 0.98 * fastest)
    text = f"Recommended: batch_size={chosen} with slots={slots}, {rates[chosen]:.0f} elements/s"
    for comparison in comparisons:
        for row in comparison.rows:
            if row.name == OURS and row.problem == "does not fit":
                return f"{text}; batch size {row.batch_size} is the first that does not fit"
    return f"{text}; every batch size tried fits"


def first_that_do_not_fit(comparisons: list[Comparison]) -> dict[str, int]:
    found = {}
    for comparison in comparisons:
        for row in comparison.rows:
            if row.problem == "does not fit":
                found.setdefault(row.name, row.batch_size)
    return found


def as_json(comparisons: list[Comparison], setting: Setting, emulated: bool) -> dict:
    def figures(row):
        return {
            "name": row.name,
            "step_ms": row.step_ms,
            "variation": row.variation,
            "memory_mb": row.memory_mb,
            "problem": row.problem,
            "times_ms": row.times,
        }

    return {
        "emulated": emulated,
        "slots": setting.slots,
        "host_slowdown": setting.host_slowdown,
        "first_batch_size_that_does_not_fit": first_that_do_not_fit(comparisons),
        "batch_sizes": [
            {
                "batch_size": c.batch_size,
                "stage_ms": c.stage_ms,
                "limit_ms": c.limit_ms,
                "alone": [figures(row) for row in c.alone.values()],
                "contenders": [figures(row) for row in c.rows],
            }
            for c in comparisons
        ],
    }


_COLOURS = ("#1f77b4", "#e08214", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f")


def _series(comparisons):
    """Contender -> [(batch size, ms a step)], by stage times given."""
    series = {}
    for comparison in comparisons:
        for row in comparison.rows:
            if row.step_ms:
                series.setdefault(row.name, []).append((row.batch_size, row.step_ms))
        if comparison.limit_ms:
            point = (comparison.batch_size, comparison.limit_ms)
            series.setdefault("limit", []).append(point)
    return series


def write_png(comparisons: list[Comparison], path: str | Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise ValueError(
            f"--plot={path} needs matplotlib: pip install 'dual-device-strategy[demo]', or name "
            "an .html file"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    for (name, points), colour in zip(_series(comparisons).items(), _colours(), strict=False):
        style = {"color": "black", "linestyle": "--"} if name == "limit" else {"color": colour}
        axes.plot(*zip(*points, strict=True), marker="o", label=name, **style)
    axes.set(xlabel="batch size", ylabel="ms a step", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def html_page(comparisons: list[Comparison]) -> str:
    """The plot as a self-contained page."""
    series = _series(comparisons)
    points = [point for line in series.values() for point in line]
    most_x = max((x for x, _ in points), default=1)
    least_x = min((x for x, _ in points), default=0)
    most_y = max((y for _, y in points), default=1)
    width, height, left = 860, 380, 50

    def place(point):
        x = left + (point[0] - least_x) / max(most_x - least_x, 1) * (width - left - 20)
        return f"{x:.1f},{height - 30 - point[1] / most_y * (height - 50):.1f}"

    shapes = [
        f"<line x1='{left}' x2='{width - 20}' y1='{height - 30}' y2='{height - 30}' stroke='#999'/>"
    ]
    for x in sorted({x for x, _ in points}):
        at = place((x, 0)).split(",")[0]
        shapes.append(f"<text x='{at}' y='{height - 10}' text-anchor='middle'>{x}</text>")
    for part in (0.25, 0.5, 0.75, 1):
        y = place((least_x, part * most_y)).split(",")[1]
        shapes.append(f"<text x='0' y='{y}'>{part * most_y:.0f} ms</text>")
        shapes.append(f"<line x1='{left}' x2='{width - 20}' y1='{y}' y2='{y}' stroke='#eee'/>")
    legend = []
    for (name, line), colour in zip(series.items(), _colours(), strict=False):
        dash = " stroke-dasharray='6 4'" if name == "limit" else ""
        colour = "#000" if name == "limit" else colour
        shapes.append(
            f"<polyline points='{' '.join(map(place, line))}' fill='none' stroke='{colour}' "
            f"stroke-width='2'{dash}/>"
        )
        shapes += [
            f"<circle cx='{p[0]}' cy='{p[1]}' r='3' fill='{colour}'/>"
            for p in (place(point).split(",") for point in line)
        ]
        legend.append(f"<li style='color:{colour}'>{html.escape(name)}</li>")
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width, initial-scale=1'><title>Comparison</title><style>"
        "body{font:16px/1.4 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}"
        "svg{width:100%;min-width:36rem}div{overflow-x:auto}svg text{font-size:13px}"
        "</style></head><body><h1>Time of a step by batch size</h1><div>"
        f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='ms a step by batch size'>"
        f"{''.join(shapes)}</svg></div><ul>{''.join(legend)}</ul></body></html>\n"
    )


def _colours():
    while True:
        yield from _COLOURS
