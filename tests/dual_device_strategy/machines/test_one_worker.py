"""A single worker, in the tests' own process: its devices, its part, its monitor."""

import pytest
import tensorflow as tf

from dual_device_strategy import (
    Monitor,
    MultiWorkerDataModelSplitStrategy,
    data_scope,
    on_data_device,
)


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


def test_an_iterator_in_a_checkpoint_is_refused(strategy, tmp_path):
    iterator = iter(strategy.experimental_distribute_dataset(dataset()))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    with pytest.raises(ValueError, match="the iterator cannot be saved: it has one worker's part"):
        checkpoint.save(str(tmp_path / "there"))
