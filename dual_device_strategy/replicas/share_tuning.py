"""`shares="auto"`: epochs are timed, and the next one gets the best shares that follow from them.

Nothing is measured in the loop itself.  `batch_counts.py` notes when each batch arrives on the
model devices; from one to the next it is a step.  After the first epoch the front end is timed by
itself.  One epoch of equal shares does not tell what of a step is the same for any number of rows;
the first epoch of other shares does.  So one change is the rule, a second one frequent.  Then the
fastest plan that was tried stays.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.devices import short_name
from dual_device_strategy.replicas.front_end_alone import FrontEndAlone
from dual_device_strategy.replicas.plans import (
    Costs,
    Plan,
    Roles,
    best,
    equal,
    fitted,
    step_ms,
)

# An epoch with fewer batches than this is not judged, nor are its first ones: they are there when
# it begins, and the first steps are traced.
LEAST, BEGINNING = 16, 6
MOST_CHANGES = 4
# Another plan must be this much faster to be worth a trace: times of epochs vary as much.
WORTH = 0.01


class ShareChoice(tf.train.experimental.PythonState):
    """The shares that were chosen; in a checkpoint, a training goes on with them.

        tf.train.Checkpoint(model=model, shares=strategy.share_choice)

    Each dataset begins with them.  They are those of the dataset with the longest epochs, where a
    strategy has several.
    """

    def __init__(self):
        self.plan: Plan | None = None
        self.settled = False  # whether nothing is left to try
        self.restored = 0  # how often
        self._batches = 0  # in the longest epoch that it was chosen from
        self._of: object = None  # what chose it

    def note(self, plan: Plan, settled: bool, batches: int, of: object) -> None:
        """`of` is the dataset's tuning, which may change what it has chosen after a short epoch."""
        if of is self._of or batches >= self._batches:
            self.plan, self.settled, self._of = plan, settled, of
            self._batches = max(batches, self._batches)

    def serialize(self):
        plan = self.plan and {"all_prepare": self.plan.all_prepare, "rows": self.plan.rows}
        state = {"plan": plan, "settled": self.settled, "batches": self._batches}
        return json.dumps(state)

    def deserialize(self, string_value):
        state = json.loads(string_value)
        plan = state["plan"]
        self.plan = plan and Plan(bool(plan["all_prepare"]), tuple(map(int, plan["rows"])))
        self.settled, self._batches = bool(state["settled"]), int(state["batches"])
        self.restored += 1


class ShareTuning:
    """Chooses the plan of one dataset, whose batches have `rows` rows, anew for each epoch."""

    def __init__(
        self,
        choice: ShareChoice,
        counts: BatchCounts,
        roles: Roles,
        *,
        rows: int,
        front_end: FrontEndAlone,
        pieces: Callable[[Plan], Sequence] | None,
    ):
        self.front_end, self.pieces = front_end, pieces
        self._front_end_ms: float | None = None
        self._front_fixed_ms = 0.0
        self._choice, self._counts, self._roles = choice, counts, roles
        self._rows = rows
        self.plan = equal(roles, rows)
        self.settled = False
        self._restored = choice.restored
        self._adopt()
        self._before: int | None = None  # batches that had arrived when the epoch began
        self._observed: dict[Plan, list[float]] = {}
        self._changes = 0
        self._expected = math.inf  # of a step under the present plan, when it was chosen

    def _adopt(self) -> None:
        plan = self._choice.plan
        if plan and self._fits(plan):
            self.plan, self.settled = plan, self._choice.settled

    def _fits(self, plan: Plan) -> bool:
        return (
            len(plan.rows) == len(self._roles.training)
            and sum(plan.rows) == self._rows
            and (self.pieces is not None or not plan.all_prepare)
        )

    def choose(self) -> Plan:
        """The plan of the epoch that begins now; looks back at the one before."""
        if self._choice.restored != self._restored:
            self._restored = self._choice.restored
            self._adopt()
        elif not self.settled and self._before is not None:
            self._look_back()
        self._before = int(self._counts.arrived)
        return self.plan

    def _look_back(self) -> None:
        count = int(self._counts.arrived) - self._before
        size = self._counts.times.shape[0]
        first = max(0, count - size)
        times = self._counts.times.numpy()[(self._before + np.arange(first, count)) % size]
        if self._front_end_ms is None:
            self._time_front_end()
        if self._front_end_ms is None and not first and count > 1:
            # The first batches fill the READY slots, and no step is in their way.
            self._front_end_ms = 1e3 * float(times[1] - times[0])
        times = times[max(0, BEGINNING - first) :]
        turns = len(self._roles.preparing)
        measured = period(times, turns)
        if count < LEAST or measured is None or self._front_end_ms is None:
            return
        self.learn(measured, count)

    def _time_front_end(self) -> None:
        self._front_end_ms = whole = self.front_end.milliseconds()
        if whole and self.pieces:
            rows = equal(self._roles, self._rows).rows
            edges = [0, *itertools.accumulate(rows)]
            of_piece = self.front_end.of_pieces(self.pieces(rows), edges)
            if of_piece is None:
                logging.info(
                    "shares: the front end makes something else of a part of a batch, so only the "
                    "data devices prepare"
                )
                self.pieces = None
            else:
                share = rows[0] / self._rows
                self._front_fixed_ms = max(0.0, (of_piece - share * whole) / (1 - share))

    def learn(self, measured: float, count: int) -> None:
        """Chooses the next plan; the present one took `measured` ms a step, in `count` batches."""
        self._observed.setdefault(self.plan, []).append(measured)
        tried = {plan: min(times) for plan, times in self._observed.items()}
        fastest = min(tried, key=tried.get)
        once = len(self._observed[self.plan]) == 1
        if once and self.plan != fastest and self._expected < tried[fastest]:
            # It was to be the fastest: once more, as what disturbs an epoch only adds to it.
            logging.info("shares: %.1f ms a step; the same shares again", measured)
            return
        costs = fitted(self._roles, list(tried.items()), self._front_end_ms, self._front_fixed_ms)
        wanted = self._promising(costs, tried)
        before = self.plan
        if wanted and self._changes < MOST_CHANGES:
            self.plan = wanted
            self._changes += 1
            expected = step_ms(self._roles, costs, wanted)
        else:
            self.plan, self.settled = fastest, True
            expected = tried[fastest]
        self._expected = expected
        self._choice.note(self.plan, self.settled, count, of=self)
        logging.info(
            "shares: %s from this epoch on, %.1f ms a step expected; %s before took %.1f ms (front "
            "end %.1f, step %.1f and %.1f more whatever its rows, on one device)%s",
            self._words(self.plan),
            expected,
            self._words(before),
            measured,
            costs.front_end,
            costs.step,
            costs.step_fixed,
            "; they stay" if self.settled else "",
        )

    def _promising(self, costs: Costs, tried: dict[Plan, float]) -> Plan | None:
        """A plan that was not tried and should be faster.

        Where each device prepares its own rows, nothing is copied between devices.  No cost says
        what that is worth; so it is tried where it should not be slower.
        """
        kinds = [True, False] if self.pieces else [False]
        plans = [best(self._roles, costs, self._rows, all_prepare) for all_prepare in kinds]
        fastest = min(tried.values())
        for plan in sorted(plans, key=lambda plan: step_ms(self._roles, costs, plan)):
            new_kind = plan.all_prepare and not any(each.all_prepare for each in tried)
            worth = -WORTH if new_kind else WORTH
            if plan not in tried and step_ms(self._roles, costs, plan) < (1 - worth) * fastest:
                return plan
        return None

    def _words(self, plan: Plan) -> str:
        rows = ", ".join(
            f"{short_name(device)} {rows}"
            for device, rows in zip(self._roles.training, plan.rows, strict=True)
        )
        preparing = ", ".join(map(short_name, self._roles.preparing))
        return f"rows {rows}, prepared by {'each itself' if plan.all_prepare else preparing}"


def period(times: np.ndarray, turns: int) -> float | None:
    """Milliseconds from one arrival to the next; `times` are in seconds, `turns` may come at once.

    The median, as a loop may stop for a while to evaluate or to save.
    """
    if len(times) <= 2 * turns:
        return None
    return 1e3 * float(np.median(times[turns:] - times[:-turns])) / turns
