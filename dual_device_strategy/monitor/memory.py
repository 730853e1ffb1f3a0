"""Memory that grows while the work stays the same."""

import collections
from collections.abc import Mapping

from dual_device_strategy.devices import Sample, short_name

MB = 1 << 20
# Growth that is reported, in MB over what was in use after the first epoch, or after
# STEPS_BEFORE_GROWTH steps.
GROWTH_MB = {"data": 200, "model": 500}
STEPS_BEFORE_GROWTH = 1000
LATEST = 5


class MemoryWatch:
    """Compares the memory that devices hold now with what they held early in the run.

    Call `remember` once everything lasting has been made, then `grown` with each new sample.
    Batches come and go, so the lowest of the latest samples counts.
    """

    def __init__(self, roles: Mapping[str, str]):
        self._roles = dict(roles)
        self._before: dict[str, int] = {}
        self._held = {role: collections.deque(maxlen=LATEST) for role in roles}

    @property
    def compares(self) -> bool:
        """Whether `remember` has something to compare with."""
        return bool(self._before)

    def remember(self, uses: Mapping[str, Sample]) -> None:
        """From now on, compares with what devices hold now."""
        self.grown(uses, step=0)
        self._before = {role: max(held) for role, held in self._held.items() if held}
        for held in self._held.values():
            held.clear()

    def grown(self, uses: Mapping[str, Sample], step: int) -> dict[str, str]:
        """Takes a sample; returns, by role, a sentence about each device whose memory has grown."""
        found = {}
        for role, name in self._roles.items():
            if name not in uses or uses[name].memory is None:
                continue
            latest = self._held[role]
            latest.append(uses[name].memory)
            held, before = min(latest), self._before.get(role)
            enough = len(latest) == LATEST
            kind = role.split()[0]
            if before is not None and enough and held - before > GROWTH_MB[kind] * MB:
                found[role] = (
                    f"memory of the {kind} device {short_name(name)} grew by "
                    f"{(held - before) / MB:,.0f} MB, from {before / MB:,.0f} MB to "
                    f"{held / MB:,.0f} MB at step {step:,} (peak "
                    f"{in_mb(uses[name].peak):,.0f} MB): something keeps tensors of past steps"
                )
        return found


def in_mb(size: int | None) -> float | None:
    return None if size is None else round(size / MB, 2)
