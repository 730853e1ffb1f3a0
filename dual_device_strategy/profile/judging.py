"""What the measured times mean: bottleneck, limit, advice, and whether a second device helps."""

import dataclasses
import math
import statistics

from dual_device_strategy.monitor.diagnosis import FRONT_END, HOST, JITTER, SETTINGS, TRANSFER
from dual_device_strategy.profile.certainty import Range, median_range, steps_needed
from dual_device_strategy.profile.measuring import Measured
from dual_device_strategy.whatif import PARTS, PartTimes, predict

TITLES = {
    "host": "host pipeline",
    "copy": "copy to the data device",
    "front_end": "front end",
    "transfer": "transfer to the model device",
    "step": "step",
}
# The data device copies and computes in turns, so the pipeline sees these two as one part.
DATA_DEVICE = "data device (copy and front end)"
LARGEST_SHARES = {"data loading": 0.20, "transfer": 0.15, "variation": 0.30}
LEAST_TRAINING_SHARE = 0.50
LEAST_SAVING = 0.05


@dataclasses.dataclass(frozen=True)
class Advice:
    """Advice: the rule that was broken, the setting to change, and the expected gain."""

    rule: str
    setting: str
    gain: float

    def __str__(self) -> str:
        if self.gain < 0.01:
            return (
                f"{self.rule}, but hidden behind another part: expected gain 0% from the usual "
                f"remedy ({self.setting})"
            )
        return f"{self.rule}: {self.setting}; expected gain {self.gain:.0%}"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What the measurements mean, in milliseconds and shares; None where a run is missing.

    Attributes:
      bottleneck: the slowest part.
      limit_ms: its time, which no step can be shorter than.
      step_ms: the measured step of the staged run.
      overlap: limit_ms / step_ms, at most 1, which is the best possible.
      one_device_ms: computed: the step when front end and training take turns on one device.
      saved: the share of one_device_ms that a second device saves; no more than limit_ms allows.
      saved_range: the range that very likely holds the true share.
      host_cores: how many cores the front end would keep busy on the host; None if not measured.
      verdict: whether a second device helps, in words.
    """

    bottleneck: str
    limit_ms: float
    step_ms: float | None
    overlap: float | None
    variation: float | None
    one_device_ms: float
    saved: float
    saved_range: Range
    host_cores: int | None
    verdict: str
    advice: list[Advice]
    predictions: list[dict]


def judge(measured: Measured, slots: int, cores: int) -> Judgement:
    """Judges measurements of all five parts; those of the staged run may be missing."""
    varying = PartTimes(**{name: measured.parts[name] for name in PARTS}, gap=measured.gap_ms)
    # Medians, because one late wake-up of the system says nothing about a part.
    parts = PartTimes(
        **{name: statistics.median(measured.parts[name]) for name in PARTS}, gap=measured.gap_ms
    )
    times = {
        TITLES["host"]: parts.mean("host"),
        DATA_DEVICE: parts.of_data_device,
        TITLES["transfer"]: parts.mean("transfer"),
        TITLES["step"]: parts.mean("step"),
    }
    bottleneck = max(times, key=times.get)
    limit = times[bottleneck]
    step = statistics.median(measured.steps) if measured.steps else None
    variation = None
    if measured.steps:
        variation = statistics.pstdev(measured.steps) / statistics.fmean(measured.steps)
    one_device = max(parts.mean("host"), parts.mean("front_end") + parts.mean("step"))
    reached = step or predict(varying, slots=slots).step_ms
    # Any shorter step is noise: no number of devices makes a step shorter than its slowest part.
    saved = 1 - max(reached, limit) / one_device if one_device else 0.0
    saved_range, doubt = _certainty(measured, reached, saved)
    host_cores = _cores_needed(measured, parts)
    return Judgement(
        bottleneck=bottleneck,
        limit_ms=limit,
        step_ms=step,
        overlap=min(1.0, limit / step) if step else None,
        variation=variation,
        one_device_ms=one_device,
        saved=saved,
        saved_range=saved_range,
        host_cores=host_cores,
        verdict=doubt
        or _verdict(
            parts,
            reached=reached,
            one_device=one_device,
            saved=saved,
            host_cores=host_cores,
            cores=cores,
        ),
        advice=_advice(
            varying,
            parts,
            step_ms=step or limit,
            variation=variation,
            slots=slots,
            bottleneck=bottleneck,
        ),
        predictions=_predictions(varying, slots),
    )


def _certainty(measured, reached, saved):
    """The range of the saved share, and why there can be no verdict; None if there can be one."""
    ranges = {name: median_range(measured.parts[name]) for name in PARTS}
    data_device = ranges["copy"] + ranges["front_end"]
    limit = Range.largest(ranges["host"], data_device, ranges["transfer"], ranges["step"])
    one_device = Range.largest(ranges["host"], ranges["front_end"] + ranges["step"])
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


def _verdict(parts, *, reached, one_device, saved, host_cores, cores):
    others = parts.mean("host") + parts.of_data_device + parts.mean("transfer")
    step = parts.mean("step")
    timing = f"{reached:.1f} ms a step, against {one_device:.1f} with both in turns on one device"
    if saved < LEAST_SAVING:
        if step > 5 * others:
            ratio = f"{step / others:.0f} times longer than" if others else "all there is, without"
            return f"a second device saves nothing here: your step is {ratio} everything before it"
        if parts.mean("host") >= parts.limit:
            return (
                "a second device saves nothing here: the host pipeline alone takes "
                f"{parts.mean('host'):.1f} ms a batch, so speed that up first"
            )
        return f"a second device saves nothing here: {timing}"
    text = f"a second device saves you {saved:.0%} here: {timing}"
    # Two cores stay for the host pipeline and for what starts the steps.
    if host_cores is not None and host_cores <= cores - 2:
        text += (
            f"; but you can have the same without it: move the front end back to the host, with "
            f"your {cores} cores it needs {host_cores}"
        )
    elif host_cores is not None:
        text += (
            f"; on the host the front end would keep {host_cores} of your {cores} cores busy, "
            "beside the host pipeline and what starts the steps"
        )
    return text


def _advice(varying, parts, *, step_ms, variation, slots, bottleneck):
    now = predict(parts, slots=slots).step_ms
    now_varying = predict(varying, slots=slots).step_ms

    def gain(changed):
        return max(0.0, 1 - predict(changed, slots=slots).step_ms / now)

    found = []
    share = parts.mean("host") / step_ms
    if share > LARGEST_SHARES["data loading"]:
        faster = dataclasses.replace(parts, host=parts.mean("host") / 2)
        found.append(
            Advice(f"data loading takes {share:.0%} of a step", SETTINGS[HOST], gain(faster))
        )
    share = parts.mean("transfer") / step_ms
    if share > LARGEST_SHARES["transfer"]:
        faster = dataclasses.replace(parts, transfer=parts.mean("transfer") / 2)
        found.append(
            Advice(f"transfer takes {share:.0%} of a step", SETTINGS[TRANSFER], gain(faster))
        )
    share = parts.mean("step") / step_ms
    if share < LEAST_TRAINING_SHARE:
        part, names = {
            TITLES["host"]: (HOST, ("host",)),
            DATA_DEVICE: (FRONT_END, ("copy", "front_end")),
        }.get(bottleneck, (TRANSFER, ("transfer",)))
        faster = dataclasses.replace(parts, **{name: parts.mean(name) / 2 for name in names})
        found.append(
            Advice(
                f"training takes only {share:.0%} of a step, the rest waits for the {bottleneck}",
                SETTINGS[part],
                gain(faster),
            )
        )
    if variation is not None and variation > LARGEST_SHARES["variation"]:
        found.append(
            Advice(
                f"step times vary by {variation:.0%}",
                SETTINGS[JITTER],
                max(0.0, 1 - predict(varying, slots=8).step_ms / now_varying),
            )
        )
    return found


def _predictions(parts, slots):
    """What other settings would bring, by simulation, in ms per batch."""
    cases = [(f"slots={n}", {"slots": n}, parts, 1) for n in (2, 3, 4, 6, 8)]
    cases += [
        ("batches half as large", {}, parts.with_batch(0.5), 2),
        ("batches twice as large", {}, parts.with_batch(2), 0.5),
        ("links half as fast", {}, parts.with_bandwidth(0.5), 1),
        ("links twice as fast", {}, parts.with_bandwidth(2), 1),
        ("two model devices", {"model_devices": 2}, parts, 0.5),
    ]
    predictions = []
    for title, settings, changed, batches in cases:
        predicted = predict(changed, **{"slots": slots, **settings})
        predictions.append(
            {
                "setting": title,
                "step_ms": predicted.step_ms,
                "ms_per_batch": predicted.step_ms * batches,
                "wait_share": predicted.wait_share,
            }
        )
    return predictions
