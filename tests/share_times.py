"""Steps that take the times of given costs for `shares="auto"`, and not those that they take."""

from dual_device_strategy.replicas import share_tuning
from dual_device_strategy.replicas.front_end_alone import FrontEndAlone
from dual_device_strategy.replicas.plans import Costs, Plan, Roles, step_ms

ROLES = Roles(("1",), ("2", "1"))  # the second model device prepares as well


def pretend(
    monkeypatch, costs: Costs, *, disturbed: int | None = None, least: int = 2
) -> list[Plan]:
    """The plans that are measured from now on; measurement `disturbed` is three times as long."""
    measured = []
    learn = share_tuning.ShareTuning.learn

    def learned(self, _, count):
        measured.append(self.plan)
        longer = 3 if len(measured) == disturbed else 1
        learn(self, longer * step_ms(ROLES, costs, self.plan), count)

    monkeypatch.setattr(share_tuning.ShareTuning, "learn", learned)
    monkeypatch.setattr(share_tuning, "LEAST", least)
    monkeypatch.setattr(share_tuning, "period", lambda times, turns: 1.0)
    monkeypatch.setattr(FrontEndAlone, "milliseconds", lambda self: costs.front_end)
    return measured


def only_whole_batches(monkeypatch) -> None:
    """No device prepares its own rows, as if parts of a batch made something else."""
    monkeypatch.setattr(FrontEndAlone, "of_pieces", lambda self, functions, edges: None)
