"""The page of a profile: one self-contained HTML file, for screens of any width and for print."""

import html

from dual_device_strategy.profile.setup import TITLES

# Successive batches have different colours, so that the eye can follow one from row to row.
_COLOURS = ("#1f77b4", "#e08214", "#2ca02c", "#9467bd")
_ROWS = (
    ("host", "host"),
    ("copy", "PREPARING: copy"),
    ("front_end", "PREPARING: front end"),
    ("transfer", "transfer"),
    ("ready", "READY"),
    ("step", "TRAINING"),
)
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
p { margin: .3rem 0; } .note { color: #555; font-size: .9rem; }
.verdict { border-left: .3rem solid #1f77b4; padding: .5rem .8rem; background: #eef5fb; }
.figures { display: flex; flex-wrap: wrap; gap: .6rem; margin: .8rem 0; }
.figure { flex: 1 1 8rem; border: 1px solid #ddd; border-radius: .3rem; padding: .4rem .7rem; }
.figure b { display: block; font-size: 1.3rem; }
.wide { overflow-x: auto; } .wide svg { display: block; width: 100%; min-width: 40rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-weight: 600; } li { margin: .25rem 0; }
.bar { display: grid; grid-template-columns: minmax(6rem, 12rem) 1fr 5rem; gap: .5rem;
       align-items: center; margin: .25rem 0; }
.bar div { background: #eee; height: 1rem; }
.bar i { display: block; height: 100%; background: #1f77b4; }
.bar.slowest i { background: #c0392b; } .bar span:last-child { text-align: right; }
svg text { font: 12px system-ui, sans-serif; fill: #1a1a1a; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; }
  h2, .bar, tr, li, svg, .verdict { break-inside: avoid; } h2 { break-after: avoid; }
  .wide { overflow: visible; } .wide svg { min-width: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def render(result: dict) -> str:
    """The page for the figures of `Profile.as_json()`, as far as they were measured."""
    devices, slots = result["devices"], result["slots"]
    note = (
        "<p class=note>The GPUs are emulated: the figures show overlap and waiting, not the speed "
        "of a GPU.</p>"
        if result["emulated"]
        else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Profile: where the time goes</title><style>{_STYLE}</style></head><body>
<h1>Where the time goes</h1>
<p>Data: {_text(devices["data"])}; model: {_text(devices["model"])}; {slots} slots.</p>
{note}
{_verdict(result)}
<h2>Each part alone</h2>
{_bars(result["parts"])}
{_part_table(result)}
{_meaning(result)}
</body></html>
"""


def _verdict(result):
    if "judgement" in result:
        judged = result["judgement"]
        return f"<p class=verdict>{_sentence(judged['verdict'])}</p>\n{_headline(judged)}"
    return f"<p class=verdict>The measurement is incomplete: {_text(result['failure'])}</p>"


def _meaning(result):
    if "judgement" not in result:
        return ""
    judged = result["judgement"]
    return f"""<h2>Ten batches on their way</h2>
<p class=note>Computed from the times above by the simulation. Each colour is a batch: PREPARING on
the data device, READY on the model device, TRAINING.</p>
<div class=wide>{_timeline(result["timeline"])}</div>
<h2>Advice</h2>
{_advice(judged["advice"])}
<h2>What if</h2>
<p class=note>Simulated from the times above, in ms per batch of this size.</p>
{_what_if(judged["predictions"])}
<h2>Other uses of the devices</h2>
<p class=note>Computed from the times above, in proportion to rows; adding up gradients is not in
it.</p>
{_layouts(judged["layouts"])}"""


def _headline(judged):
    figures = [(f"{judged['limit_ms']:.1f} ms", f"limit: {judged['bottleneck']}")]
    if judged["step_ms"]:
        figures = [
            (f"{judged['step_ms']:.1f} ms", "a step, measured"),
            *figures,
            (f"{judged['overlap']:.0%}", "of the limit reached"),
            (f"{judged['variation']:.0%}", "variation of the steps"),
            *((f"{ms:.1f} ms", f"a step, {words}") for words, ms in judged["ahead_ms"].items()),
        ]
    cells = "".join(f"<div class=figure><b>{v}</b>{_text(t)}</div>" for v, t in figures)
    return f"<div class=figures>{cells}</div>"


def _bars(parts):
    parts = [part for part in parts if part["count"]]
    longest = max((part["median_ms"] for part in parts), default=0) or 1
    lines = []
    for part in parts:
        slowest = " slowest" if part["median_ms"] == longest else ""
        lines.append(
            f"<div class='bar{slowest}'><span>{TITLES[part['part']]}</span><div>"
            f"<i style='width:{100 * part['median_ms'] / longest:.1f}%'></i></div>"
            f"<span>{part['median_ms']:.2f} ms</span></div>"
        )
    return "\n".join(lines)


def _part_table(result):
    step = result["staged"].get("median_ms")
    rows = [(TITLES[part["part"]], part) for part in result["parts"] if part["count"]]
    if step:
        rows += [("staged step", result["staged"]), ("gap between steps", result["staged"]["gaps"])]
        rows += [
            (f"staged step, {words}", figures)
            for words, figures in result["staged"]["others"].items()
        ]
    cells = "".join(
        f"<tr><td>{title}<td>{row['median_ms']:.2f}<td>{row['mean_ms']:.2f}<td>{row['std_ms']:.2f}"
        f"<td>{_share(row['median_ms'], step)}</tr>"
        for title, row in rows
    )
    head = "<tr><th>ms<th>median<th>mean<th>std<th>of a step</tr>"
    return f"<div class=wide><table>{head}{cells}</table></div>"


def _share(part, whole):
    return f"{part / whole:.0%}" if whole else "-"


def _timeline(spans):
    # Ten batches from the data device to the end of their steps; meanwhile the host makes others.
    begin, end = spans[0]["copy"][0], spans[min(9, len(spans) - 1)]["step"][1]
    left, width, height = 150, 900, 26
    scale = (width - left - 10) / max(end - begin, 1e-9)
    shapes, foot = [], len(_ROWS) * height + 8
    tick = _round_tick((end - begin) / 6)
    at = 0.0
    while at <= end - begin:
        x = left + at * scale
        shapes.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{foot}' stroke='#eee'/>")
        shapes.append(f"<text x='{x:.1f}' y='{foot + 12}'>{at:g} ms</text>")
        at += tick
    for row, (part, title) in enumerate(_ROWS):
        y = row * height + 4
        shapes.append(f"<text x='0' y='{y + 14}'>{title}</text>")
        shapes.append(
            f"<line x1='{left}' x2='{width - 10}' y1='{y + 20}' y2='{y + 20}' stroke='#ddd'/>"
        )
        for batch, span in enumerate(spans):
            first, last = (min(max(t, begin), end) for t in span[part])
            if last <= first:
                continue
            x, w = left + (first - begin) * scale, max((last - first) * scale, 0.7)
            fill = _COLOURS[batch % len(_COLOURS)]
            pale = " fill-opacity='.35'" if part == "ready" else ""
            shapes.append(
                f"<rect x='{x:.1f}' y='{y}' width='{w:.1f}' height='18' fill='{fill}'{pale}>"
                f"<title>batch {batch}, {title}: {last - first:.2f} ms</title></rect>"
            )
            if w > 16:
                ink = "" if pale else " style='fill:#fff'"
                shapes.append(f"<text x='{x + 4:.1f}' y='{y + 13}'{ink}>{batch}</text>")
    return (
        f"<svg viewBox='0 0 {width + 40} {foot + 18}' role='img' "
        f"aria-label='the parts of the pipeline over time, by batch'>{''.join(shapes)}</svg>"
    )


def _round_tick(wanted):
    for power in range(-3, 7):
        for digit in (1, 2, 5):
            if digit * 10.0**power >= wanted:
                return digit * 10.0**power
    return wanted


def _advice(advice):
    if not advice:
        return "<p>None: no rule was broken.</p>"
    return "<ul>" + "".join(f"<li>{_sentence(item)}</li>" for item in advice) + "</ul>"


def _what_if(predictions):
    cells = "".join(
        f"<tr><td>{_text(p['setting'])}<td>{p['ms_per_batch']:.1f}<td>{p['wait_share']:.0%}"
        f"<td>{p['ahead_ms_per_batch']:.1f}</tr>"
        for p in predictions
    )
    head = "<tr><th>setting<th>ms, read on every step<th>waiting<th>ms, read now and then</tr>"
    return f"<div class=wide><table>{head}{cells}</table></div>"


def _layouts(layouts):
    cells = "".join(
        f"<tr><td>{_text(found['name'])}<td>{found['step_ms']:.1f}<td>{found['ahead_ms']:.1f}"
        f"<td>{_text(found['limit'])}</tr>"
        for found in layouts
    )
    head = (
        "<tr><th>which devices do what<th>ms, read on every step<th>ms, read now and then"
        "<th>the longest part</tr>"
    )
    return f"<div class=wide><table>{head}{cells}</table></div>"


def _text(value):
    return html.escape(str(value))


def _sentence(value):
    return _text(value[0].upper() + value[1:] + ".")
