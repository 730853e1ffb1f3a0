"""Steps per second with an empty step: the cost of the slots by themselves.

    python tests/benchmarks/empty_step.py [ROUNDS] [--gpu]

On logical CPUs, with --gpu on the emulated pair: the split strategy, OneDeviceStrategy and
MirroredStrategy on the same model device with the same batches, in an eager loop and in a loop
inside a tf.function.  Rounds alternate; medians are printed, and in brackets how often a step made
some thread wait (voluntary context switches of the process): what the three hops of a batch cost.
"""

import resource
import statistics
import sys
import time

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation

EAGER_STEPS, GRAPH_STEPS = 500, 2000


def loops(strategy):
    """name -> function that runs the loop once; it returns microseconds and waits a step."""
    with tf.device("CPU:0"):
        batch = (tf.ones([8, 8]), tf.ones([8], tf.int64))
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    step = tf.function(lambda batch: batch[0][0, 0])

    @tf.function
    def in_graph(iterator, count):
        total = 0.0
        for _ in tf.range(count):
            loss = strategy.run(lambda batch: batch[0][0, 0], args=(next(iterator),))
            total += strategy.reduce("SUM", loss, axis=None)
        return total

    def eager():
        for _ in range(EAGER_STEPS):
            strategy.run(step, args=(next(iterator),))
        return EAGER_STEPS

    def graph():
        in_graph(iterator, tf.constant(GRAPH_STEPS)).numpy()
        return GRAPH_STEPS

    def waits():
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    def timed(loop):
        before, start = waits(), time.perf_counter()
        count = loop()
        return 1e6 * (time.perf_counter() - start) / count, (waits() - before) / count

    return {"eager loop": lambda: timed(eager), "in-graph loop": lambda: timed(graph)}


def main(rounds: int, gpu: bool) -> None:
    if gpu:
        emulation.start(gpus=2, memory_mb=512)
        data, model = "GPU:0", "GPU:1"
    else:
        cpu = tf.config.list_physical_devices("CPU")[0]
        three = [tf.config.LogicalDeviceConfiguration()] * 3
        tf.config.set_logical_device_configuration(cpu, three)
        data, model = "CPU:1", "CPU:2"
    contenders = {
        "split": loops(DataModelSplitStrategy(data, model)),
        "OneDevice": loops(tf.distribute.OneDeviceStrategy(model)),
        "Mirrored": loops(tf.distribute.MirroredStrategy([model])),
    }
    for kind in ("eager loop", "in-graph loop"):
        times, waits = ({name: [] for name in contenders} for _ in range(2))
        for made in contenders.values():
            made[kind]()
        for _ in range(rounds):
            for name, made in contenders.items():
                us, waited = made[kind]()
                times[name].append(us)
                waits[name].append(waited)
        median = {name: statistics.median(values) for name, values in times.items()}
        ratio = statistics.median(
            one / ours for one, ours in zip(times["OneDevice"], times["split"], strict=True)
        )
        print(
            f"{kind}: "
            + ", ".join(
                f"{name} {us:.0f} us ({statistics.median(waits[name]):.1f} waits)"
                for name, us in median.items()
            )
            + f"; steps/s of split / OneDevice {ratio:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    counts = [int(a) for a in sys.argv[1:] if not a.startswith("-")]
    main(counts[0] if counts else 11, "--gpu" in sys.argv)
