"""Predicts how long a step would take with other settings, devices or machines.

pipeline   `predict`: one pair, simulated batch by batch, for slots, batch sizes, bandwidth, jitter
layouts    `layouts`: which devices of one machine prepare, which train, and with which rows
machines   `on_machines`: up to thousands of machines, on paper
__main__   the command `python -m dual_device_strategy.whatif`
"""

from dual_device_strategy.whatif.layouts import Layout, Work, best_shares, layouts
from dual_device_strategy.whatif.machines import MachineCosts, on_machines
from dual_device_strategy.whatif.pipeline import PARTS, PartTimes, Prediction, predict

__all__ = [
    "PARTS",
    "Layout",
    "MachineCosts",
    "PartTimes",
    "Prediction",
    "Work",
    "best_shares",
    "layouts",
    "on_machines",
    "predict",
]
