"""`--shares=auto`: how the endless batches of a stage get ends at which shares may change."""

import json

import tensorflow as tf
from absl import logging


class ShareTrials:
    """Divides the steps of a stage into trials, until its strategy has chosen the shares.

    Such a strategy (`chooses_shares`) times the steps of one iterator, and chooses for the next
    one. A stage's batches have no end, so their iterator is made anew after `steps` steps, at the
    batch after the last one trained on:

        trials.begin(step, phase, left)
        ...
        if trials.are_due(step, phase):
            iterator = iter(batches)

    A phase of its own has other steps, and so trials of its own. Under other strategies there is
    nothing to do, and nothing is due.
    """

    # Two thirds of them are judged: the first ones are traced, or were waiting. Batches of several
    # shapes take different times, so more of them are needed.
    STEPS, STEPS_OF_SHAPES = 24, 64
    MOST = 10  # where steps vary too much to settle

    def __init__(self, strategy: tf.distribute.Strategy, stage: str, rows: int, shapes: int = 1):
        """`rows`: of a batch; `shapes`: how many different ones there are."""
        chooses = getattr(strategy, "chooses_shares", False)
        self._choice = strategy.share_choice if chooses else None
        self._stage, self._rows, self._replicas = stage, rows, strategy.num_replicas_in_sync
        self.steps = self.STEPS if shapes == 1 else self.STEPS_OF_SHAPES
        self._phase: int | None = None
        self._said = False
        self._since = self._made = 0  # the step at which this trial began, and trials of this phase

    @property
    def state(self) -> dict | None:
        """What a checkpoint keeps, to go on with the same shares."""
        if self._choice is None:
            return None
        return {"phase": self._phase, "choice": json.loads(self._choice.serialize())}

    def restore(self, state: dict | None) -> None:
        """Goes on with the shares of a checkpoint, where they fit; else begins with equal ones."""
        if self._choice is None:
            return
        self._choice.forget()
        rows = ((state or {}).get("choice", {}).get("plan") or {}).get("rows", [])
        if len(rows) == self._replicas and sum(rows) == self._rows:
            self._choice.deserialize(json.dumps(state["choice"]))
            self._phase = state["phase"]
            logging.info("%s: shares of %s rows, as before", self._stage, _words(rows))

    def begin(self, step: int, phase: int, left: int | None) -> None:
        """Before the batches are iterated for the first time; `left`: steps, if that is known."""
        if self._choice is None:
            return
        self._follow(phase)
        self._since = step
        if self._choice.settled:
            return
        logging.info(
            "%s: steps are timed in trials of %d, and after each of them shares may change",
            self._stage,
            self.steps,
        )
        if left is not None and left <= self.steps:
            self._say_too_short(left)

    def _follow(self, phase: int) -> bool:
        """Whether this is another phase than before, whose steps take something else."""
        before, self._phase = self._phase, phase
        if before in (None, phase):
            return False
        self._made = 0
        self._choice.measure_again()
        return True

    def steps_left(self, step: int) -> float:
        """Until this trial ends."""
        return self._since + self.steps - step if self._under_way else float("inf")

    @property
    def _under_way(self) -> bool:
        return self._choice is not None and not self._choice.settled and self._made < self.MOST

    def are_due(self, step: int, phase: int) -> bool:
        """Whether the batches are to be iterated anew now, with what was chosen."""
        if self._choice is None:
            return False
        another = self._follow(phase)
        if not another and self.steps_left(step) > 0:
            return False
        self._since = step
        self._made += not another
        return True

    def end(self, steps: int) -> None:
        """After the last step of a stage of so many: says so if there were too few."""
        if self._choice is not None and self._choice.plan is None and not self._said:
            self._say_too_short(steps)

    def _say_too_short(self, steps: int) -> None:
        self._said = True
        logging.warning(
            "%s: --shares=auto needs more than %d steps to choose, and this stage has %d: its "
            "shares are equal",
            self._stage,
            self.steps,
            steps,
        )

    @property
    def chosen(self) -> dict | None:
        """What a result says: the rows of each replica, and where they are prepared."""
        plan = self._choice and self._choice.plan
        if not plan:
            return None
        return {"rows": list(plan.rows), "each_prepares_its_own": plan.all_prepare}


def _words(rows: list[int]) -> str:
    return ":".join(map(str, rows))
