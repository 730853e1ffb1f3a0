"""The report of a monitor, in figures and in words."""

from collections.abc import Sequence

from dual_device_strategy.devices import Sample, short_name
from dual_device_strategy.monitor.memory import in_mb


def roles(kind: str, devices: Sequence[str]) -> dict[str, str]:
    """The devices of one kind by role: "data", or "data 0", "data 1" if there are several."""
    if len(devices) == 1:
        return {kind: devices[0]}
    return {f"{kind} {place}": device for place, device in enumerate(devices)}


def device_figures(device: str, use: Sample, absent: str | None) -> dict:
    """One device's part of `Monitor.summary()`; `absent` is the reason if it has no figures."""
    return {
        "device": short_name(device),
        "busy": use.busy,
        "memory_mb": in_mb(use.memory),
        "peak_mb": in_mb(use.peak),
        "absent": absent,
    }


def report(summary: dict) -> str:
    """The figures of `Monitor.summary()`, to print."""
    if not summary["steps"]:
        return f"Monitor: no steady steps yet, {summary['first_steps']} first ones"
    lines = [
        f"Monitor: {summary['steps']:,} steady steps, {summary['steps_per_second']:.1f} "
        f"steps/s, {summary['total_seconds']:.1f} s in total",
        f"  step       {summary['step_ms']:.2f} ms, std {summary['std_ms']:.2f}, "
        f"{summary['min_ms']:.2f} to {summary['max_ms']:.2f}, "
        f"variation {summary['variation']:.1%}",
    ]
    if summary["steps_per_call"] > 1:
        lines[-1] += f" (means over calls of {summary['steps_per_call']} steps)"
    if summary["wait_share"] is None:
        lines.append("  waiting    unknown: it happens inside a tf.function")
    else:
        lines.append(
            f"  waiting    {summary['wait_ms']:.2f} ms a step, {summary['wait_share']:.1%} of "
            "the time"
        )
    if summary["ready"] is None:
        lines.append("  READY      not counted")
    else:
        slots = summary["slots"]
        most = max(0, slots - 2 - summary["copying_slots"])
        lines.append(
            f"  READY      {summary['ready']:.2f} batches when the step asked, of at most "
            f"{most} with {slots} slots ({summary['ready_samples']} samples)"
        )
    lines.append(
        f"  apart      the first {summary['first_steps']} steps took "
        f"{summary['first_steps_ms'] / 1e3:.2f} s"
    )
    if summary["epoch_starts"]:
        lines[-1] += (
            f"; {summary['epoch_starts']} epoch starts took {summary['epoch_start_ms']:.1f} ms each"
        )
    for role, use in summary["devices"].items():
        text = f"  {role:<10} {use['device']}: "
        if use["absent"]:
            text += f"use unknown, {use['absent']}"
        elif use["memory_mb"] is None:
            text += "not sampled yet"
        else:
            busy = "busy unknown" if use["busy"] is None else f"busy {use['busy']:.0%}"
            text += f"{busy}, memory {use['memory_mb']:,.1f} MB, peak {use['peak_mb']:,.1f} MB"
        lines.append(text)
    lines += [f"  warning    {text}" for text in summary["warnings"]]
    return "\n".join(lines)
