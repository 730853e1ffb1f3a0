"""The comparison as tables, in sentences and as JSON."""

import math

from dual_device_strategy.compare.contenders import HOST_SIDE, OURS, Setting
from dual_device_strategy.compare.rounds import Comparison
from dual_device_strategy.profile.certainty import median_range

NOTES = {
    "mirrored, half a batch each": (
        "data parallel; assumes that half a batch takes half the time, and has a model to keep on "
        "each device"
    ),
}


HEADS = ("", "ms a step", "variation", "to the best", "to the limit", "MB data", "MB model", "")


def rows(comparison: Comparison) -> list[list[str]]:
    """The cells of the table of one batch size, as in HEADS."""
    limit, best = comparison.limit_ms, comparison.best_ms
    found = []
    for row in comparison.rows:
        if row.step_ms is None:
            found.append([row.name, *"------", row.problem])
            continue
        memory = [row.memory_mb.get(role) for role in ("data", "model")]
        found.append(
            [
                row.name,
                f"{row.step_ms:.1f}",
                f"{row.variation:.1%}",
                f"{row.step_ms / best:.2f}",
                f"{row.step_ms / limit:.2f}" if limit else "-",
                *("-" if mb is None else f"{mb:.0f}" for mb in memory),
                _note(row, comparison),
            ]
        )
    return found


def title(comparison: Comparison) -> str:
    """The batch size, the times that were given, and each part alone."""
    given = ""
    if comparison.part_ms:
        given = " (host {:g}, front end {:g}, step {:g} ms)".format(*comparison.part_ms)
    alone = ", ".join(
        f"{name} {row.step_ms:.1f}" if row.step_ms else f"{name}: {row.problem}"
        for name, row in comparison.alone.items()
    )
    return f"Batch size {comparison.batch_size}{given}; each part alone, ms: {alone}"


def table(comparison: Comparison) -> str:
    """The table of one batch size in Markdown."""
    lines = [title(comparison), "", f"| {' | '.join(HEADS)} |".replace("  ", " ")]
    lines.append("|---|--:|--:|--:|--:|--:|--:|---|")
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows(comparison))])


def verdict(comparisons: list[Comparison]) -> str:
    """Who is faster, at the batch sizes of one case, as far as the measurements can tell."""
    faster, slower, close = {}, {}, {}
    for comparison in comparisons:
        ours = next((row for row in comparison.rows if row.name == OURS and row.times), None)
        others = [row for row in comparison.rows if row.name != OURS and row.times]
        if not ours or not others:
            continue
        best = min(others, key=lambda row: row.step_ms)
        mine, theirs = median_range(ours.times), median_range(best.times)
        found = faster if mine.high < theirs.low else slower if theirs.high < mine.low else close
        found[comparison.batch_size] = best.name, best.step_ms / ours.step_ms
    sentences = []
    if faster:
        sentences.append(
            f"Ours is the fastest at {_sizes(faster)}: {_ratios(faster)} times as fast "
            f"as the next best ({_names(faster)})."
        )
    if slower:
        inverted = {size: (name, 1 / ratio) for size, (name, ratio) in slower.items()}
        sentences.append(
            f"At {_sizes(slower)}, {_names(slower)} is {_ratios(inverted)} times as fast as ours."
        )
    if close:
        sentences.append(
            f"At {_sizes(close)} the difference from {_names(close)} is within the "
            "uncertainty: more steps or rounds would tell."
        )
    return " ".join(sentences) or "Ours was not measured beside another contender."


def _sizes(found):
    return f"batch size{'s' if len(found) > 1 else ''} {', '.join(map(str, sorted(found)))}"


def _names(found):
    return " or ".join(dict.fromkeys(name for name, _ in found.values()))


def _ratios(found):
    low, high = (end(ratio for _, ratio in found.values()) for end in (min, max))
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def break_even_cores(comparison: Comparison) -> int | None:
    """The number of cores that the host needs to make batches as fast as ours takes them."""
    ours = comparison.step_ms(OURS)
    if not ours or not comparison.host_core_ms:
        return None
    return max(1, math.ceil(comparison.host_core_ms / ours - 0.02))


def _note(row, comparison):
    note = NOTES.get(row.name, "")
    if row.name == HOST_SIDE:
        cores = break_even_cores(comparison)
        if cores:
            note = f"as fast as ours from {cores} free core{'s' if cores > 1 else ''} on"
    ours = comparison.step_ms(OURS)
    if row.name != OURS and ours and row.step_ms < 0.97 * ours:
        faster = f"{ours / row.step_ms:.2f} x faster than ours here"
        note = f"{faster}: {note}" if note else faster
    return note


def summary(comparisons: list[Comparison]) -> str:
    """One table of all comparisons: ms per step and, in brackets, how many times ours that is.

    Ours itself is compared with the slowest part alone.
    """
    names = list(dict.fromkeys(row.name for c in comparisons for row in c.rows))
    heads = ["batch size", "host, front end, step", "slowest alone", *names, f"{OURS}: variation"]
    lines = [
        f"| {' | '.join([*heads, 'cores to break even'])} |",
        "|" + "--:|" * (len(heads) + 1),
    ]
    for c in comparisons:
        ours = next((row for row in c.rows if row.name == OURS), None)
        parts = ", ".join(f"{ms:g}" for ms in c.part_ms) if c.part_ms else "as they are"
        cells = [str(c.batch_size), parts, f"{c.limit_ms:.2f}" if c.limit_ms else "-"]
        for name in names:
            step_ms = c.step_ms(name)
            if step_ms is None:
                cells.append("-")
            elif name == OURS:
                ratio = f" ({step_ms / c.limit_ms:.3f} x slowest)" if c.limit_ms else ""
                cells.append(f"{step_ms:.2f}{ratio}")
            else:
                ratio = f" ({step_ms / ours.step_ms:.2f} x)" if ours and ours.step_ms else ""
                cells.append(f"{step_ms:.2f}{ratio}")
        cells.append(f"{ours.variation:.1%}" if ours and ours.step_ms else "-")
        cells.append(str(break_even_cores(c) or "-"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def recommendation(comparisons: list[Comparison], slots, memory_mb: float | None) -> str:
    """The settings for this much device memory: the batch size with most elements per second."""
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
    # Among sizes within 2 % of the fastest, the smallest leaves most memory.
    chosen = min(size for size, rate in rates.items() if rate >= 0.98 * fastest)
    within = f" for {memory_mb:,.0f} MB on the model device" if memory_mb else ""
    text = f"Recommended{within}: batch_size={chosen} with slots={slots}"
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
