"""Something that is done every N steps."""

from collections.abc import Callable


class Periodic:
    """Calls `action` after every `every` steps.

        saving = Periodic(500, save)
        steps = saving.steps_left(step)     # until it is due
        if saving.is_due(step): saving.action()

    `at_least` is how often it happens in a stage that is too short for `every`; it then waits until
    `plan` sets the number of steps. The caller also does it after the last step, so it is not due
    shortly before that.
    """

    def __init__(self, every: int, action: Callable[[], None], *, at_least: int | None = None):
        self.action = action
        self._every, self._at_least = every, at_least
        self._waits_for_plan = at_least is not None
        self._latest = None

    def plan(self, steps: int) -> None:
        """The stage takes that many steps."""
        if self._at_least is not None:
            self._every = max(1, min(self._every, -(-steps // self._at_least)))
            self._waits_for_plan = False
            self._latest = steps - self._every / 2

    def steps_left(self, step: int) -> int:
        """Steps from `step` until it is due again, 1 or more."""
        return self._every - step % self._every

    def is_due(self, step: int) -> bool:
        """Whether it happens after step number `step`."""
        if self._waits_for_plan or step % self._every:
            return False
        return self._latest is None or step <= self._latest
