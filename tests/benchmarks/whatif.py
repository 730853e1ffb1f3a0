"""What-if against emulated GPUs: predicted and measured time of a step.

    python tests/benchmarks/whatif.py [ROUNDS] [STEPS]       slots and batch sizes of a pair
    python tests/benchmarks/whatif.py devices [STEPS]        two to four devices, and their shares

For a pair each part's time is measured alone in the same run (dual_device_strategy.profile), from
these the step is predicted, in loops that read on every step and on every tenth, and the staged
runs are measured.  Rounds over all configurations alternate; the medians are compared.  Links of
4 GB/s make transfers long enough to matter.

With `devices` the front end and the step of 24 rows take as long as given, and each launch some
more.  What a loop needs beside its step is measured as well, with as many replicas and a step of
20 ms, in both kinds of loops; the rest is predicted.  All take turns in each round; the shortest
mean of a round counts, as disturbances only add time.
"""

import dataclasses
import statistics
import sys

import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    emulation,
    on_data_device,
)
from dual_device_strategy.profile.measuring import Measured, measure
from dual_device_strategy.readings import Reading
from dual_device_strategy.whatif import PARTS, PartTimes, Work, layouts, predict

TENTH = Reading.EVERY_TENTH


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
            measure(strategy, dataset, step, repeats=steps, into=into)
            measured[case].append(into)
    errors = {1: [], 10: []}
    for case, results in measured.items():
        alone = {
            name: statistics.median(t for into in results for t in into.parts[name])
            for name in PARTS
        }
        gap = statistics.median(into.gap_ms for into in results)
        parts = ", ".join(f"{name} {ms:.1f}" for name, ms in alone.items())
        print(f"{case}: {parts}, gap {gap:.1f}")
        for every, of_loop in ((1, lambda into: into.steps), (10, lambda into: into.others[TENTH])):
            took = statistics.median(t for into in results for t in of_loop(into))
            times = PartTimes(**alone, gap=gap)
            predicted = predict(times, slots=case.slots, reads_every=every).step_ms
            errors[every].append(abs(predicted / took - 1))
            print(
                f"  read every {every}: predicted {predicted:.2f}, measured {took:.2f} ms "
                f"({predicted / took - 1:+.1%})",
                flush=True,
            )
    for every, of_loop in errors.items():
        within = sum(error <= 0.05 for error in of_loop)
        print(f"read every {every}: largest error {max(of_loop):.1%}, {within} within 5 %")


ROUNDS_OF_DEVICES = 3
# Devices, front end, step, fixed cost of each, and the layout (as `layouts` begins its name).
ON_DEVICES = [
    (2, 4, 80, 0, "1 prepares, 1 trains"),
    (2, 4, 80, 0, "1 prepares, 2 train"),
    (2, 4, 80, 0, "2 do both"),
    (2, 20, 60, 5, "1 prepares, 2 train"),
    (2, 20, 60, 5, "2 do both"),
    (3, 40, 90, 5, "1 prepares, 2 train"),
    (3, 20, 90, 5, "1 prepares, 3 train"),
    (4, 80, 90, 0, "2 prepare, 2 train"),
    (4, 20, 120, 5, "1 prepares, 4 train"),
    (4, 30, 90, 5, "4 do both"),
]


def on_devices(steps: int) -> None:
    from scale import ROWS, batches, made_step, timed, timed_steps

    emulation.start(gpus=4, gbps=12)
    sides = {}

    def add(name, strategy, dataset, step, fixed):
        function = made_step(strategy, step, fixed=fixed)
        iterator = iter(strategy.experimental_distribute_dataset(dataset))
        sides[name] = function, iterator, {True: [], False: []}

    def mirrored(devices):
        return tf.distribute.MirroredStrategy([f"GPU:{i}" for i in range(devices)])

    for replicas in (1, 2, 3, 4):
        add(replicas, mirrored(replicas), batches(), 0.0, 20)
    chosen = {}
    for case in ON_DEVICES:
        devices, front, step, fixed, name = case
        work = Work(
            front_end=front, step=step, front_end_fixed=fixed, step_fixed=fixed, rows=ROWS
        )
        layout = next(f for f in layouts(work, devices) if f.name.startswith(name))
        chosen[case] = layout
        if not layout.preparing:
            add(case, mirrored(devices), batches(), front + step, 2 * fixed)
            continue
        data = [f"GPU:{devices - 1 - i}" for i in range(layout.preparing)]
        strategy = MirroredDataModelSplitStrategy(
            data,
            [f"GPU:{i}" for i in range(len(layout.rows))],
            shares=layout.shares if layout.shared else None,
        )
        dataset = batches().apply(
            on_data_device(lambda x, front=front, fixed=fixed: timed(x, front, fixed))
        )
        add(case, strategy, dataset, step, fixed)
    for _ in range(ROUNDS_OF_DEVICES):
        for function, iterator, times in sides.values():
            for read, of_loop in times.items():
                timed_steps(function, iterator, 6, read=True)
                of_loop.append(timed_steps(function, iterator, steps, read=read))
    gaps = {
        replicas: [max(0.0, min(times) - 20) for times in sides[replicas][2].values()]
        for replicas in (1, 2, 3, 4)
    }
    for replicas, (each, ahead) in gaps.items():
        print(f"gap with {replicas} replicas: {each:.1f} ms, {ahead:.1f} where it runs ahead")
    errors = []
    for case, layout in chosen.items():
        gap, gap_ahead = gaps[len(layout.rows)]
        layout = dataclasses.replace(layout, gap=gap, gap_ahead=gap_ahead)
        devices, front, step, fixed, _ = case
        for read, times in sides[case][2].items():
            predicted, took = layout.step_ms if read else layout.ahead_ms, min(times)
            errors.append(predicted / took - 1)
            print(
                f"{devices} devices, F={front} S={step} fixed {fixed}, {layout.name}, "
                f"{'read on every step' if read else 'read at the end'}: predicted "
                f"{predicted:.1f}, measured {took:.1f} ms ({errors[-1]:+.1%})",
                flush=True,
            )
    print(f"largest error {max(map(abs, errors)):.1%}, {sum(abs(e) <= 0.06 for e in errors)} of "
          f"{len(errors)} within 6 %")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["devices"]:
        on_devices(int(sys.argv[2]) if len(sys.argv) > 2 else 30)
    else:
        main(
            int(sys.argv[1]) if len(sys.argv) > 1 else 3,
            int(sys.argv[2]) if len(sys.argv) > 2 else 30,
        )
