"""The cost of the monitor in a step of 5 ms, on the emulated pair.

    python tests/benchmarks/monitor_cost.py [ROUNDS] [STEPS]

The same loop with a monitor (JSON-lines and TensorBoard files, devices sampled, batches counted)
and without one; rounds alternate.  The step takes 5 ms, the front end 2, the loss is read on every
step.  Also the time that the monitor's own code takes per step, in a loop over nothing.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, Monitor, emulation, on_data_device

STEP_MS = 5
WARM = 10


def main(rounds: int, steps: int) -> None:
    emulation.start(gpus=2, memory_mb=1024)
    with tf.device("CPU:0"):
        example = tf.ones([100_000])
    dataset = tf.data.Dataset.from_tensors(example).repeat(steps + WARM)
    dataset = dataset.apply(on_data_device(lambda x: emulation.timed(x, ms=2)))
    files = Path(tempfile.mkdtemp())

    def contender(monitored):
        strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
        monitor = None
        if monitored:
            monitor = Monitor(strategy, json_file=files / "run.jsonl", log_dir=files / "logs")
        distributed = strategy.experimental_distribute_dataset(dataset)
        step = tf.function(
            lambda batch: strategy.run(lambda x: emulation.timed(x, ms=STEP_MS)[0], args=(batch,))
        )

        def epoch():
            times, before = [], 0.0
            for batch in monitor.batches(distributed) if monitor else distributed:
                step(batch).numpy()
                now = time.perf_counter()
                times.append(1e3 * (now - before))
                before = now
            return times[WARM:]

        return epoch

    epochs = {"without": contender(False), "with": contender(True)}
    medians, means = {name: [] for name in epochs}, {name: [] for name in epochs}
    for _ in range(rounds):
        for name, epoch in epochs.items():
            times = epoch()
            medians[name].append(statistics.median(times))
            means[name].append(statistics.fmean(times))
    for title, values in (("median", medians), ("mean", means)):
        pairs = zip(values["with"], values["without"], strict=True)
        cost = statistics.median(1e3 * (a - b) for a, b in pairs)
        print(
            f"{title} step: without {statistics.median(values['without']):.3f} ms, with "
            f"{statistics.median(values['with']):.3f} ms; difference {cost:.0f} us, "
            f"{cost / (10 * STEP_MS):.2f} % of {STEP_MS} ms"
        )

    own = []
    for _ in range(5):
        monitor = Monitor(tf.distribute.OneDeviceStrategy("GPU:1"))
        begin = time.perf_counter()
        for _ in monitor.batches(range(20_000)):
            pass
        own.append((time.perf_counter() - begin) / 20_000 * 1e6)
        monitor.close()
    print(f"the monitor's own code: {statistics.median(own):.1f} us a step")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 40,
        int(sys.argv[2]) if len(sys.argv) > 2 else 80,
    )
