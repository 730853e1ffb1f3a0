"""What the measured times mean: bottleneck, limit, advice, and whether a second device helps."""

import dataclasses
import math
import statistics

from dual_device_strategy.monitor.diagnosis import FRONT_END, HOST, JITTER, SETTINGS, TRANSFER
from dual_device_strategy.profile.measuring import Measured
from dual_device_strategy.whatif import STAGES, Stages, predict

TITLES = {
    "host": "host pipeline",
    "copy": "copy to the data device",
    "front_end": "front end",
    "transfer": "transfer to the model device",
    "step": "step",
}
# The data device copies and computes in turns, so for the pipeline these two are one stage.
DATA_DEVICE = "data device (copy and front end)"
LARGEST_SHARES = {"data loading": 0.20, "transfer": 0.15, "variation": 0.30}
LEAST_TRAINING_SHARE = 0.50


@dataclasses.dataclass(frozen=True)
class Advice:
    """A rule that was broken, the setting to change, and what that would gain."""

    rule: str
    setting: str
    gain: float

    def __str__(self) -> str:
        if self.gain < 0.01:
            return (
                f"{self.rule}, but hidden behind another stage: expected gain 0% from the usual "
                f"remedy ({self.setting})"
            )
        return f"{self.rule}: {self.setting}; expected gain {self.gain:.0%}"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Milliseconds and shares; None where a run is missing.

    Attributes:
      bottleneck: the slowest stage.
      limit_ms: its time, which no step can be shorter than.
      step_ms: the measured step of the staged run.
      overlap: limit_ms / step_ms: 1 is all that can be had.
      one_device_ms: computed: the step when front end and training take turns on one device.
      host_cores: how many cores the front end would keep busy on the host; None if not measured.
      verdict: whether a second device helps, in words.
    """

    bottleneck: str
    limit_ms: float
    step_ms: float | None
    overlap: float | None
    variation: float | None
    one_device_ms: float
    saved: float | None
    host_cores: int | None
    verdict: str
    advice: list[Advice]
    predictions: list[dict]


def judge(measured: Measured, slots: int, cores: int) -> Judgement:
    """Needs all five stages; the staged run may be missing."""
    varying = Stages(**{name: measured.stages[name] for name in STAGES}, gap=measured.gap_ms)
    # Medians, because one late wake-up of the system is no property of a stage.
    stages = Stages(
        **{name: statistics.median(measured.stages[name]) for name in STAGES}, gap=measured.gap_ms
    )
    times = {
        TITLES["host"]: stages.mean("host"),
        DATA_DEVICE: stages.of_data_device,
        TITLES["transfer"]: stages.mean("transfer"),
        TITLES["step"]: stages.mean("step"),
    }
    bottleneck = max(times, key=times.get)
    limit = times[bottleneck]
    step = statistics.median(measured.steps) if measured.steps else None
    variation = None
    if measured.steps:
        variation = statistics.pstdev(measured.steps) / statistics.fmean(measured.steps)
    one_device = max(stages.mean("host"), stages.mean("front_end") + stages.mean("step"))
    reached = step or predict(varying, slots=slots).step_ms
    saved = 1 - reached / one_device if one_device else 0.0
    host_cores = _cores_needed(measured, stages)
    return Judgement(
        bottleneck=bottleneck,
        limit_ms=limit,
        step_ms=step,
        overlap=limit / step if step else None,
        variation=variation,
        one_device_ms=one_device,
        saved=saved,
        host_cores=host_cores,
        verdict=_verdict(stages, reached, one_device, saved, host_cores, cores),
        advice=_advice(varying, stages, step or limit, variation, slots, bottleneck),
        predictions=_predictions(varying, slots),
    )


def _cores_needed(measured, stages):
    if measured.front_end_core_ms is None:
        return None
    pace = max(stages.mean("host"), stages.mean("step"))
    return max(1, math.ceil(measured.front_end_core_ms / pace)) if pace else None


def _verdict(stages, reached, one_device, saved, host_cores, cores):
    others = stages.mean("host") + stages.of_data_device + stages.mean("transfer")
    step = stages.mean("step")
    timing = f"{reached:.1f} ms a step, against {one_device:.1f} with both in turns on one device"
    if saved < 0.05:
        if step > 5 * others:
            ratio = f"{step / others:.0f} times longer than" if others else "all there is, without"
            return f"a second device saves nothing here: your step is {ratio} everything before it"
        if stages.mean("host") >= stages.limit:
            return (
                "a second device saves nothing here: the host pipeline alone takes "
                f"{stages.mean('host'):.1f} ms a batch, so speed that up first"
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


def _advice(varying, stages, step_ms, variation, slots, bottleneck):
    now = predict(stages, slots=slots).step_ms
    now_varying = predict(varying, slots=slots).step_ms

    def gain(changed):
        return max(0.0, 1 - predict(changed, slots=slots).step_ms / now)

    found = []
    share = stages.mean("host") / step_ms
    if share > LARGEST_SHARES["data loading"]:
        faster = dataclasses.replace(stages, host=stages.mean("host") / 2)
        found.append(
            Advice(f"data loading takes {share:.0%} of a step", SETTINGS[HOST], gain(faster))
        )
    share = stages.mean("transfer") / step_ms
    if share > LARGEST_SHARES["transfer"]:
        faster = dataclasses.replace(stages, transfer=stages.mean("transfer") / 2)
        found.append(
            Advice(f"transfer takes {share:.0%} of a step", SETTINGS[TRANSFER], gain(faster))
        )
    share = stages.mean("step") / step_ms
    if share < LEAST_TRAINING_SHARE:
        stage, names = {
            TITLES["host"]: (HOST, ("host",)),
            DATA_DEVICE: (FRONT_END, ("copy", "front_end")),
        }.get(bottleneck, (TRANSFER, ("transfer",)))
        faster = dataclasses.replace(stages, **{name: stages.mean(name) / 2 for name in names})
        found.append(
            Advice(
                f"training takes only {share:.0%} of a step, the rest waits for the {bottleneck}",
                SETTINGS[stage],
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


def _predictions(stages, slots):
    """What other settings would give, by the simulation: ms per batch."""
    cases = [(f"slots={n}", {"slots": n}, stages, 1) for n in (2, 3, 4, 6, 8)]
    cases += [
        ("batches half as large", {}, stages.with_batch(0.5), 2),
        ("batches twice as large", {}, stages.with_batch(2), 0.5),
        ("links half as fast", {}, stages.with_bandwidth(0.5), 1),
        ("links twice as fast", {}, stages.with_bandwidth(2), 1),
        ("two model devices", {"model_devices": 2}, stages, 0.5),
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
