"""Loops that read their loss on every step, now and then, or at the end of a function."""

import time

import pytest
import tensorflow as tf

from dual_device_strategy import emulation, readings
from dual_device_strategy.readings import Reading, step_times


def counted(read):
    """A loop over numbers, and what it did: "batch" and "step", and "read" for each read loss."""
    done = []

    class Loss:
        def numpy(self):
            read.append(len(done))

    def next_batch():
        done.append("batch")
        return len(done)

    def step(batch):
        done.append("step")
        return Loss()

    return next_batch, step, done


@pytest.mark.parametrize(
    ("reading", "steps", "figures", "every"),
    [
        (Reading.EVERY_STEP, 4, 4, 1),
        (Reading.EVERY_TENTH, 20, 2, 10),
        (Reading.EVERY_TENTH, 3, 1, 10),
    ],
)
def test_a_figure_is_the_mean_of_the_steps_between_two_reads(
    monkeypatch, reading, steps, figures, every
):
    read = []
    next_batch, step, done = counted(read)
    monkeypatch.setattr(readings, "read", lambda loss: loss.numpy())
    assert len(step_times(next_batch, step, steps=steps, reading=reading, warm=5)) == figures
    counts = [count // 2 for count in read]  # steps until each read
    assert counts == [5, *(5 + every * (number + 1) for number in range(figures))]
    assert done == ["batch", "step"] * (5 + every * figures)


def test_steps_in_one_function_take_a_batch_each():
    iterator = iter(tf.data.Dataset.range(100))
    total = tf.Variable(0, dtype=tf.int64)
    times = step_times(
        lambda: next(iterator),
        lambda batch: total.assign_add(batch),
        steps=6,
        reading=Reading.ONE_FUNCTION,
        warm=3,
    )
    assert len(times) == 1 and times[0] > 0
    assert int(total) == sum(range(3 + 6))


def test_the_result_of_each_replica_is_waited_for():
    strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])

    def replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return emulation.timed(tf.ones([]), ms=60.0 * tf.cast(number, tf.float32))

    run = tf.function(lambda: strategy.run(replica))
    readings.read(run())
    begin = time.perf_counter()
    readings.read(run())
    assert time.perf_counter() - begin >= 0.06  # the second one's time


def test_names_of_readings_are_checked():
    both = readings.parsed(["every_tenth", "every_step", "every_tenth"])
    assert both == (Reading.EVERY_TENTH, Reading.EVERY_STEP)
    with pytest.raises(ValueError, match="'often' is not one of every_step, every_tenth"):
        readings.parsed(["often"])
    with pytest.raises(ValueError, match="--reading names nothing"):
        readings.parsed([])
