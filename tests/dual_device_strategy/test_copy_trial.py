"""slots="auto": copies from the host ahead of the front end are tried for an epoch."""

import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    copy_trial,
    data_scope,
    on_data_device,
    slot_tuning,
)


def tried(dataset, monkeypatch, batch_ms, epochs):
    """The slots of each epoch, if the data device limits and batches come every `batch_ms`."""
    took = iter(batch_ms)
    monkeypatch.setattr(slot_tuning, "period", lambda *arrived: next(took))
    monkeypatch.setattr(slot_tuning.SlotTuning, "_busy_ms", lambda *times: 19.0)
    monkeypatch.setattr(slot_tuning.SlotTuning, "_times", lambda tuning: ([20.0], [], 0.0))
    found = []
    for _ in range(epochs):
        seen = [float(batch[0]) for batch in dataset]
        assert seen == [i + 1.0 for i in range(len(seen))]
        running = dataset._strategy.extended.running_input
        found.append((len(seen), running.slots, running.copying))
    return found


def megabytes(batches):
    numbers = tf.data.Dataset.range(batches).map(lambda i: tf.fill([250_000], i + 1))
    return numbers.map(lambda x: tf.cast(x, tf.float32)).apply(on_data_device(lambda x: x * 1.0))


@pytest.mark.parametrize(
    ("batch_ms", "slots"),
    [((20, 19, 19), [4, 6, 6, 6]), ((20, 19.5, 20), [4, 6, 4, 4]), ((24, 24), [4, 4, 4])],
    ids=["faster", "not faster", "the data device does not limit"],
)
def test_copies_from_the_host_ahead_are_tried_for_an_epoch(monkeypatch, batch_ms, slots):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots="auto")
    dataset = strategy.experimental_distribute_dataset(megabytes(30))
    found = tried(dataset, monkeypatch, batch_ms, len(slots))
    assert found == [(30, each, 2 if each == 6 else 0) for each in slots]


def test_an_iterator_is_restored_whichever_slots_there_are_then(monkeypatch, tmp_path):
    def distributed():
        strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots="auto")
        with strategy.scope(), data_scope():
            generator = tf.random.Generator.from_seed(3)
        drawing = on_data_device(lambda x: x * 1.0 + generator.uniform([]))
        return strategy.experimental_distribute_dataset(megabytes(30).apply(drawing))

    def numbers(batches):
        return [float(batch[-1]) for batch in batches]

    dataset = distributed()
    monkeypatch.setattr(slot_tuning.SlotTuning, "_times", lambda tuning: ([20.0], [], 0.0))
    monkeypatch.setattr(slot_tuning.SlotTuning, "_busy_ms", lambda *times: 19.0)
    monkeypatch.setattr(slot_tuning, "period", lambda *arrived: 20.0)
    assert len(numbers(dataset)) == 30
    iterator = iter(dataset)
    assert iterator.slots == 6
    numbers(next(iterator) for _ in range(5))
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    expected = numbers(iterator)
    assert len(expected) == 25
    for restored in (iter(dataset), iter(distributed())):
        next(restored)
        tf.train.Checkpoint(iterator=restored).read(path)
        assert restored.slots == 4
        assert numbers(restored) == expected


@pytest.mark.parametrize(
    ("free_mb", "batch_mb", "begins"),
    [(29, 10, False), (30, 10, True), (49, None, False), (50, None, True), (None, 10, True)],
)
def test_they_are_tried_where_the_data_device_has_room(monkeypatch, free_mb, batch_mb, begins):
    free = free_mb and free_mb * 10**6
    monkeypatch.setattr(copy_trial, "free_memory", lambda device: free)
    monkeypatch.setattr(copy_trial, "total_memory", lambda device: 100 * 10**6)
    trial = copy_trial.CopyTrial(["GPU:1"], batch_mb and batch_mb * 10**6, allowed=True)
    trial.consider(busy_ms=20, batch_ms=20)
    assert trial.copying == begins


@pytest.mark.timing
def test_where_copies_from_the_host_and_the_front_end_limit_six_slots_are_chosen(run_python):
    code = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
emulation.start(gpus=2, memory_mb=256, gbps=0.1)
with tf.device("CPU:0"):
    dataset = tf.data.Dataset.from_tensors(tf.ones([250_000])).repeat(40)  # copied in 10 ms
dataset = dataset.apply(on_data_device(lambda x: emulation.timed(x, ms=10)[:10]))
strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots="auto")
distributed = strategy.experimental_distribute_dataset(dataset)
slots = []
while slots[-2:] != [6, 6] and len(slots) < 8:  # another epoch where the machine paused
    for batch in distributed:
        float(strategy.run(tf.reduce_sum, args=(batch,)))
    slots.append(strategy.extended.running_input.slots)
print(slots)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("6, 6]")
