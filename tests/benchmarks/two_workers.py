"""python tests/benchmarks/two_workers.py

Times steps of two workers on this machine, each with two emulated GPUs, connected by gRPC over
loopback: medians of the first worker, in milliseconds, beside the slowest part.  "devices" is ours
with every all-reduce from device to device.  "apart" is ours with nothing added up, neither
gradients nor the loss, which shows how much of a step is not communication.  "theirs" is
TensorFlow's MultiWorkerMirroredStrategy with the front end in a host `map`.
"""

import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# front end and step in milliseconds
OURS, BOTH = ((60, 90), (60, 120)), ((10, 20),)
STEPS, SKIPPED, ROWS, COLUMNS = 50, 15, 8, 33 * 1024


def main() -> None:
    print("strategy  front end  step  data      a step  / slowest part")
    for kind in ("ours", "devices", "apart", "theirs"):
        launched = [
            sys.executable,
            *("-m", "dual_device_strategy.launch", "--workers=2", "--", __file__, kind),
        ]
        done = subprocess.run(launched, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        for line in done.stdout.splitlines():
            if line.startswith("[0] "):
                print(line[4:])


def worker(kind: str) -> None:
    import tensorflow as tf

    from dual_device_strategy import MultiWorkerDataModelSplitStrategy, emulation, on_data_device
    from dual_device_strategy.machines import extended

    ours = kind != "theirs"
    if kind == "devices":
        extended.REDUCED_ON_HOSTS = 0
    emulation.start(gpus=2 if ours else 1, gbps=12)
    if ours:
        strategy = MultiWorkerDataModelSplitStrategy(["GPU:1"], ["GPU:0"])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def dataset(front, finite):
        batch = ROWS * strategy.num_replicas_in_sync
        base = tf.data.Dataset.from_tensors(tf.zeros([COLUMNS])).repeat(batch).batch(batch)
        base = base.cache().repeat(STEPS + 20 if finite else None)

        def front_end(x):
            return emulation.timed(x, float(front))

        return base.apply(on_data_device(front_end)) if ours else base.map(front_end)

    def step_times(front, step_ms, finite):
        with strategy.scope():
            weight = tf.Variable(tf.zeros([COLUMNS, 4]))

        def replica_step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ weight)
            gradient = emulation.timed(tape.gradient(loss, weight), float(step_ms))
            if kind != "apart":
                gradient = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
            weight.assign_sub(0.1 * gradient)
            return loss

        @tf.function
        def step(batch):
            loss = strategy.run(replica_step, args=(batch,))
            return loss if kind == "apart" else strategy.reduce("SUM", loss, axis=None)

        ends = []
        batches = iter(strategy.experimental_distribute_dataset(dataset(front, finite)))
        for _ in range(STEPS):
            float(step(next(batches)))
            ends.append(time.perf_counter())
        return [1e3 * (b - a) for a, b in zip(ends[SKIPPED:], ends[SKIPPED + 1 :], strict=False)]

    for front, step_ms in (*OURS, *BOTH) if ours else BOTH:
        for finite in (False, True):
            ms = statistics.median(step_times(front, step_ms, finite))
            data = "finite" if finite else "endless"
            ratio = ms / max(front, step_ms)
            print(f"{kind:8}  {front:9}  {step_ms:4}  {data:8}  {ms:6.1f}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    worker(sys.argv[1]) if len(sys.argv) > 1 else main()
