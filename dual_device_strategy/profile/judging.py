"""Interprets the measured times: bottleneck, limit, advice, and whether a second device helps."""

import dataclasses
import math
import statistics

from dual_device_strategy.profile.advice import Advice, advice, predictions
from dual_device_strategy.profile.certainty import Range, median_range, steps_needed
from dual_device_strategy.profile.measuring import Measured
from dual_device_strategy.profile.setup import DATA_DEVICE, TITLES, Setup, work_of
from dual_device_strategy.whatif import PARTS, PartTimes, layouts, predict

LEAST_SAVING = 0.05


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The meaning of the measurements, in milliseconds and shares; None if a run is missing.

    Attributes:
      bottleneck: the slowest part.
      limit_ms: its time, which no step can be shorter than.
      step_ms: the measured step of the staged run, its result read on every step.
      ahead_ms: the same for other ways to read the result.
      overlap: limit_ms / step_ms, at most 1, which is the best possible.
      one_device_ms: computed: the step when front end and training take turns on one device.
      saved: the share of one_device_ms that a second device saves; no more than limit_ms allows.
      saved_range: the range that very likely holds the true share.
      host_cores: how many cores the front end would keep busy on the host; None if not measured.
      verdict: whether a second device helps, in words.
      predictions: times with other settings, simulated.
      layouts: times with other uses of the same number of devices, computed in proportion to rows.
    """

    bottleneck: str
    limit_ms: float
    step_ms: float | None
    ahead_ms: dict[str, float]
    overlap: float | None
    variation: float | None
    one_device_ms: float
    saved: float
    saved_range: Range
    host_cores: int | None
    verdict: str
    advice: list[Advice]
    predictions: list[dict]
    layouts: list[dict]


def judge(measured: Measured, slots: int, cores: int, setup: Setup | None = None) -> Judgement:
    """Judges measurements of all five parts; those of the staged run may be missing."""
    setup = setup or Setup()
    times = setup.applied(measured)
    fixed = {"gap": measured.gap_ms, "copies_ahead": measured.copies_ahead}
    varying = PartTimes(**times, **fixed)
    # Medians, because one late wake-up of the system says nothing about a part.
    parts = PartTimes(**{name: statistics.median(times[name]) for name in PARTS}, **fixed)
    work = work_of(measured)
    titled = {TITLES[name]: parts.mean(name) for name in PARTS}
    if not parts.copying(slots):
        del titled[TITLES["copy"]], titled[TITLES["front_end"]]
        titled[DATA_DEVICE] = parts.of_data_device(slots)
    bottleneck = max(titled, key=titled.get)
    limit = titled[bottleneck]
    step = statistics.median(measured.steps) if measured.steps else None
    variation = None
    if measured.steps:
        variation = statistics.pstdev(measured.steps) / statistics.fmean(measured.steps)
    one_device = max(work.host, work.front_end + work.step)
    reached = step or predict(varying, slots=slots).step_ms
    # Any shorter step is noise: no number of devices makes a step shorter than its slowest part.
    saved = 1 - max(reached, limit) / one_device if one_device else 0.0
    saved_range, doubt = _certainty(
        measured, times, reached, saved, copies_ahead=parts.copying(slots) > 0
    )
    host_cores = _cores_needed(measured, parts)
    return Judgement(
        bottleneck=bottleneck,
        limit_ms=limit,
        step_ms=step,
        ahead_ms={
            reading.words: statistics.median(found) for reading, found in measured.others.items()
        },
        overlap=min(1.0, limit / step) if step else None,
        variation=variation,
        one_device_ms=one_device,
        saved=saved,
        saved_range=saved_range,
        host_cores=host_cores,
        verdict=doubt
        or _verdict(
            parts,
            slots,
            reached=reached,
            one_device=one_device,
            saved=saved,
            host_cores=host_cores,
            cores=cores,
            setup=setup,
        ),
        advice=advice(
            varying,
            parts,
            step_ms=step or limit,
            variation=variation,
            slots=slots,
            bottleneck=bottleneck,
        ),
        predictions=predictions(varying, slots, setup),
        layouts=[
            {
                "name": layout.name,
                "step_ms": layout.step_ms,
                "ahead_ms": layout.ahead_ms,
                "limit": layout.limit,
                "flags": layout.flags,
            }
            for layout in layouts(
                dataclasses.replace(work, copies_ahead=parts.copying(slots) > 0), setup.devices
            )
        ],
    )


def _certainty(measured, times, reached, saved, *, copies_ahead):
    """The range of the saved share, and why there can be no verdict; None if there can be one."""
    ranges = {name: median_range(times[name]) for name in PARTS}
    work = work_of(measured)
    alone = {name: median_range(measured.parts[name]) for name in ("front_end", "step")}
    whole = work.step / statistics.median(measured.parts["step"]) if work.step else 1.0
    alone["step"] = Range(whole * alone["step"].low, whole * alone["step"].high)
    limit = Range.largest(*ranges.values())
    if not copies_ahead:
        limit = Range.largest(limit, ranges["copy"] + ranges["front_end"])
    one_device = Range.largest(ranges["host"], alone["front_end"] + alone["step"])
    steps = median_range(measured.steps) if measured.steps else Range(reached, reached)
    if limit.low > 1.02 * steps.high:
        return Range(0.0, 0.0), (
            f"cannot tell: a step of the staged run took {reached:.1f} ms, less than its slowest "
            f"part alone ({limit.low:.1f} ms or more), so something else slowed the machine down "
            "in between: measure again"
        )
    if not one_device.low:
        return Range(0.0, 0.0), None
    ends = (
        1 - max(steps.high, limit.low) / one_device.low,
        1 - max(steps.low, limit.high) / one_device.high,
    )
    found = Range(min(ends), max(ends))
    if found.low < LEAST_SAVING <= found.high:
        count = len(measured.steps) or len(measured.parts["step"])
        needed = steps_needed(count, saved, found, LEAST_SAVING)
        return found, (
            f"cannot tell yet whether a second device helps: after {count} steps the saving is "
            f"between {found.low:.0%} and {found.high:.0%}; about {needed:,} steps would tell"
        )
    return found, None


def _cores_needed(measured, parts):
    if measured.front_end_core_ms is None:
        return None
    pace = max(parts.mean("host"), parts.mean("step"))
    return max(1, math.ceil(measured.front_end_core_ms / pace)) if pace else None


def _verdict(parts, slots, *, reached, one_device, saved, host_cores, cores, setup):
    others = sum(parts.mean(name) for name in PARTS if name != "step")
    step = parts.mean("step")
    timing = f"{reached:.1f} ms a step, against {one_device:.1f} with both in turns on one device"
    if saved < LEAST_SAVING:
        if step > 5 * others:
            ratio = f"{step / others:.0f} times longer than" if others else "all there is, without"
            return f"a second device saves nothing here: your step is {ratio} everything before it"
        if parts.mean("host") >= max(parts.limit, parts.of_data_device(slots)):
            return (
                "a second device saves nothing here: the host pipeline alone takes "
                f"{parts.mean('host'):.1f} ms a batch, so speed that up first"
            )
        return f"a second device saves nothing here: {timing}"
    others = setup.devices - 1
    devices = "a second device saves" if others == 1 else f"{others} more devices save"
    text = f"{devices} you {saved:.0%} here: {timing}"
    # Two cores stay for the host pipeline and for what starts the steps.
    if host_cores is not None and host_cores <= cores - 2:
        text += (
            f"; but you can have the same without it: move the front end back to the host, with "
            f"your {cores} cores it needs {host_cores}"
        )
    elif host_cores is not None and host_cores > cores:
        text += f"; on the host the front end would need {host_cores} cores, and you have {cores}"
    elif host_cores is not None:
        text += (
            f"; on the host the front end would keep {host_cores} of your {cores} cores busy, "
            "beside the host pipeline and what starts the steps"
        )
    return text
