"""The comparison as pictures: ms per step by batch size, one picture for each case."""

import html
import itertools
from pathlib import Path

from dual_device_strategy.compare.rounds import Comparison

LIMIT = "limit"
_COLOURS = ("#1f77b4", "#e08214", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _LEFT = 860, 380, 60
_STYLE = """
body { font: 16px/1.4 system-ui, sans-serif; color: #1a1a1a; max-width: 60rem; margin: 0 auto;
       padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; } svg { display: block; width: 100%; min-width: 36rem; }
svg text { font-size: 13px; } ul { list-style: none; padding: 0; }
li { display: inline-block; margin-right: 1.2rem; }
li i { display: inline-block; width: 1.4rem; border-top: 3px solid; vertical-align: middle; }
pre { font-size: .8rem; overflow-x: auto; }
@media print { svg { min-width: 0; } svg, ul { break-inside: avoid; } pre { white-space: pre-wrap; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def by_case(comparisons: list[Comparison]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Case -> contender -> [(batch size, ms a step)]."""
    cases = {}
    for comparison in comparisons:
        series = cases.setdefault(comparison.case, {})
        for row in comparison.rows:
            if row.step_ms:
                series.setdefault(row.name, []).append((comparison.batch_size, row.step_ms))
    for comparison in comparisons:
        if comparison.limit_ms:
            point = (comparison.batch_size, comparison.limit_ms)
            cases[comparison.case].setdefault(LIMIT, []).append(point)
    return cases


def write_png(comparisons: list[Comparison], path: str | Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = by_case(comparisons)
    figure, all_axes = pyplot.subplots(len(cases), figsize=(9, 5 * len(cases)), squeeze=False)
    for axes, (case, series) in zip(all_axes[:, 0], cases.items(), strict=True):
        for (name, points), colour in zip(series.items(), itertools.cycle(_COLOURS), strict=False):
            style = {"color": "black", "linestyle": "--"} if name == LIMIT else {"color": colour}
            axes.plot(*zip(*points, strict=True), marker="o", label=name, **style)
        axes.set(xlabel="batch size", ylabel="ms a step", ylim=(0, None), title=case)
        axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def page(comparisons: list[Comparison], text: str) -> str:
    """A self-contained page with the pictures and with what the command printed."""
    parts = []
    for case, series in by_case(comparisons).items():
        heading = f"<h2>{html.escape(case)}</h2>" if case else ""
        parts.append(f"{heading}<div class=wide>{_svg(series)}</div>{_legend(series)}")
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Comparison</title><style>{_STYLE}</style></head><body>"
        f"<h1>Time of a step by batch size</h1>{''.join(parts)}"
        f"<h2>Figures</h2><pre>{html.escape(text)}</pre></body></html>\n"
    )


def _svg(series):
    points = [point for line in series.values() for point in line]
    most_x = max((x for x, _ in points), default=1)
    least_x = min((x for x, _ in points), default=0)
    most_y = max((y for _, y in points), default=1)

    def place(point):
        across = (point[0] - least_x) / (most_x - least_x) if most_x > least_x else 0.5
        x = _LEFT + across * (_WIDTH - _LEFT - 20)
        return f"{x:.1f},{_HEIGHT - 30 - point[1] / most_y * (_HEIGHT - 50):.1f}"

    bottom = _HEIGHT - 30
    shapes = [f"<line x1='{_LEFT}' x2='{_WIDTH - 20}' y1='{bottom}' y2='{bottom}' stroke='#999'/>"]
    for x in sorted({x for x, _ in points}):
        at = place((x, 0)).split(",")[0]
        shapes.append(f"<text x='{at}' y='{_HEIGHT - 10}' text-anchor='middle'>{x}</text>")
    for part in (0.25, 0.5, 0.75, 1):
        y = place((least_x, part * most_y)).split(",")[1]
        shapes.append(f"<text x='0' y='{y}'>{part * most_y:.3g} ms</text>")
        shapes.append(f"<line x1='{_LEFT}' x2='{_WIDTH - 20}' y1='{y}' y2='{y}' stroke='#eee'/>")
    for (_, line), (colour, dash) in zip(series.items(), _styles(series), strict=True):
        shapes.append(
            f"<polyline points='{' '.join(map(place, line))}' fill='none' stroke='{colour}' "
            f"stroke-width='2'{dash}/>"
        )
        for x, y in (place(point).split(",") for point in line):
            shapes.append(f"<circle cx='{x}' cy='{y}' r='3' fill='{colour}'/>")
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='ms a step by batch size'>"
        f"{''.join(shapes)}</svg>"
    )


def _legend(series):
    return "<ul>{}</ul>".format(
        "".join(
            f"<li><i style='border-color:{colour}{';border-top-style:dashed' if dash else ''}'>"
            f"</i> {html.escape(name)}</li>"
            for name, (colour, dash) in zip(series, _styles(series), strict=True)
        )
    )


def _styles(series):
    colours = itertools.cycle(_COLOURS)
    return [
        ("#000", " stroke-dasharray='6 4'") if name == LIMIT else (next(colours), "")
        for name in series
    ]
