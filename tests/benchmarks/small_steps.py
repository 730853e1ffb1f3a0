"""The cost of the second copy if it gains nothing: empty and small steps, batches of any size.

    python tests/benchmarks/small_steps.py [--rounds=5] [--kilobytes=1024,4096] [--step_ms=0,1]
        [--slots=3,4]

On the emulated pair with fast links (16 GB/s).  Three slots have one copy at a time, four have two;
six have two from the host as well, five do not.  The two take turns; medians in us a batch, and the
second number of slots over the first (wanted: 1.05 at most, for four over three).
"""

import argparse
import statistics
import time

import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation

SECONDS = 0.5  # of a measurement, about


def loops(slots: int, kilobytes: int, step_ms: float):
    """name -> function that returns the seconds of one step."""
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=slots)
    with tf.device("CPU:0"):
        batch = tf.ones([kilobytes * 256])
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    train = lambda x: emulation.timed(x[:1], ms=step_ms) if step_ms else x[:1]  # noqa: E731
    step = tf.function(train)

    @tf.function
    def whole(iterator, count):
        loss = tf.zeros([1])
        for _ in tf.range(count):
            loss = strategy.run(train, args=(next(iterator),))
        return loss

    def eager(count):
        for _ in range(count):
            loss = strategy.run(step, args=(next(iterator),))
        loss.numpy()

    def in_graph(count):
        with tf.device("GPU:0"):
            whole(iterator, tf.constant(count)).numpy()

    def timed(loop):
        def seconds():
            count = max(20, int(SECONDS / (5e-4 + 1e-3 * step_ms)))
            loop(10)
            begin = time.perf_counter()
            loop(count)
            return (time.perf_counter() - begin) / count

        return seconds

    return {"eager": timed(eager), "in one function": timed(in_graph)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kilobytes", default="1024,4096")
    parser.add_argument("--step_ms", default="0,1")
    parser.add_argument("--slots", default="3,4")
    options = parser.parse_args()
    first, second = map(int, options.slots.split(","))
    emulation.start(gpus=2, memory_mb=1024)
    for kilobytes in map(int, options.kilobytes.split(",")):
        for step_ms in map(float, options.step_ms.split(",")):
            made = {slots: loops(slots, kilobytes, step_ms) for slots in (first, second)}
            for kind in made[first]:
                times = {slots: [] for slots in made}
                for number in range(options.rounds + 1):  # the first one traces
                    for slots, kinds in made.items():
                        seconds = kinds[kind]()
                        if number:
                            times[slots].append(1e6 * seconds)
                before, after = (statistics.median(times[slots]) for slots in (first, second))
                print(
                    f"{kilobytes} KB, step {step_ms} ms, {kind}: {first} slots "
                    f"{before:.0f}, {second} {after:.0f} us ({after / before:.3f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
