"""The comparison as a page and as a picture: ms per step by batch size, bars for each case."""

import html
import itertools
from pathlib import Path

from dual_device_strategy.compare import report
from dual_device_strategy.compare.rounds import Comparison

LIMIT = "limit: the slowest part alone"
_COLOURS = ("#1f77b4", "#e08214", "#2ca02c", "#9467bd", "#8c564b", "#17a2b8", "#7f7f7f", "#c2a000")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 400, 70, 55
_STYLE = """
body { font: 16px/1.4 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem;
       margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.note { color: #555; font-size: .9rem; }
.verdict { border-left: .3rem solid #1f77b4; padding: .5rem .8rem; background: #eef5fb; }
.wide { overflow-x: auto; } svg { display: block; width: 100%; min-width: 36rem; }
svg text { font-size: 13px; } ul { list-style: none; padding: 0; }
li { display: inline-block; margin-right: 1.2rem; }
li i { display: inline-block; width: 1.4rem; border-top: .7rem solid; vertical-align: middle; }
li i.limit { border-top: 2px dashed #000; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
@media print { svg { min-width: 0; } svg, ul, tr { break-inside: avoid; }
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
        sizes = _sizes(series)
        names = [name for name in series if name != LIMIT]
        for place, (name, colour) in enumerate(zip(names, itertools.cycle(_COLOURS), strict=False)):
            at, heights = zip(*series[name], strict=True)
            shift = (place - (len(names) - 1) / 2) * 0.8 / len(names)
            across = [sizes.index(size) + shift for size in at]
            axes.bar(across, heights, 0.8 / len(names), label=name, color=colour)
        for label, (size, limit) in zip(
            itertools.chain([LIMIT], itertools.repeat(None)), series.get(LIMIT, ()), strict=False
        ):
            at = sizes.index(size)
            axes.hlines(limit, at - 0.45, at + 0.45, "black", "dashed", label=label)
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set(xlabel="batch size", ylabel="ms per step", ylim=(0, None), title=case)
        axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def page(comparisons: list[Comparison], emulated: bool) -> str:
    """A self-contained page: for each case a verdict, a picture and the tables."""
    cases = []
    for case, series in by_case(comparisons).items():
        of_case = [comparison for comparison in comparisons if comparison.case == case]
        heading = f"<h2>{html.escape(case)}</h2>" if case else ""
        cases.append(
            f"{heading}<p class=verdict>{html.escape(report.verdict(of_case))}</p>"
            f"<div class=wide>{_bars(series)}</div>{_legend(series)}"
            f"<p class=note>The bars are for a loss that is {of_case[0].readings[0].words}.</p>"
            + "".join(map(_table, of_case))
        )
    note = (
        "<p class=note>The GPUs are emulated: the figures show overlap and waiting, not the speed "
        "of a GPU.</p>"
        if emulated
        else ""
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Comparison</title><style>{_STYLE}</style></head><body>"
        f"<h1>Time of a step by batch size</h1>{note}{''.join(cases)}</body></html>\n"
    )


def _table(comparison):
    head = "".join(f"<th>{name}" for name in report.heads(comparison))
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells)
        for cells in report.rows(comparison)
    )
    return (
        f"<h3>{html.escape(report.title(comparison))}</h3>"
        f"<div class=wide><table><tr>{head}{body}</table></div>"
    )


def _sizes(series):
    return sorted({size for points in series.values() for size, _ in points})


def _bars(series):
    """Bars in a group for each batch size, with a dashed line at the group's limit."""
    sizes = _sizes(series)
    highest = max((ms for points in series.values() for _, ms in points), default=1)
    floor, across = _HEIGHT - _BOTTOM, (_WIDTH - _LEFT - 20) / max(1, len(sizes))
    names = [name for name in series if name != LIMIT]
    bar = 0.8 * across / max(1, len(names))

    def y_of(ms):
        return floor - ms / highest * (floor - 20)

    shapes = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = y_of(share * highest)
        line = "#999" if share == 0 else "#eee"
        shapes.append(f"<line x1='{_LEFT}' x2='{_WIDTH - 20}' y1='{y}' y2='{y}' stroke='{line}'/>")
        shapes.append(
            f"<text x='{_LEFT - 8}' y='{y + 4}' text-anchor='end'>{share * highest:.3g}</text>"
        )
    for group, size in enumerate(sizes):
        left = _LEFT + (group + 0.1) * across
        middle = _LEFT + (group + 0.5) * across
        shapes.append(f"<text x='{middle}' y='{floor + 18}' text-anchor='middle'>{size}</text>")
        for place, (name, colour) in enumerate(zip(names, itertools.cycle(_COLOURS), strict=False)):
            ms = dict(series[name]).get(size)
            if ms is None:
                continue
            x, y = left + place * bar, y_of(ms)
            shapes.append(
                f"<rect x='{x:.1f}' y='{y:.1f}' width='{0.92 * bar:.1f}' "
                f"height='{floor - y:.1f}' fill='{colour}'>"
                f"<title>{html.escape(name)}, batch size {size}: {ms:.2f} ms</title></rect>"
            )
        limit = dict(series.get(LIMIT, ())).get(size)
        if limit is not None:
            y, right = y_of(limit), left + 0.8 * across
            shapes.append(
                f"<line x1='{left - 4:.1f}' x2='{right + 4:.1f}' y1='{y:.1f}' y2='{y:.1f}' "
                "stroke='#000' stroke-width='1.5' stroke-dasharray='6 4'/>"
            )
    shapes.append(
        f"<text x='{(_LEFT + _WIDTH) / 2}' y='{_HEIGHT - 8}' text-anchor='middle'>batch size</text>"
        f"<text transform='translate(16 {floor / 2}) rotate(-90)' text-anchor='middle'>"
        "ms per step</text>"
    )
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='ms per step by batch size'>"
        f"{''.join(shapes)}</svg>"
    )


def _legend(series):
    names = [name for name in series if name != LIMIT]
    marks = [
        f"<li><i style='border-color:{colour}'></i> {html.escape(name)}</li>"
        for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False)
    ]
    if LIMIT in series:
        marks.append(f"<li><i class=limit></i> {LIMIT}</li>")
    return f"<ul>{''.join(marks)}</ul>"
