"""Advice: which setting to change, and the gain to expect, by simulation."""

import dataclasses

from dual_device_strategy.monitor.diagnosis import FRONT_END, HOST, JITTER, SETTINGS, TRANSFER
from dual_device_strategy.profile.setup import DATA_DEVICE, TITLES
from dual_device_strategy.whatif import predict

LARGEST_SHARES = {"data loading": 0.20, "transfer": 0.15, "variation": 0.30}
LEAST_TRAINING_SHARE = 0.50
_SEND_LESS = "let the host send less, such as int16 that the on_data_device() function converts"


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


def advice(varying, parts, *, step_ms, variation, slots, bottleneck):
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
        setting, names = {
            TITLES["host"]: (SETTINGS[HOST], ("host",)),
            DATA_DEVICE: (SETTINGS[FRONT_END], ("copy", "front_end")),
            TITLES["front_end"]: (SETTINGS[FRONT_END], ("front_end",)),
            TITLES["copy"]: (_SEND_LESS, ("copy",)),
        }.get(bottleneck, (SETTINGS[TRANSFER], ("transfer",)))
        faster = dataclasses.replace(parts, **{name: parts.mean(name) / 2 for name in names})
        found.append(
            Advice(
                f"training takes only {share:.0%} of a step, the rest waits for the {bottleneck}",
                setting,
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


def predictions(parts, slots, setup):
    """Predictions for other settings, by simulation, in ms per batch, for both kinds of loops."""
    cases = [(f"slots={n}", {"slots": n}, parts, 1) for n in (2, 3, 4, 6, 8)]
    cases += [
        ("batches half as large", {}, parts.with_batch(0.5), 2),
        ("batches twice as large", {}, parts.with_batch(2), 0.5),
        ("links half as fast", {}, parts.with_bandwidth(0.5), 1),
        ("links twice as fast", {}, parts.with_bandwidth(2), 1),
    ]
    if setup.devices <= 2:
        cases.append(("two model devices", {"model_devices": 2}, parts, 0.5))
    found = []
    for title, settings, changed, batches in cases:
        predicted = predict(changed, **{"slots": slots, **settings})
        ahead = predict(changed, reads_every=10, **{"slots": slots, **settings})
        found.append(
            {
                "setting": title,
                "step_ms": predicted.step_ms,
                "ms_per_batch": predicted.step_ms * batches,
                "ahead_ms_per_batch": ahead.step_ms * batches,
                "wait_share": predicted.wait_share,
            }
        )
    return found
