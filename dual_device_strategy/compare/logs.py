"""Two finished runs side by side, from the files of their monitors."""

from dual_device_strategy.monitor import LogError, read

_FIGURES = (
    ("steps", "steps", "{:,.0f}"),
    ("step, ms", "step_ms", "{:.2f}"),
    ("variation", "variation", "{:.1%}"),
    ("wait share", "wait_share", "{:.1%}"),
    ("READY batches", "ready", "{:.2f}"),
    ("total, s", "total_seconds", "{:.1f}"),
)
_OF_DEVICES = (("busy", "busy", "{:.0%}"), ("peak, MB", "peak_mb", "{:,.1f}"))


def compare_logs(paths: list[str]) -> tuple[str, list[str]]:
    """A table that compares two logs, and a sentence for each log that cannot be used.

    For a run that was cut off, the table has the last figures it wrote.  The table is empty if
    there is nothing to show.
    """
    columns, problems = [], []
    for path in paths:
        try:
            _, _, summary = read(path)
        except LogError as error:
            problems.append(str(error))
            # What was written every few seconds is still worth seeing.
            summary = dict(error.lines[-1]) if error.lines else {}
            if summary:
                summary["steps"] = summary.pop("step", None)
                summary["total_seconds"] = summary.pop("seconds", None)
        columns.append(summary)
    if not any(columns):
        return "", problems
    first, second = columns
    lines = [f"| | {paths[0]} | {paths[1]} | second / first |", "|---|--:|--:|--:|"]
    for title, name, form in _FIGURES:
        lines.append(_row(title, first.get(name), second.get(name), form))
    devices = [role for column in columns for role in column.get("devices", {})]
    for role in sorted(set(devices or ("data", "model"))):
        for title, name, form in _OF_DEVICES:
            values = [c.get("devices", {}).get(role, {}).get(name) for c in columns]
            lines.append(_row(f"{role} device {title}", *values, form))
    return "\n".join(lines), problems


def _row(title, first, second, form):
    cells = [form.format(value) if _is_number(value) else "-" for value in (first, second)]
    ratio = "-"
    if _is_number(first) and _is_number(second) and first:
        ratio = f"{second / first:.2f}"
    return f"| {title} | {cells[0]} | {cells[1]} | {ratio} |"


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)
