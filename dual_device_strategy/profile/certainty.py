"""How certain a median is, and how many measurements would make a comparison certain."""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Range:
    """The ends of a range that very likely holds the true value."""

    low: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    @staticmethod
    def largest(*ranges: "Range") -> "Range":
        """The range of the largest of several values."""
        return Range(max(r.low for r in ranges), max(r.high for r in ranges))


def median_range(times: Sequence[float]) -> Range:
    """The range of the true median at 95 %, by the ranks of the times; no shape is assumed."""
    ordered, count = sorted(times), len(times)
    reach = 1.96 * math.sqrt(count) / 2
    first, last = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    return Range(ordered[max(0, first - 1)], ordered[min(count - 1, last)])


def steps_needed(steps: int, value: float, found: Range, threshold: float) -> int:
    """The number of steps that would show on which side of `threshold` the value is.

    A range narrows with the square root of the steps.  The answer is at most a hundred times
    `steps`, because a value closer than that to the threshold may count as either.
    """
    reach = value - found.low if value > threshold else found.high - value
    distance = max(abs(value - threshold), reach / 10)
    needed = steps * (reach / distance) ** 2 if distance else steps
    unit = 10 ** max(0, len(str(int(needed))) - 2)
    return max(steps + 1, math.ceil(needed / unit) * unit)
