"""What-if against the emulated pair: predicted and measured time of a step.

    python tests/benchmarks/whatif.py [ROUNDS] [STEPS]

Each part's time is measured alone in the same run (dual_device_strategy.profile), from these the
step is predicted, and the staged run is measured.  Rounds over all configurations alternate; the
medians are compared.  Links of 4 GB/s make transfers long enough to matter.
"""

import dataclasses
import statistics
import sys

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.profile.measuring import Measured, measure
from dual_device_strategy.whatif import PARTS, PartTimes, predict


@dataclasses.dataclass(frozen=True)
class Case:
    host: float
    front_end: float
    step: float
    megabytes: float = 2.5
    slots: int = 3


CASES = [
    Case(0, 10, 20),
    Case(10, 20, 20),
    Case(20, 20, 20),
    Case(5, 30, 20),
    Case(30, 5, 10),
    Case(5, 10, 20, slots=2),
    Case(0, 10, 15, megabytes=10),
    Case(0, 10, 15, megabytes=10, slots=2),
    Case(20, 5, 15, megabytes=10),
    Case(5, 20, 15, slots=6),
]


def pieces(case):
    with tf.device("CPU:0"):
        example = tf.ones([int(case.megabytes * 250_000)])
    dataset = tf.data.Dataset.from_tensors(example).repeat()
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    if case.host:
        dataset = dataset.map(lambda x: emulation.timed(x, ms=case.host)).with_options(options)
    dataset = dataset.apply(on_data_device(lambda x: emulation.timed(x, ms=case.front_end)))
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots=case.slots)
    return strategy, dataset, tf.function(lambda x: emulation.timed(x, ms=case.step)[0])


def main(rounds: int, steps: int) -> None:
    emulation.start(gpus=2, memory_mb=1024, gbps=4)
    made = {case: pieces(case) for case in CASES}
    measured = {case: [] for case in CASES}
    for _ in range(rounds):
        for case, (strategy, dataset, step) in made.items():
            into = Measured()
            measure(strategy, dataset, step, steps, into)
            measured[case].append(into)
    errors = []
    for case, results in measured.items():
        alone = {
            name: statistics.median(t for into in results for t in into.parts[name])
            for name in PARTS
        }
        gap = statistics.median(into.gap_ms for into in results)
        took = statistics.median(t for into in results for t in into.steps)
        predicted = predict(PartTimes(**alone, gap=gap), slots=case.slots).step_ms
        errors.append(abs(predicted / took - 1))
        parts = ", ".join(f"{name} {ms:.1f}" for name, ms in alone.items())
        print(
            f"{case}: {parts}, gap {gap:.1f}; predicted {predicted:.2f}, measured {took:.2f} ms "
            f"({predicted / took - 1:+.1%})",
            flush=True,
        )
    print(f"largest error {max(errors):.1%}, {sum(e <= 0.05 for e in errors)} within 5 %")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 3, int(sys.argv[2]) if len(sys.argv) > 2 else 30
    )
