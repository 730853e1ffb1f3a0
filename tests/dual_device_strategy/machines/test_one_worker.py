"""A single worker, in the tests' own process: its devices, its part, its monitor."""

import pytest
import tensorflow as tf

from dual_device_strategy import (
    Monitor,
    MultiWorkerDataModelSplitStrategy,
    data_scope,
    on_data_device,
)
from dual_device_strategy.checkpoints.saved_iterator import WorkersPlace


@pytest.fixture
def strategy(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return MultiWorkerDataModelSplitStrategy(["CPU:1"], ["GPU:0", "GPU:1"])


def dataset():
    host = tf.data.Dataset.range(22).batch(8)
    return host.apply(on_data_device(lambda x: tf.cast(x, tf.float32) + 0.5))


def rows(batch):
    return [[int(x) for x in piece.numpy()] for piece in batch.values]


def test_a_part_is_prepared_whole_and_cut_for_the_model_devices(strategy):
    assert [name.split("device:")[1] for name in strategy.model_devices] == ["GPU:0", "GPU:1"]
    batches = list(strategy.experimental_distribute_dataset(dataset()))
    assert [rows(batch) for batch in batches] == [
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [[8, 9, 10, 11], [12, 13, 14, 15]],
        [[16, 17, 18], [19, 20, 21]],
    ]
    for piece, device in zip(batches[0].values, strategy.model_devices, strict=True):
        assert piece.device == device


def test_datasets_and_iterators_pass_through_a_function_that_is_traced_once(strategy):
    traces = []

    @tf.function
    def total(distributed):
        traces.append(1)
        sums = 0.0
        for batch in distributed:
            each = strategy.run(tf.reduce_sum, args=(batch,))
            sums += strategy.reduce("SUM", each, axis=None)
        return sums

    distributed = strategy.experimental_distribute_dataset(dataset())
    expected = sum(range(22)) + 11
    assert [float(total(distributed)) for _ in range(2)] == [expected] * 2
    assert [float(total(iter(distributed))) for _ in range(2)] == [expected] * 2
    assert len(traces) == 2


def test_a_variable_of_the_data_scope_is_read_by_the_front_end(strategy):
    with strategy.scope(), data_scope():
        scale = tf.Variable(2.0)
    host = tf.data.Dataset.range(4).batch(4)
    doubled = host.apply(on_data_device(lambda x: scale * tf.cast(x, tf.float32)))
    (batch,) = strategy.experimental_distribute_dataset(doubled)
    assert scale.device.endswith("CPU:1") and rows(batch) == [[0, 2], [4, 6]]


def test_the_monitor_counts_the_batches_of_its_worker(strategy):
    monitor = Monitor(strategy, sample_every=1, first_steps=0)
    distributed = strategy.experimental_distribute_dataset(dataset().repeat(4))
    for _ in monitor.batches(distributed):
        pass
    report = str(monitor.close())
    assert "READY" in report and "too late" not in report, report


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shares": (0.5, 0.5)}, "shares are for the devices of one machine, under MirroredData"),
        ({"slots": "auto"}, "slots must be a whole number of at least 2"),
    ],
)
def test_what_is_of_one_machine_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        MultiWorkerDataModelSplitStrategy(["CPU:1"], ["GPU:0", "GPU:1"], **options)
    assert "\n" not in str(error.value)


def iterator(strategy):
    return iter(strategy.experimental_distribute_dataset(dataset()))


def assert_goes_on_after_the_last_batch(strategy, tmp_path):
    batches = iterator(strategy)
    next(batches)
    path = tf.train.Checkpoint(batches=batches).write(str(tmp_path / "there"))
    expected = [rows(batch) for batch in batches]
    again = iterator(strategy)
    tf.train.Checkpoint(batches=again).read(path).assert_consumed()
    assert [rows(batch) for batch in again] == expected and len(expected) == 2


def test_an_iterator_in_a_checkpoint_goes_on_after_the_last_batch_consumed(strategy, tmp_path):
    assert_goes_on_after_the_last_batch(strategy, tmp_path)


def test_an_iterator_of_another_number_of_workers_is_refused(strategy, tmp_path):
    """Two workers save: this process, and one that is as far."""
    batches = iterator(strategy)
    next(batches)
    place = batches.place
    parts = (place._staging, place._host, place._front_end, place._iterator, place._record)
    batches.place = WorkersPlace(*parts, index=1, count=2, exchange=lambda text: [text, text])
    path = tf.train.Checkpoint(batches=batches).write(str(tmp_path / "of_two"))
    with pytest.raises(ValueError, match=r"is of 2 workers, .* and was not restored on 1; start"):
        tf.train.Checkpoint(batches=iterator(strategy)).read(path)
    expected = [rows(batch) for batch in batches]
    tf.train.Checkpoint(batches=batches).read(path)
    assert [rows(batch) for batch in batches] == expected and len(expected) == 2
    path = tf.train.Checkpoint(batches=iterator(strategy)).write(str(tmp_path / "of_one"))
    with pytest.raises(ValueError, match=r"is of 1 worker, .* and was not restored on 2; start"):
        tf.train.Checkpoint(batches=batches).read(path)


def test_an_iterator_of_several_data_devices_goes_on_after_the_last_batch(tmp_path):
    several = MultiWorkerDataModelSplitStrategy(["CPU:1", "CPU:2"], ["GPU:0", "GPU:1"])
    assert_goes_on_after_the_last_batch(several, tmp_path)
