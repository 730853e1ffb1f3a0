"""The result of a profile: figures, a table for the terminal, JSON, and the page."""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.devices import short_name, usable_cores
from dual_device_strategy.profile import measuring, page
from dual_device_strategy.profile.judging import Judgement, judge
from dual_device_strategy.profile.setup import TITLES, Setup, work_of
from dual_device_strategy.profile.staged import ProfileError
from dual_device_strategy.readings import Reading
from dual_device_strategy.whatif import PartTimes, predict

SHOWN = 4  # uses of the devices


@dataclasses.dataclass
class Profile:
    """The measurements and, once they are complete, what they mean.

    `table` is for a terminal, `as_json` for programs, `write_html` for a browser.
    """

    devices: dict[str, str]
    slots: int
    measured: measuring.Measured
    judgement: Judgement | None = None
    emulated: bool = False
    failure: str | None = None  # why the measurement is incomplete
    setup: Setup = dataclasses.field(default_factory=Setup)

    def as_json(self) -> dict:
        result = {
            "devices": self.devices,
            "emulated": self.emulated,
            "slots": self.slots,
            "cores": usable_cores(),
            "failure": self.failure,
            "parts": [
                {"part": name, **_figures(times), "times_ms": times}
                for name, times in self.measured.parts.items()
            ],
            "staged": {
                **_figures(self.measured.steps),
                "gaps": _figures(self.measured.gaps),
                "monitor": self.measured.monitor,
                "others": {
                    reading.words: _figures(times)
                    for reading, times in self.measured.others.items()
                },
            },
            "gap_ms": self.measured.gap_ms,
            "front_end_core_ms": self.measured.front_end_core_ms,
        }
        if self.judgement:
            result["judgement"] = dataclasses.asdict(self.judgement)
            result["judgement"]["advice"] = [str(advice) for advice in self.judgement.advice]
            result["work"] = dataclasses.asdict(work_of(self.measured))
            parts = PartTimes(
                **self.setup.applied(self.measured),
                gap=self.measured.gap_ms,
                copies_ahead=self.measured.copies_ahead,
            )
            result["timeline"] = predict(parts, slots=self.slots, steps=60).spans[20:40]
        return result

    def table(self) -> str:
        """The measurements so far, for a terminal."""
        kind = " (emulated: overlap and waiting, not speed)" if self.emulated else ""
        lines = [
            f"{_named('data', self.devices)}, {_named('model', self.devices)}, "
            f"slots={self.slots}{kind}",
            f"{'each part alone':<32}{'median ms':>9}{'std':>8}{'of a step':>11}",
        ]
        step = statistics.median(self.measured.steps) if self.measured.steps else None
        for name, times in self.measured.parts.items():
            lines.append(_row(TITLES[name], times, step))
        if self.measured.steps:
            lines.append("all together")
            lines.append(_row("staged step", self.measured.steps, step))
            lines.append(_row("gap between steps", self.measured.gaps, step))
            for reading, times in self.measured.others.items():
                lines.append(_row(f"staged step, {reading.words}", times, step))
        if self.judgement:
            lines += ["", *self._findings()]
        return "\n".join(lines)

    def _findings(self):
        found = self.judgement
        lines = [f"bottleneck: {found.bottleneck}, {found.limit_ms:.2f} ms"]
        if found.overlap:
            lines.append(
                f"overlap: {found.overlap:.1%} of the limit reached (slowest part / step), "
                f"variation {found.variation:.1%}"
            )
        lines.append(f"verdict: {found.verdict}")
        lines += [f"advice: {advice}" for advice in found.advice]
        lines.append(
            "what if (simulated from the times above, ms per batch of this size; in brackets where "
            "the loss is read now and then):"
        )
        lines.append(
            "  "
            + ", ".join(
                f"{p['setting']} {p['ms_per_batch']:.1f} ({p['ahead_ms_per_batch']:.1f})"
                for p in found.predictions
            )
        )
        if len(found.layouts) > 1:
            lines.append(
                f"what {self.setup.devices} devices could do (computed, ms a step; times in "
                "proportion to rows, gradients added up for nothing):"
            )
            lines += [
                f"  {layout['name']} {layout['step_ms']:.1f} ({layout['ahead_ms']:.1f})"
                for layout in found.layouts[:SHOWN]
            ]
        return lines

    def write_html(self, path: str | Path) -> None:
        """Writes one page with everything; it needs no network."""
        Path(path).write_text(page.render(self.as_json()))


def profile(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    step: Callable,
    *,
    steps: int = 50,
    readings: Sequence[Reading] = (Reading.EVERY_TENTH,),
    result: Profile | None = None,
) -> Profile:
    """Measures each part of a pipeline alone, and all together, under the strategy.

    Args:
      strategy: a `DataModelSplitStrategy` or a `MirroredDataModelSplitStrategy`.
      dataset: not distributed; with `on_data_device` in it for the front end.
      step: the function that the loop gives to `strategy.run`, with a batch; its result is read.
      steps: repetitions of each measurement; the dataset must have eleven batches more.
      readings: how often the result is read in further staged runs, in addition to the one that
        reads it on every step.
      result: filled as the measurement goes on, and so still of use if that fails.

    Raises:
      ProfileError: if the dataset is too short or one of the functions fails.
    """
    result = result or empty(strategy)
    try:
        measuring.measure(
            strategy, dataset, step, repeats=steps, into=result.measured, readings=readings
        )
    except ProfileError as error:
        result.failure = str(error)
        raise
    result.judgement = judge(result.measured, result.slots, usable_cores(), result.setup)
    return result


def empty(strategy: tf.distribute.Strategy) -> Profile:
    """A profile in which nothing is measured yet."""
    extended = strategy.extended
    data, model = extended.data_devices, extended.worker_devices
    names = {
        role: ", ".join(map(short_name, devices))
        for role, devices in (("data", data), ("model", model))
    }
    emulated = bool(emulation.active()) and any("GPU" in name for name in names.values())
    setup = Setup(len(data), len(model), shared=len(model) > 1 and bool(set(data) & set(model)))
    return Profile(
        names, extended.running_input.slots, measuring.Measured(), emulated=emulated, setup=setup
    )


def _named(role: str, devices: dict[str, str]) -> str:
    return f"{role} device{'s' if ',' in devices[role] else ''} {devices[role]}"


def _figures(times):
    if not times:
        return {"count": 0}
    return {
        "count": len(times),
        "median_ms": statistics.median(times),
        "mean_ms": statistics.fmean(times),
        "std_ms": statistics.pstdev(times),
    }


def _row(title, times, step):
    if not times:
        return f"  {title:<30}{'-':>9}"
    median = statistics.median(times)
    share = f"{median / step:>10.0%}" if step else f"{'-':>10}"
    return f"  {title:<30}{median:>9.2f}{statistics.pstdev(times):>8.2f} {share}"
