"""The comparison as tables, in sentences and as JSON."""

import math
import statistics

from dual_device_strategy.compare.contenders import HOST_SIDE, IN_STEP, OF_OURS, OURS, Setting
from dual_device_strategy.compare.rounds import Comparison, Row
from dual_device_strategy.profile.certainty import median_range
from dual_device_strategy.readings import Reading

NOTES = {
    IN_STEP: "data parallel; has a model to keep on each device",
}


def heads(comparison: Comparison) -> list[str]:
    """The heads of the table of one batch size."""
    first, *others = comparison.readings
    return [
        "",
        f"ms a step, {first.words}",
        "variation",
        "to the best",
        "to the limit",
        *(reading.words for reading in others),
        "MB data",
        "MB model",
        "",
    ]


def rows(comparison: Comparison) -> list[list[str]]:
    """The cells of the table of one batch size, as in `heads`."""
    limit, best = comparison.limit_ms, comparison.best_ms
    others = comparison.readings[1:]
    found = []
    for row in comparison.rows:
        if row.step_ms is None:
            found.append([row.name, *["-"] * (6 + len(others)), row.problem])
            continue
        memory = [row.memory_mb.get(role) for role in ("data", "model")]
        found.append(
            [
                row.name,
                f"{row.step_ms:.1f}",
                f"{row.variation:.1%}",
                f"{row.step_ms / best:.2f}",
                f"{row.step_ms / limit:.2f}" if limit else "-",
                *(_ms(row.other_ms(reading)) for reading in others),
                *("-" if mb is None else f"{mb:.0f}" for mb in memory),
                _note(row, comparison),
            ]
        )
    return found


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def title(comparison: Comparison) -> str:
    """The batch size, the times that were given, and each part alone."""
    given = ""
    if comparison.part_ms:
        given = " (host {:.4g}, front end {:.4g}, step {:.4g} ms)".format(*comparison.part_ms)
    alone = ", ".join(
        f"{name} {row.step_ms:.1f}" if row.step_ms else f"{name}: {row.problem}"
        for name, row in comparison.alone.items()
    )
    return f"Batch size {comparison.batch_size}{given}; each part alone, ms: {alone}"


def table(comparison: Comparison) -> str:
    """The table of one batch size in Markdown."""
    named = heads(comparison)
    lines = [title(comparison), "", f"| {' | '.join(named)} |".replace("  ", " ")]
    lines.append("|---|" + "--:|" * (len(named) - 2) + "---|")
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows(comparison))])


def verdict(comparisons: list[Comparison]) -> str:
    """Who is faster, at the batch sizes of one case, as far as the measurements can tell.

    A sentence for each way to read the loss, where they differ.
    """
    readings = list(dict.fromkeys(r for c in comparisons for r in c.readings))
    if len(readings) < 2:
        return _verdict(comparisons, lambda row: row.times)
    said = {}
    for number, reading in enumerate(readings):
        said[reading] = _verdict(
            comparisons,
            lambda row, n=number, r=reading: row.others.get(r, []) if n else row.times,
        )
    return " ".join(f"{_capital(reading.words)}: {text}" for reading, text in said.items())


def _capital(words):
    return f"Loss {words}"


def _verdict(comparisons, times_of) -> str:
    faster, slower, close = {}, {}, {}
    for comparison in comparisons:
        measured = [(row, statistics.median(times_of(row))) for row in comparison.rows
                    if times_of(row)]  # fmt: skip
        ours = [(ms, row) for row, ms in measured if row.name in OF_OURS]
        others = [(ms, row) for row, ms in measured if row.name not in OF_OURS]
        if not ours or not others:
            continue
        (my_ms, my), (best_ms, best) = (min(of, key=lambda pair: pair[0]) for of in (ours, others))
        mine, theirs = median_range(times_of(my)), median_range(times_of(best))
        found = faster if mine.high < theirs.low else slower if theirs.high < mine.low else close
        found[comparison.batch_size] = best.name, best_ms / my_ms, my
    sentences = []
    if faster:
        sentences.append(
            f"Ours{_with_shares(faster)} is the fastest at {_sizes(faster)}: {_ratios(faster)} "
            f"times as fast as the next best ({_names(faster)})."
        )
    if slower:
        inverted = {size: (name, 1 / ratio, my) for size, (name, ratio, my) in slower.items()}
        sentences.append(
            f"At {_sizes(slower)}, {_names(slower)} is {_ratios(inverted)} times as fast as ours"
            f"{_with_shares(slower)}."
        )
    if close:
        sentences.append(
            f"At {_sizes(close)} the difference of ours{_with_shares(close)} from {_names(close)} "
            "is within the uncertainty: more steps or rounds would tell."
        )
    return " ".join(sentences) or "Ours was not measured against another contender."


def _with_shares(found: dict[int, tuple[str, float, Row]]) -> str:
    """Whether it is with shares that ours is the fastest of its kind."""
    names = {my.name for _, _, my in found.values()}
    return "" if OURS in names else " with shares"


def _sizes(found):
    return f"batch size{'s' if len(found) > 1 else ''} {', '.join(map(str, sorted(found)))}"


def _names(found):
    return " or ".join(dict.fromkeys(name for name, *_ in found.values()))


def _ratios(found):
    low, high = (end(ratio for _, ratio, _ in found.values()) for end in (min, max))
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def break_even_cores(comparison: Comparison) -> int | None:
    """The number of cores that the host needs to make batches as fast as ours takes them."""
    ours = comparison.step_ms(OURS)
    if not ours or not comparison.host_core_ms:
        return None
    return max(1, math.ceil(comparison.host_core_ms / ours - 0.02))


def _of_ours(comparison: Comparison) -> list[Row]:
    return [row for row in comparison.rows if row.name in OF_OURS and row.step_ms]


def _note(row, comparison):
    note = NOTES.get(row.name, "")
    if row.name == HOST_SIDE:
        cores = break_even_cores(comparison)
        if cores:
            note = f"as fast as ours from {cores} free core{'s' if cores > 1 else ''} on"
    note = note or row.detail
    ours = min((mine.step_ms for mine in _of_ours(comparison)), default=None)
    if row.name not in OF_OURS and ours and row.step_ms < 0.97 * ours:
        faster = f"{ours / row.step_ms:.2f} x faster than ours here"
        note = f"{faster}: {note}" if note else faster
    return note


def summary(comparisons: list[Comparison]) -> str:
    """One table of all comparisons: ms per step and, in brackets, how many times ours that is.

    Ours itself is compared with the slowest part alone.  A line for each way to read the loss.
    """
    names = list(dict.fromkeys(row.name for c in comparisons for row in c.rows))
    heads = ["batch size", "host, front end, step", "loss", "slowest alone", *names]
    lines = [
        f"| {' | '.join([*heads, f'{OURS}: variation', 'cores to break even'])} |",
        "|" + "--:|" * (len(heads) + 2),
    ]
    for c in comparisons:
        for reading in c.readings:
            lines.append(f"| {' | '.join(_summed(c, reading, names))} |")
    return "\n".join(lines)


def _summed(c: Comparison, reading: Reading, names: list[str]) -> list[str]:
    first = reading == c.readings[0]
    times = {
        row.name: row.step_ms if first else row.other_ms(reading) for row in c.rows
    }
    parts = ", ".join(f"{ms:.4g}" for ms in c.part_ms) if c.part_ms else "as they are"
    limit = f"{c.limit_ms:.2f}" if c.limit_ms else "-"
    cells = [str(c.batch_size), parts, reading.words, limit]
    ours = times.get(OURS)
    for name in names:
        step_ms = times.get(name)
        if step_ms is None:
            cells.append("-")
        elif name == OURS:
            ratio = f" ({step_ms / c.limit_ms:.3f} x slowest)" if c.limit_ms else ""
            cells.append(f"{step_ms:.2f}{ratio}")
        else:
            cells.append(f"{step_ms:.2f}" + (f" ({step_ms / ours:.2f} x)" if ours else ""))
    row = c.row(OURS)
    cells.append(f"{row.variation:.1%}" if first and row and row.step_ms else "-")
    cells.append(str(break_even_cores(c) or "-") if first else "-")
    return cells


def recommendation(comparisons: list[Comparison], slots, memory_mb: float | None) -> str:
    """The settings for this much device memory: the batch size with most elements per second."""
    of_size = {c.batch_size: _of_ours(c) for c in comparisons}
    ours = {
        size: min(rows, key=lambda row: row.step_ms) for size, rows in of_size.items() if rows
    }
    if not ours:
        return "No batch size fits: make batches smaller than the smallest tried."
    rates = {size: size / row.step_ms * 1e3 for size, row in ours.items()}
    fastest = max(rates.values())
    # Among sizes within 2 % of the fastest, the smallest leaves most memory.
    chosen = min(size for size, rate in rates.items() if rate >= 0.98 * fastest)
    within = f" for {memory_mb:,.0f} MB on the model device" if memory_mb else ""
    text = f"Recommended{within}: batch_size={chosen} with slots={slots}"
    if ours[chosen].detail:
        text += f" and shares ({ours[chosen].detail.removeprefix('shares ')})"
    text += f", {rates[chosen]:.0f} elements/s"
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
            "others_ms": {reading.value: row.other_ms(reading) for reading in row.others},
            "memory_mb": row.memory_mb,
            "problem": row.problem,
            "times_ms": row.times,
        }

    return {
        "emulated": emulated,
        "slots": setting.slots,
        "data_devices": list(setting.data_devices),
        "model_devices": list(setting.model_devices),
        "host_slowdown": setting.host_slowdown,
        "first_batch_size_that_does_not_fit": first_that_do_not_fit(comparisons),
        "batch_sizes": [
            {
                "batch_size": c.batch_size,
                "part_ms": c.part_ms,
                "limit_ms": c.limit_ms,
                "host_core_ms": c.host_core_ms,
                "cores_to_break_even": break_even_cores(c),
                "alone": [figures(row) for row in c.alone.values()],
                "contenders": [figures(row) for row in c.rows],
            }
            for c in comparisons
        ],
    }
