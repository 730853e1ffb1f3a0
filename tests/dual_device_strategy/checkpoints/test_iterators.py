"""An iterator of ours in a tf.train.Checkpoint goes on after the last batch that was consumed."""

import time

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, data_scope, on_data_device
from tests.dual_device_strategy.pairs import in_turns, one_pair

pair = one_pair("gpu")
COUNT = 24


def numbers():
    return tf.data.Dataset.range(3 * COUNT)


def records(folder):
    paths = []
    for part in range(3):
        paths.append(str(folder / f"part-{part}"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for number in range(COUNT):
                writer.write(str(100 * part + number).encode())
    return paths


def from_records(folder):
    files = tf.data.Dataset.from_tensor_slices(records(folder))
    lines = files.interleave(
        tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2, deterministic=True
    )
    return lines.map(lambda line: tf.strings.to_number(line, tf.int64)).batch(3)


def of_any_length(number):
    return tf.fill([number % 5 + 1], number)


PIPELINES = {
    "shuffle and repeat": lambda _: numbers().shuffle(20, seed=5).repeat(2).batch(6),
    "shuffle, prefetched": lambda _: numbers().shuffle(20, seed=5).batch(3).prefetch(2),
    "TFRecords, interleaved": from_records,
    "padded_batch": lambda _: numbers().map(of_any_length).padded_batch(3),
    "a parallel map": lambda _: numbers().batch(3).map(lambda x: 2 * x, num_parallel_calls=2),
    "ragged": lambda _: numbers().map(of_any_length).ragged_batch(3),
}


def plain(x):
    return tf.cast(x, tf.float32) + 1.0


def staged(strategy, pipeline, front_end=plain):
    dataset = pipeline.apply(on_data_device(front_end))
    return iter(strategy.experimental_distribute_dataset(dataset))


def values(iterator, count=None):
    taken = []
    for batch in iterator:
        batch = batch.to_tensor() if isinstance(batch, tf.RaggedTensor) else batch
        taken.append(batch.numpy())
        if len(taken) == count:
            break
    return taken


def assert_equal(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@in_turns(["kind"], PIPELINES)
def test_every_batch_comes_once_and_as_in_a_run_that_never_stopped(strategy, tmp_path, kind):
    expected = values(PIPELINES[kind](tmp_path).map(plain))
    iterator = staged(strategy, PIPELINES[kind](tmp_path))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    paths = {0: checkpoint.write(str(tmp_path / "start"))}
    begin = values(iterator, 5)
    paths[5] = checkpoint.write(str(tmp_path / "middle"))
    assert_equal(begin + values(iterator), expected)  # saving changes nothing
    paths[len(expected)] = checkpoint.write(str(tmp_path / "end"))
    restored = staged(strategy, PIPELINES[kind](tmp_path))
    for consumed in (5, 0, len(expected)):
        tf.train.Checkpoint(iterator=restored).read(paths[consumed]).assert_consumed()
        assert_equal(values(restored), expected[consumed:])


def test_an_iterator_goes_back_to_where_it_was_however_often(strategy, tmp_path):
    iterator = staged(strategy, PIPELINES["shuffle and repeat"](None))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    values(iterator, 3)
    first = checkpoint.write(str(tmp_path / "first"))
    expected = values(iterator, 5)
    checkpoint.read(first)
    assert_equal(values(iterator, 1), expected[:1])
    # Batches that were restored, and are on their way again, are saved again.
    second = checkpoint.write(str(tmp_path / "second"))
    assert_equal(values(iterator, 4), expected[1:])
    checkpoint.read(second)
    assert_equal(values(iterator, 4), expected[1:])


def test_the_next_epoch_is_shuffled_as_in_a_run_that_never_stopped(strategy, tmp_path):
    def make():
        dataset = numbers().shuffle(20, seed=5).batch(6).apply(on_data_device(plain))
        return strategy.experimental_distribute_dataset(dataset)

    dataset = make()
    iterator = iter(dataset)
    values(iterator, 4)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    expected = values(iterator) + values(dataset)
    dataset = make()
    iterator = iter(dataset)
    tf.train.Checkpoint(iterator=iterator).read(path)
    assert_equal(values(iterator) + values(dataset), expected)


# One copy at a time, two, and two from the host as well.  Two slots or three make one copy.
@in_turns(
    ["slots", "size"], [(2, 4), (3, 130_000), (4, 4), (5, 130_000), (6, 130_000), ("auto", 130_000)]
)
def test_any_number_of_slots_and_full_slots(pair, tmp_path, slots, size):
    strategy = DataModelSplitStrategy(*pair, slots=slots)

    def make():
        return staged(strategy, tf.data.Dataset.range(20).map(lambda i: tf.fill([size], i)))

    iterator = make()
    assert values(iterator, 2)[1][0] == 2
    time.sleep(0.1)  # now the slots are full
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    restored = make()
    values(restored, 5)
    tf.train.Checkpoint(iterator=restored).read(path)
    assert [batch[0] for batch in values(restored)] == list(range(3, 21))


def test_loops_in_functions_that_take_or_capture_the_iterator(strategy, tmp_path):
    iterator = staged(strategy, numbers().batch(6))
    taken = tf.Variable(tf.zeros([0], tf.float32), shape=[None])

    def two_steps(iterator):
        for _ in tf.range(2):
            taken.assign(tf.concat([taken, next(iterator)], 0))

    def two_optional_steps(iterator):
        for _ in tf.range(2):
            taken.assign(tf.concat([taken, iterator.get_next_as_optional().get_value()], 0))

    loops = [
        tf.function(two_steps),
        tf.function(two_optional_steps),
        lambda iterator: captured(),
    ]
    captured = tf.function(lambda: two_steps(iterator), autograph=True)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    for loop in loops:
        start = checkpoint.write(str(tmp_path / "start"))
        taken.assign(tf.zeros([0]))
        loop(iterator)
        middle = checkpoint.write(str(tmp_path / "middle"))
        loop(iterator)
        expected = taken.numpy()
        checkpoint.read(middle)
        taken.assign(taken[:12])
        loop(iterator)
        np.testing.assert_array_equal(taken, expected)
        checkpoint.read(start)


def with_generator(strategy):
    with strategy.scope(), data_scope():
        generator = tf.random.Generator.from_seed(3)
    front_end = lambda x: plain(x) * generator.uniform([1])  # noqa: E731
    return generator, staged(strategy, numbers().batch(3), front_end)


@pytest.mark.parametrize(  # restored before the iterator, and after it
    ("pair", "name"), [("cpu", "z_generator"), ("gpu", "a_generator")], indirect=["pair"]
)
def test_a_generator_of_the_front_end_goes_on_as_of_the_batch_consumed(strategy, tmp_path, name):
    expected = values(with_generator(strategy)[1])
    for consumed in (0, 4, len(expected) - 1):
        generator, iterator = with_generator(strategy)
        values(iterator, consumed) if consumed else None
        time.sleep(0.05)  # the front end has worked ahead
        both = {"iterator": iterator, name: generator}
        path = tf.train.Checkpoint(**both).write(str(tmp_path / "checkpoint"))
        generator, iterator = with_generator(strategy)
        both = {"iterator": iterator, name: generator}
        tf.train.Checkpoint(**both).read(path).assert_consumed()
        again = tf.train.Checkpoint(**both).write(str(tmp_path / "again"))
        tf.train.Checkpoint(**both).read(again)  # saved before the front end began
        assert_equal(values(iterator), expected[consumed:])


def test_warm_slots_are_restored_too(pair, tmp_path):
    strategy = DataModelSplitStrategy(*pair, warm_up=True)
    expected = values(with_generator(strategy)[1])
    generator, iterator = with_generator(strategy)
    values(iterator, 2)
    path = tf.train.Checkpoint(i=iterator, z=generator).write(str(tmp_path / "checkpoint"))
    generator, iterator = with_generator(strategy)
    tf.train.Checkpoint(i=iterator, z=generator).read(path)
    assert_equal(values(iterator), expected[2:])


def test_distribute_datasets_from_function_and_dictionaries(strategy, tmp_path):
    def make():
        dataset = numbers().batch(4).map(lambda x: {"x": x, "text": tf.strings.as_string(x)})
        return iter(strategy.distribute_datasets_from_function(lambda context: dataset))

    iterator = make()
    for _ in range(3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    restored = make()
    tf.train.Checkpoint(iterator=restored).read(path)
    batch = next(restored)
    assert batch["x"].numpy().tolist() == [12, 13, 14, 15]
    assert batch["text"].numpy().tolist() == [b"12", b"13", b"14", b"15"]


def saved(iterator, tmp_path):
    return tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))


def shuffled(repetitions=1):
    return tf.data.Dataset.range(24).shuffle(24, seed=5).repeat(repetitions).batch(4)


# How many batches are consumed when the host has come to its end, and of how many.
ENDED = {
    "hop": (shuffled, 5, 6),
    "prefetch": (lambda: shuffled().prefetch(20), 1, 6),
    "prefetch behind repeat": (lambda: shuffled(2).prefetch(20), 1, 12),
    "take": (lambda: shuffled(None).take(8).prefetch(20), 2, 8),
}


@in_turns(["ended"], ENDED)
def test_saved_when_the_host_has_ended_the_next_epoch_has_its_order(pair, tmp_path, ended):
    """As a process that was killed and started again sees it; the host is ahead of the loop."""
    make, consumed, count = ENDED[ended]
    strategy = DataModelSplitStrategy(*pair)

    def distributed():
        return strategy.experimental_distribute_dataset(make().apply(on_data_device(plain)))

    never_stopped = distributed()
    expected = values(iter(never_stopped)), values(iter(never_stopped))
    assert len(expected[0]) == count
    assert not np.array_equal(expected[0][0], expected[1][0])
    stopped = distributed()
    iterator = iter(stopped)
    values(iterator, consumed)
    time.sleep(0.1)  # the host makes its last batch and ends
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "saved")
    again = distributed()
    restored = iter(again)
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    for dataset, rest in ((stopped, iterator), (again, restored)):
        assert_equal(values(rest), expected[0][consumed:])
        assert_equal(values(iter(dataset)), expected[1])


def test_a_save_before_a_repetition_leaves_its_order_as_it_is(strategy, tmp_path):
    """A prefetch under the repeat has seen the end, and the next repetition is yet to be drawn."""

    def distributed():
        dataset = shuffled().prefetch(20).repeat(3).apply(on_data_device(plain))
        return strategy.experimental_distribute_dataset(dataset)

    expected = values(distributed())
    iterator = iter(distributed())
    before = values(iterator, 1)
    time.sleep(0.1)
    tf.train.Checkpoint(iterator=iterator).save(tmp_path / "saved")
    assert_equal(before + values(iterator), expected)
