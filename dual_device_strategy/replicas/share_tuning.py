"""`shares="auto"`: times each epoch, and gives the next one the best shares.

An epoch is what one iterator gives.  Nothing is measured in the loop itself.  `batch_counts.py`
notes when each batch arrives on the model devices; a step lasts from one arrival to the next.
After the first epoch the front end is timed by itself.  An epoch with equal shares does not show
which part of a step is independent of the number of rows; the first epoch with other shares does.
So there is usually one change, often a second one.  Then the fastest plan that was tried stays.

Disturbances only add time.  An epoch that takes longer than it should gets another one.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from dual_device_strategy.batch_counts import BatchCounts, period
from dual_device_strategy.copies import AT_ONCE
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

# Epochs with fewer than LEAST batches are not judged. The first BEGINNING batches of an epoch are
# not counted: they are ready before the first step, and the first steps are traced.
LEAST, BEGINNING = 16, 6
MOST_CHANGES = 4
# Another plan must be this much faster to be worth a trace; the times of epochs vary by as much.
WORTH = 0.01
# An epoch that took this much longer than all epochs together let expect was disturbed.
DISTURBED = 0.03


class ShareChoice(tf.train.experimental.PythonState):
    """The chosen shares; save them in a checkpoint, and a continued training begins with them.

        tf.train.Checkpoint(model=model, shares=strategy.share_choice)

    Each dataset begins with them.  If a strategy has several datasets, the one with the longest
    epochs chooses; an endless one counts as the longest.  If the work changes, say so:

        strategy.share_choice.measure_again()       # another step on the same batches
        strategy.share_choice.forget()              # another training

    Datasets follow when they are iterated anew.
    """

    def __init__(self):
        self.plan: Plan | None = None
        self.settled = False  # whether nothing is left to try
        self.replaced = 0  # how many times, other than by a dataset's choice
        self._batches = 0  # in the longest epoch that led to this choice
        self._chosen_by: object = None

    def measure_again(self) -> None:
        """Chooses anew, from the present shares on, because a step takes another time now."""
        self.settled = False
        self.replaced += 1

    def forget(self) -> None:
        """Begins anew, with equal shares."""
        self.plan, self._batches, self._chosen_by = None, 0, None
        self.measure_again()

    def note(self, plan: Plan, settled: bool, batches: int, chosen_by: object) -> None:
        """Notes a dataset's choice; the same dataset may change its own after a shorter epoch."""
        if chosen_by is self._chosen_by or batches >= self._batches:
            self.plan, self.settled, self._chosen_by = plan, settled, chosen_by
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
        self.replaced += 1


class ShareTuning:
    """Chooses the plan of one dataset for each epoch; full batches have `rows` rows."""

    def __init__(
        self,
        choice: ShareChoice,
        counts: BatchCounts,
        roles: Roles,
        *,
        rows: int,
        endless: bool,
        front_end: FrontEndAlone,
        pieces: Callable[[Plan], Sequence] | None,
    ):
        self.front_end, self.pieces = front_end, pieces
        self._front_end_ms: float | None = None
        self._front_fixed_ms = 0.0
        self._choice, self._counts, self._roles = choice, counts, roles
        self._rows, self._endless = rows, endless
        self._before: int | None = None  # batches that had arrived when the epoch began
        self.plan = equal(roles, rows)
        self._adopt()

    def _adopt(self) -> None:
        """Begins anew with the strategy's choice, or with equal shares."""
        self._replaced = self._choice.replaced
        self._observed: dict[Plan, list[float]] = {}
        self._changes = 0
        self._expected = math.inf  # ms of a step, predicted when the present plan was chosen
        self.settled = False
        plan = self._choice.plan
        if plan is None:
            self.plan = equal(self._roles, self._rows)
        elif self._fits(plan):
            self.plan, self.settled = plan, self._choice.settled

    def _fits(self, plan: Plan) -> bool:
        return (
            len(plan.rows) == len(self._roles.training)
            and sum(plan.rows) == self._rows
            and (self.pieces is not None or not plan.all_prepare)
        )

    def choose(self) -> Plan:
        """The plan of the epoch that begins now, learnt from the one before."""
        if self._choice.replaced != self._replaced:
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
            # No step runs while the first batches fill the READY slots.
            self._front_end_ms = 1e3 * float(times[1] - times[0])
        times = times[max(0, BEGINNING - first) :]
        turns = len(self._roles.preparing)
        measured = period(times, max(AT_ONCE, turns))
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
                    "shares: for parts of a batch the front end returns something else than for "
                    "the whole one, so only the data devices prepare"
                )
                self.pieces = None
            else:
                share = rows[0] / self._rows
                self._front_fixed_ms = max(0.0, (of_piece - share * whole) / (1 - share))

    def learn(self, measured: float, count: int) -> None:
        """Chooses the next plan; the present one took `measured` ms a step over `count` batches."""
        self._observed.setdefault(self.plan, []).append(measured)
        tried = {plan: min(times) for plan, times in self._observed.items()}
        fastest = min(tried, key=tried.get)
        once = len(self._observed[self.plan]) == 1
        if once and self.plan != fastest and self._expected < tried[fastest]:
            logging.info("shares: %.1f ms a step; the same shares again", measured)
            return
        costs = self._costs(tried)
        wanted = self._promising(costs, tried) or self._disturbed(costs, tried)
        before = self.plan
        if wanted and self._changes < MOST_CHANGES:
            self.plan = wanted
            self._changes += 1
            expected = step_ms(self._roles, costs, wanted)
        else:
            self.plan, self.settled = fastest, True
            expected = tried[fastest]
        self._expected = expected
        batches = sys.maxsize if self._endless else count
        self._choice.note(self.plan, self.settled, batches, chosen_by=self)
        logging.info(
            "shares: %s from now on, %.1f ms a step expected; %s before took %.1f ms (whole "
            "batch on one device: front end %.1f, step %.1f, fixed cost of a step %.1f)%s",
            self._words(self.plan),
            expected,
            self._words(before),
            measured,
            costs.front_end,
            costs.step,
            costs.step_fixed,
            "; they stay" if self.settled else "",
        )

    def _costs(self, tried: dict[Plan, float]) -> Costs:
        """The costs that explain the times of the plans in which the data devices prepare.

        Where each device prepares its own rows, nothing is copied, but devices launch more.  So
        such a plan says nothing about the others.
        """
        shared = [(plan, ms) for plan, ms in tried.items() if not plan.all_prepare]
        observed = shared or list(tried.items())
        return fitted(self._roles, observed, self._front_end_ms, self._front_fixed_ms)

    def _disturbed(self, costs: Costs, tried: dict[Plan, float]) -> Plan | None:
        """The plan whose only epoch took longest beyond what the costs say; None if none did."""
        beyond = {
            plan: tried[plan] / step_ms(self._roles, costs, plan)
            for plan, times in self._observed.items()
            if len(times) == 1 and not plan.all_prepare
        }
        worst = max(beyond, key=beyond.get, default=None)
        return worst if worst and beyond[worst] > 1 + DISTURBED else None

    def _promising(self, costs: Costs, tried: dict[Plan, float]) -> Plan | None:
        """A plan that was not tried and should be faster, or None.

        If each device prepares its own rows, nothing is copied between devices.  The costs do not
        include copies, so such a plan is tried even if it is predicted to be slightly slower.
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
