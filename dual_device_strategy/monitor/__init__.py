"""Watches a training run: step times, waiting, slots, devices and memory.

monitor          `Monitor`; it uses the other modules
keras_callback   the same for `model.fit`
step_times       figures about steps
arrivals         how many batches are READY
memory           memory that grows
diagnosis        what keeps training waiting, and the setting that helps
run_log          the files of a run, and reading them
report           the figures in words
"""

from dual_device_strategy.monitor.monitor import Monitor
from dual_device_strategy.monitor.run_log import LogError, RunLog, read

__all__ = ["LogError", "Monitor", "RunLog", "read"]
