"""Which devices prepare and how the rows are divided: what each plan would take, and the best one.

A step takes as long as the device that is at work longest:

    load + step_fixed + step * share      on each model device
    load                                  on a data device that does not train

where `load` is front_end / D on each of the D data devices, which take whole batches in turns.  Or
each model device prepares the rows that it trains: front_fixed and the rest of front_end * share.
So a few costs say what every plan takes.  They follow from the times of steps under the plans that
were tried:

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

# How a fit weighs the front end's measured time, and fixed costs that nothing shows, against the
# times of steps: both only decide where the times of steps do not.
_TRUST, _DOUBT = 0.02, 0.002


@dataclasses.dataclass(frozen=True)
class Roles:
    """The data devices and the model devices."""

    preparing: tuple[str, ...]
    training: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The rows of a full batch on each model device.

    With `all_prepare` each model device prepares its own rows, and nothing is prepared elsewhere.
    """

    all_prepare: bool
    rows: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(rows / sum(self.rows) for rows in self.rows)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Milliseconds for a whole batch on one device.

    `front_fixed` of the front end's, and `step_fixed` besides the step's, are for any rows.
    """

    front_end: float
    front_fixed: float
    step_fixed: float
    step: float


def step_ms(roles: Roles, costs: Costs, plan: Plan) -> float:
    """What a step takes under a plan."""
    work, alone = _work(roles, costs, plan)
    return max(alone, costs.step_fixed + max(work))


def _work(roles: Roles, costs: Costs, plan: Plan):
    """What each model device does for a step, without `step_fixed`; and each data device alone."""
    if plan.all_prepare:
        both = costs.front_end - costs.front_fixed + costs.step
        return [costs.front_fixed + both * share for share in plan.shares], 0.0
    load = costs.front_end / len(roles.preparing)
    return [
        (load if device in roles.preparing else 0.0) + costs.step * share
        for device, share in zip(roles.training, plan.shares, strict=True)
    ], load


def equal(roles: Roles, rows: int) -> Plan:
    """The plan to begin with."""
    count = len(roles.training)
    return Plan(False, tuple(rows // count + (i < rows % count) for i in range(count)))


def best(roles: Roles, costs: Costs, rows: int, all_prepare: bool = False) -> Plan:
    """The fastest plan of a kind for batches of `rows` rows; each model device has at least one."""
    given = [1] * len(roles.training)
    for _ in range(rows - len(given)):  # each row to the device that is done with it first
        work, _ = _work(roles, costs, _Part(all_prepare, [(n + 1) / rows for n in given]))
        given[work.index(min(work))] += 1
    return Plan(all_prepare, tuple(given))


@dataclasses.dataclass
class _Part:
    """A plan that does not give away all rows."""

    all_prepare: bool
    shares: list[float]


def fitted(
    roles: Roles,
    observed: Sequence[tuple[Plan, float]],
    front_end: float,
    front_fixed: float = 0.0,
) -> Costs:
    """The costs that explain the milliseconds of a step under the plans that were tried.

    `front_end` and `front_fixed` are what they were by themselves, without a step beside them.
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
