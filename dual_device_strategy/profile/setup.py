"""How many devices there are, and the times of the parts as they see them."""

import dataclasses
import statistics

from dual_device_strategy.profile.measuring import Measured
from dual_device_strategy.whatif import PARTS, Work

TITLES = {
    "host": "host pipeline",
    "copy": "copy to the data device",
    "front_end": "front end",
    "transfer": "transfer to the model device",
    "step": "step",
}
# The data device copies and computes in turns, so the pipeline sees these two as one part, unless
# some slots are for copies.
DATA_DEVICE = "data device (copy and front end)"


@dataclasses.dataclass(frozen=True)
class Setup:
    """How many devices prepare and train, and whether those that prepare train as well."""

    data_devices: int = 1
    model_devices: int = 1
    shared: bool = False

    @property
    def devices(self) -> int:
        return self.model_devices + (0 if self.shared else self.data_devices)

    def applied(self, measured: Measured) -> dict[str, list[float]]:
        """The times of the parts as the pipeline sees them: data devices take turns."""
        found = {name: measured.parts[name] for name in PARTS}
        for name in ("copy", "front_end", "transfer"):
            found[name] = [ms / self.data_devices for ms in found[name]]
        if self.shared:
            rows = measured.rows_of_replicas
            own = statistics.median(found["step"]) * rows[-1] / max(rows)
            found["front_end"] = [self.data_devices * ms + own for ms in found["front_end"]]
        return found


def work_of(measured: Measured) -> Work:
    """The times of a whole batch on one device, as far as known, all proportional to rows."""
    median = {name: statistics.median(measured.parts[name]) for name in PARTS}
    rows = measured.rows or 1
    median["step"] *= rows / max([*measured.rows_of_replicas, 1])
    return Work(**median, gap=measured.gap_ms, rows=rows)
