"""Iterators over batches for several replicas, in a tf.train.Checkpoint and in a `fit`'s backup."""

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy, data_scope, on_data_device
from dual_device_strategy.checkpoints.host_record import HostRecord
from tests.dual_device_strategy.checkpoints.test_mid_epoch_backup import Killed, run

DEVICES = {
    "cpu": (["CPU:1"], ["CPU:2", "CPU:3"]),
    "gpu": (["GPU:1"], ["GPU:0", "GPU:1"]),
    "two data devices": (["CPU:1", "CPU:2"], ["CPU:3", "CPU:4"]),
}


def source():
    return tf.data.Dataset.range(118).shuffle(20, seed=5).batch(6)


def made(kind, front_end=None, **settings):
    """A strategy, an iterator over 20 batches of up to 6 rows, and a count in its front end, of
    which each data device has its own."""
    strategy = MirroredDataModelSplitStrategy(*DEVICES[kind], **settings)
    with strategy.scope(), data_scope():
        count = tf.Variable(0.0)
    counted = lambda x: tf.cast(x, tf.float32) + 1000 * count.assign_add(1)  # noqa: E731
    dataset = source().apply(on_data_device(front_end or counted))
    return strategy, iter(strategy.experimental_distribute_dataset(dataset)), count


def rows(strategy, iterator, count=None):
    taken = []
    while len(taken) != count and (batch := next(iterator, None)) is not None:
        pieces = strategy.experimental_local_results(batch)
        taken.append([piece.numpy().tolist() for piece in pieces])
    return taken


@pytest.mark.parametrize("kind", DEVICES)
def test_an_iterator_goes_on_after_the_last_batch_that_was_consumed(kind, tmp_path):
    shares = {"shares": (0.7, 0.3)} if kind == "gpu" else {}
    strategy, iterator, count = made(kind, **shares)
    checkpoint = tf.train.Checkpoint(iterator=iterator, count=count)
    paths, expected = {}, []
    for consumed in range(0, 20, 7):
        paths[consumed] = checkpoint.write(str(tmp_path / str(consumed)))
        expected += rows(strategy, iterator, 7)
    counts = [batch[0][0] // 1000 for batch in expected]
    assert counts == [1 + i // len(DEVICES[kind][0]) for i in range(20)]
    assert [[x % 1000 for piece in batch for x in piece] for batch in expected] == [
        batch.numpy().tolist() for batch in source()
    ]  # saving changes nothing
    strategy, iterator, count = made(kind, **shares)
    for consumed in (7, 0, 14):
        checkpoint = tf.train.Checkpoint(iterator=iterator, count=count)
        checkpoint.read(paths[consumed]).assert_consumed()
        assert rows(strategy, iterator) == expected[consumed:]


def test_batches_that_are_begun_during_a_save_change_nothing(tmp_path, monkeypatch):
    """The host's part is saved first, then the front end's; here a batch is taken in between."""
    strategy, iterator, count = made("cpu")
    host_state = HostRecord.state_after

    def and_begin(record, consumed):
        state = host_state(record, consumed)
        assert not state.in_flight
        next(iterator)
        return state

    with monkeypatch.context() as patch:
        patch.setattr(HostRecord, "state_after", and_begin)
        checkpoint = tf.train.Checkpoint(iterator=iterator, count=count)
        path = checkpoint.write(str(tmp_path / "checkpoint"))
    assert count.numpy() >= 1
    strategy, iterator, count = made("cpu")
    tf.train.Checkpoint(iterator=iterator, count=count).read(path)
    (first,) = rows(strategy, iterator, 1)
    assert {x // 1000 for piece in first for x in piece} == {1}


def test_loops_in_functions_count_what_they_take(tmp_path):
    strategy, iterator, _ = made("cpu", front_end=lambda x: x)
    total = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def steps(iterator):
        for _ in tf.range(2):
            pieces = strategy.run(tf.reduce_sum, (next(iterator),))
            total.assign_add(strategy.reduce("SUM", pieces, axis=None))
        optional = iterator.get_next_as_optional()
        pieces = strategy.run(tf.reduce_sum, (optional.get_value(),))
        total.assign_add(strategy.reduce("SUM", pieces, axis=None))

    checkpoint = tf.train.Checkpoint(iterator=iterator)
    steps(iterator)
    path = checkpoint.write(str(tmp_path / "checkpoint"))
    rest = rows(strategy, iterator)
    assert len(rest) == 17
    assert int(total) + sum(np.sum(piece) for batch in rest for piece in batch) == 117 * 118 / 2
    checkpoint.read(path)
    assert rows(strategy, iterator) == rest


@pytest.mark.parametrize("allowed", [False, True])
def test_a_variable_that_several_data_devices_write_to_is_refused_unless_allowed(allowed, tmp_path):
    strategy = MirroredDataModelSplitStrategy(["CPU:1", "CPU:2"], ["CPU:3"])
    with tf.device("CPU:0"):
        count = tf.Variable(0, dtype=tf.int64)
    dataset = tf.data.Dataset.range(8).batch(2)
    options = tf.data.Options()
    policies = tf.data.experimental.ExternalStatePolicy
    options.experimental_external_state_policy = policies.IGNORE if allowed else policies.FAIL
    dataset = dataset.with_options(options)
    counted = dataset.apply(on_data_device(lambda x: (x, count.assign_add(1))))
    iterator = iter(strategy.experimental_distribute_dataset(counted))
    next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    if not allowed:
        with pytest.raises(ValueError, match=r"several data devices share; make it in data_scope"):
            checkpoint.write(str(tmp_path / "checkpoint"))
        return
    path = checkpoint.write(str(tmp_path / "checkpoint"))
    rest = [x.numpy().tolist() for x, _ in iterator]
    checkpoint.read(path)
    assert [x.numpy().tolist() for x, _ in iterator] == rest == [[2, 3], [4, 5], [6, 7]]


def test_counts_go_on_in_the_next_epoch_where_a_data_device_had_no_batch_left(tmp_path):
    def epochs():
        strategy = MirroredDataModelSplitStrategy(["CPU:1", "CPU:2"], ["CPU:3"])
        with strategy.scope(), data_scope():
            count = tf.Variable(0, dtype=tf.int64)
        dataset = tf.data.Dataset.range(3).batch(1)
        dataset = dataset.apply(on_data_device(lambda x: x + 10 * count.assign_add(1)))
        return count, strategy.experimental_distribute_dataset(dataset)

    count, distributed = epochs()
    iterator = iter(distributed)
    assert [int(x[0]) for x in iterator] == [10, 11, 22]
    path = tf.train.Checkpoint(it=iterator, count=count).write(str(tmp_path / "checkpoint"))
    assert [int(x[0]) for x in distributed] == [30, 21, 42]
    count, distributed = epochs()
    iterator = iter(distributed)
    tf.train.Checkpoint(it=iterator, count=count).read(path)
    assert not list(iterator)
    assert [int(x[0]) for x in distributed] == [30, 21, 42]


def test_counts_of_another_number_of_data_devices_are_refused(tmp_path):
    _, iterator, _ = made("two data devices")
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "of_two"))
    _, iterator, _ = made("cpu")
    with pytest.raises(ValueError, match=r"has 2 values of .* and here are 1, so .* as many data"):
        tf.train.Checkpoint(iterator=iterator).read(path)


def test_counts_of_several_data_devices_are_not_saved_after_an_error_of_the_host(tmp_path):
    strategy = MirroredDataModelSplitStrategy(["CPU:1", "CPU:2"], ["CPU:3"])
    with strategy.scope(), data_scope():
        count = tf.Variable(0, dtype=tf.int64)
    figures = tf.range(10, dtype=tf.int64)
    dataset = tf.data.Dataset.range(10).batch(1)
    dataset = dataset.map(lambda x: tf.gather(figures, x + 10 * tf.cast(x == 2, tf.int64)))
    dataset = dataset.apply(on_data_device(lambda x: x + count.assign_add(1)))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    next(iterator)
    next(iterator)
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    with pytest.raises(ValueError, match="a batch failed on the host, and since then it is not"):
        checkpoint.write(str(tmp_path / "checkpoint"))


@pytest.mark.parametrize("error_at", [2, 5])
def test_with_several_data_devices_an_error_of_the_host_shifts_no_batch(error_at, tmp_path):
    """Batches that are saved before it, and those that come after it."""
    strategy = MirroredDataModelSplitStrategy(["CPU:1", "CPU:2"], ["CPU:3"])
    figures = tf.range(10.0)
    dataset = tf.data.Dataset.range(10).batch(1)
    dataset = dataset.map(lambda x: tf.gather(figures, x + 10 * tf.cast(x == error_at, tf.int64)))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    seen = []
    while len(seen) < 10:
        try:
            seen.append(float(next(iterator)[0]))
        except tf.errors.InvalidArgumentError:
            seen.append(None)
        if len(seen) == error_at + 1:
            path = checkpoint.write(str(tmp_path / "checkpoint"))
    assert seen == [None if x == error_at else x for x in range(10)]
    checkpoint.read(path)
    assert [float(x[0]) for x in iterator] == seen[error_at + 1 :]


@pytest.mark.slow
def test_a_fit_that_was_killed_goes_on_with_the_same_losses(tmp_path):
    """With two data devices; with shares: test_killed."""

    def strategy():
        return MirroredDataModelSplitStrategy(["CPU:1", "CPU:3"], ["CPU:2", "CPU:4"])

    settings = {"noise": 0, "save_freq": 4}
    expected = run(strategy, None, **settings)
    with pytest.raises(Killed):
        run(strategy, tmp_path / "backup", kill_after=14, **settings)
    after = run(strategy, tmp_path / "backup", **settings)
    for place, figures in after.items():  # sums of replicas differ in the last digit
        np.testing.assert_allclose(figures, expected[place], rtol=1e-6)
    assert len(after) < len(expected) * 0.7
