"""The same training on many machines: the cost of the network, of stragglers and of restarts.

This is arithmetic: nothing here was measured on more than one machine.  These are the assumptions,
each a field of `MachineCosts` or stated where it is used:

* Every machine has a batch of its own, so W machines train W times the rows in a step.
* Gradients are added up in a ring after the step, hidden behind nothing: each machine sends
  2 (W - 1) / W times their bytes, in 2 (W - 1) messages one after the other.
* The time of a machine's step is normal around its mean, independent of the others'; all wait for
  the slowest one.  Preparing varies too, but slots hide that.
* Machines fail independently, at a constant rate; one failure stops all.  The newest checkpoint is
  loaded and what came after it is trained again.
* A data-service worker makes batches as fast as the host of one machine does.

>>> from dual_device_strategy.whatif import layouts
>>> work = Work(host=4, front_end=20, step=60, rows=24, gradient_mb=400)
>>> found = on_machines(work, layouts(work, 2)[0], MachineCosts(network_gbps=100), 64)
>>> round(found.network_ms), round(found.step_ms), f"{found.efficiency:.0%}"
(66, 130, '46%')
"""

import dataclasses
import math

import numpy as np

from dual_device_strategy.whatif.layouts import Layout, Work, need_numbers, ring_ms


@dataclasses.dataclass(frozen=True)
class MachineCosts:
    """What many machines cost: the network between them, and how often they fail.

    Attributes:
      network_gbps: the network of one machine, in gigabits a second.
      latency_us: of one message, in microseconds.
      variation: standard deviation of a machine's step over its mean.
      hours_between_failures: of one machine, on average.
      checkpoint_seconds: how long training stands still to save.
      restart_seconds: from a failure until the first step after it.
      batch_mb: of a machine's batch on its way from a data service.
    """

    network_gbps: float = 100.0
    latency_us: float = 20.0
    variation: float = 0.03
    hours_between_failures: float = 5000.0
    checkpoint_seconds: float = 20.0
    restart_seconds: float = 180.0
    batch_mb: float = 1.6

    def __post_init__(self):
        need_numbers(self, above_zero=["network_gbps", "hours_between_failures"])


@dataclasses.dataclass(frozen=True)
class OnMachines:
    """The time of a step on many machines, and the share of time that is lost.

    Attributes:
      device_ms: the step of one machine alone.
      network_ms: adding up the gradients.
      straggler_ms: waiting for the slowest machine.
      checkpoint_minutes: the interval of checkpoints at which least is lost.
      lost_share: of the time: saving, training again, restarting.
      efficiency: rows in a second over those of as many machines without each other.
      service_workers: the number of data-service workers that the hosts need.
      service_gbps: what all machines together take from the service, in gigabits a second.
    """

    machines: int
    device_ms: float
    network_ms: float
    straggler_ms: float
    checkpoint_minutes: float
    lost_share: float
    service_workers: int
    service_gbps: float

    @property
    def step_ms(self) -> float:
        return self.device_ms + self.network_ms + self.straggler_ms

    @property
    def efficiency(self) -> float:
        return self.device_ms / self.step_ms * (1 - self.lost_share)


def on_machines(work: Work, layout: Layout, cluster: MachineCosts, machines: int) -> OnMachines:
    """`machines` machines, each with this layout and a batch of its own."""
    if machines < 1:
        raise ValueError(f"at least one machine is needed, got machines={machines}")
    # Where the host is the limit, a data service makes what it cannot make in time.
    device_ms = layout.without_host.step_ms
    straggler_ms = cluster.variation * device_ms * expected_largest(machines)
    gradients_ms = network_ms(work.gradient_mb, cluster, machines)
    step_ms = device_ms + gradients_ms + straggler_ms
    minutes, lost = checkpointing(cluster, machines)
    missing = max(0.0, machines * (work.host / step_ms - 1)) if step_ms else 0.0
    return OnMachines(
        machines=machines,
        device_ms=device_ms,
        network_ms=gradients_ms,
        straggler_ms=straggler_ms,
        checkpoint_minutes=minutes,
        lost_share=lost,
        service_workers=math.ceil(missing - 1e-9),
        service_gbps=8 * machines * cluster.batch_mb / step_ms if missing else 0.0,
    )


def network_ms(gradient_mb: float, cluster: MachineCosts, machines: int) -> float:
    """The time to add up gradients over the network."""
    return ring_ms(machines, gradient_mb, cluster.network_gbps / 8, cluster.latency_us)


def expected_largest(count: int) -> float:
    """Of `count` standard normal numbers; 0 for one, 3.2 for a thousand."""
    x = np.arange(-10, 10, 0.005) + 0.0025
    below = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    # Of a variable with distribution P the mean is the integral of 1 - P above 0 less that of P.
    largest = below**count
    return max(0.0, float(0.005 * np.sum(np.where(x >= 0, 1 - largest, -largest))))


def checkpointing(cluster: MachineCosts, machines: int) -> tuple[float, float]:
    """The best interval of checkpoints in minutes, and the share of the time lost at it.

    After t seconds without a failure C seconds save; a failure costs half an interval and the
    restart.  C / t + (t / 2 + R) / M is least at t = sqrt(2 C M), M the time between failures of
    all machines together (Young's formula).
    """
    between = 3600 * cluster.hours_between_failures / machines
    saving = cluster.checkpoint_seconds
    interval = math.sqrt(2 * saving * between)
    again = (interval / 2 + cluster.restart_seconds) / between
    lost = (saving / interval if interval else 0.0) + again
    return interval / 60, min(1.0, lost)


def network_is_the_limit(
    work: Work, layout: Layout, cluster: MachineCosts, most: int = 1 << 16
) -> int | None:
    """The smallest number of machines for which adding up gradients takes longer than a step.

    None if that holds for no number up to `most`.
    """
    low, high = 2, most
    if network_ms(work.gradient_mb, cluster, high) <= layout.step_ms:
        return None
    while low < high:
        middle = (low + high) // 2
        if network_ms(work.gradient_mb, cluster, middle) > layout.step_ms:
            high = middle
        else:
            low = middle + 1
    return low
