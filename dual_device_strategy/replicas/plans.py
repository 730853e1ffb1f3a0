"""Plans: which devices prepare, and how the rows are divided; predicts step times, finds the best.

A step takes as long as the busiest device works:

    load + step_fixed + step * share      on each model device
    load                                  on a data device that does not train

Each of the D data devices takes whole batches in turns, so its `load` is front_end / D.  In the
other kind of plan each model device prepares the rows that it trains on, which takes
front_fixed + (front_end - front_fixed) * share.  A few costs predict every plan; they are fitted
to the step times of the plans that were tried:

>>> roles = Roles(preparing=("B",), training=("A", "B"))
>>> costs = fitted(roles, [(Plan(False, (12, 12)), 50.0)], front_end=20.0)
>>> costs
Costs(front_end=20.0, front_fixed=0.0, step_fixed=0.0, step=60.0)
>>> best(roles, costs, rows=24)
Plan(all_prepare=False, rows=(16, 8))
>>> best(roles, Costs(30.0, 0.0, 0.0, 20.0), rows=24, all_prepare=True)
Plan(all_prepare=True, rows=(12, 12))
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

# Small weights in a fit, which decide only where the step times leave a choice: _TRUST keeps the
# front end's time near the measured one, _DOUBT keeps fixed costs small.
_TRUST, _DOUBT = 0.02, 0.002


@dataclasses.dataclass(frozen=True)
class Roles:
    """The data devices and the model devices."""

    preparing: tuple[str, ...]
    training: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The number of rows of a full batch that each model device trains on.

    With `all_prepare` each model device prepares its own rows, and the data devices prepare none.
    """

    all_prepare: bool
    rows: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(rows / sum(self.rows) for rows in self.rows)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs in milliseconds, for a whole batch on one device.

    Two of them do not depend on the number of rows: `front_fixed`, which is part of `front_end`,
    and `step_fixed`, which comes on top of `step`.
    """

    front_end: float
    front_fixed: float
    step_fixed: float
    step: float


def step_ms(roles: Roles, costs: Costs, plan: Plan) -> float:
    """The predicted time of a step under a plan."""
    work, alone = _work(roles, costs, plan)
    return max(alone, costs.step_fixed + max(work))


def _work(roles: Roles, costs: Costs, plan: Plan):
    """Each model device's work in a step, without `step_fixed`; and a data device's load."""
    if plan.all_prepare:
        both = costs.front_end - costs.front_fixed + costs.step
        return [costs.front_fixed + both * share for share in plan.shares], 0.0
    load = costs.front_end / len(roles.preparing)
    return [
        (load if device in roles.preparing else 0.0) + costs.step * share
        for device, share in zip(roles.training, plan.shares, strict=True)
    ], load


def equal(roles: Roles, rows: int) -> Plan:
    """The first plan: equal rows, prepared by the data devices."""
    count = len(roles.training)
    return Plan(False, tuple(rows // count + (i < rows % count) for i in range(count)))


def best(roles: Roles, costs: Costs, rows: int, all_prepare: bool = False) -> Plan:
    """The fastest plan of a kind; each model device gets at least one of the `rows` rows."""
    given = [1] * len(roles.training)
    for _ in range(rows - len(given)):  # the next row goes to the device that finishes it first
        work, _ = _work(roles, costs, _Part(all_prepare, [(n + 1) / rows for n in given]))
        given[work.index(min(work))] += 1
    return Plan(all_prepare, tuple(given))


@dataclasses.dataclass
class _Part:
    """A plan that has not given away all rows yet."""

    all_prepare: bool
    shares: list[float]


def fitted(
    roles: Roles,
    observed: Sequence[tuple[Plan, float]],
    front_end: float,
    front_fixed: float = 0.0,
) -> Costs:
    """The costs that best explain the step times (ms) of the plans that were tried.

    `front_end` and `front_fixed` were measured alone, with no step running at the same time.
    """
    longest = max(ms for _, ms in observed)
    steps = np.linspace(0, len(roles.training) * longest, 601)
    times = np.array([[ms] for _, ms in observed])
    found = None
    for part in np.linspace(0, 1, 41).tolist():
        costs = Costs(part * front_end, part * front_fixed, 0.0, steps)
        work = [_work(roles, costs, plan) for plan, _ in observed]
        without = np.array([np.max(np.broadcast_arrays(*each), axis=0) for each, _ in work])
        fixed = np.clip(np.mean(times - without, axis=0), 0, None)
        predicted = np.maximum(without + fixed, np.array([[alone] for _, alone in work]))
        wrong = np.mean(((predicted - times) / longest) ** 2, axis=0)
        wrong = wrong + (_TRUST * (1 - part)) ** 2 + (_DOUBT * fixed / longest) ** 2
        at = int(np.argmin(wrong))
        if found is None or wrong[at] < found[0]:
            fixed_ms, step = round(float(fixed[at]), 3), round(float(steps[at]), 3)
            found = wrong[at], dataclasses.replace(costs, step_fixed=fixed_ms, step=step)
    return found[1]
