"""Copies from the host ahead of the front end: from six slots on, for large batches on a GPU."""

import gc
import time

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    data_scope,
    emulation,
    on_data_device,
)
from tests.dual_device_strategy.tensors import live, of_every_type
from tests.waiting import at_rest, wait_until

MB = 1_000_000
DATA, MODEL = "GPU:1", "GPU:0"


def distributed(dataset, slots, **settings):
    strategy = DataModelSplitStrategy(DATA, MODEL, slots=slots, **settings)
    return strategy.experimental_distribute_dataset(dataset)


@pytest.mark.parametrize(
    ("slots", "copying", "ready"), [(2, 0, 0), (4, 0, 2), (5, 0, 3), (6, 2, 2), (8, 2, 4)]
)
def test_two_slots_are_for_copies_from_the_host_from_six_on(slots, copying, ready):
    dataset = distributed(tf.data.Dataset.from_tensors(tf.ones([MB // 4])), slots)
    assert (dataset._staging.copying, dataset._staging.ready_slots) == (copying, ready)
    assert iter(dataset).slots == slots
    assert dataset._strategy.extended.running_input.copying == copying


LARGE = tf.TensorSpec([MB // 4])


@pytest.mark.parametrize(
    ("devices", "slots", "spec", "options"),
    [
        ((DATA, MODEL), 6, tf.TensorSpec([MB // 4 - 1]), None),
        ((DATA, MODEL), 6, tf.RaggedTensorSpec([None, None]), None),
        ((DATA, MODEL), "auto", LARGE, None),
        (
            (DATA, MODEL),
            6,
            LARGE,
            tf.distribute.InputOptions(True, experimental_per_replica_buffer_size=4),
        ),
        (("CPU:1", "CPU:2"), 6, LARGE, None),
        (("CPU:0", MODEL), 6, LARGE, None),
    ],
    ids=["small", "ragged", "auto", "slots of the dataset", "CPUs", "the host"],
)
def test_all_others_are_copied_in_the_slot_that_prepares_them(devices, slots, spec, options):
    strategy = DataModelSplitStrategy(*devices, slots=slots)
    empty = tf.data.Dataset.from_generator(lambda: [], output_signature=spec)
    dataset = strategy.experimental_distribute_dataset(empty, options)
    assert dataset._staging.copying == 0
    assert dataset._staging.ready_slots == (2 if slots == "auto" else 4)


@pytest.mark.parametrize(("slots", "on_data", "on_model"), [(5, 1, 4), (6, 3, 3), (7, 3, 4)])
def test_batches_at_rest_are_as_many_on_each_device_as_the_slots_say(slots, on_data, on_model):
    numbers = tf.data.Dataset.range(20).map(lambda i: tf.fill([MB // 4], tf.cast(i, tf.float32)))
    dataset = distributed(numbers.apply(on_data_device(lambda x: x + 1.0)), slots)
    gc.collect()
    before = at_rest(lambda: [live(device) for device in (DATA, MODEL)])
    iterator = iter(dataset)

    def held():
        return [(live(d) - then) / MB for d, then in zip((DATA, MODEL), before, strict=True)]

    for number in range(3):
        batch = next(iterator)
        assert float(batch[0]) == number + 1
        wait_until(lambda: np.allclose(held(), (on_data, on_model), atol=0.2), lambda: str(held()))
    del batch, iterator
    gc.collect()
    wait_until(lambda: max(held()) < 0.2, lambda: str(held()))


def test_no_more_batches_are_taken_from_the_host_than_there_are_slots(small_batches_too):
    with tf.device("CPU:0"):
        taken = tf.Variable(0, dtype=tf.int64)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    host = tf.data.Dataset.range(30).map(lambda x: x + 0 * taken.assign_add(1))
    most = 0
    for number, batch in enumerate(distributed(host.with_options(options), 6)):
        wait_until(lambda: int(taken) >= min(30, number + 6))
        time.sleep(0.01)  # for more, if there were room
        most = max(most, int(taken) - number)
        assert int(batch) == number
    assert most == 6


def test_batches_leave_the_host_from_pinned_memory():
    dataset = tf.data.Dataset.range(40).map(lambda i: tf.fill([MB // 16], tf.cast(i, tf.float32)))
    dataset = distributed(dataset.batch(8), 6)
    with emulation.measure() as use:
        assert [float(batch[7, 0]) for batch in dataset] == [7.0, 15.0, 23.0, 31.0, 39.0]
    assert use[1].bytes_in >= 5 * 2 * MB
    assert use[1].bytes_pageable <= 100  # what the iterators' last functions return


def test_every_kind_of_tensor_reaches_the_front_end(small_batches_too):
    def make(i):
        numbers = tf.stack([i, i + 1])
        return {
            **of_every_type(numbers),
            "none": numbers[:0],
            "of any length": tf.fill([i % 3], i),
        }

    dataset = distributed(tf.data.Dataset.range(9).map(make).apply(on_data_device(lambda x: x)), 6)
    assert dataset._staging.copying
    for number, got in enumerate(dataset):
        for kind, tensor in make(tf.constant(number, tf.int64)).items():
            assert got[kind].numpy().tolist() == tensor.numpy().tolist()
    assert number == 8


@pytest.mark.parametrize("slots", [5, 6])
def test_errors_of_the_host_and_of_the_front_end_come_at_their_places(small_batches_too, slots):
    def checked(x, bad):
        return tf.debugging.check_numerics(1.0 / (x - bad), "") * (x - bad) * x

    numbers = tf.data.Dataset.range(9).map(lambda i: checked(tf.cast(i, tf.float32), 2.0))
    dataset = numbers.apply(on_data_device(lambda x: checked(x, 5.0)))
    iterator, got = iter(distributed(dataset, slots)), []
    for _ in range(9):
        try:
            got.append(round(float(next(iterator))))
        except tf.errors.InvalidArgumentError:
            got.append(None)
    assert got == [0, 1, None, 3, 4, None, 6, 7, 8]
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("warm_up", [False, True])
def test_only_the_host_ends_the_batches(small_batches_too, warm_up):
    for length in (0, 1, 5, 9):
        numbers = tf.data.Dataset.range(length)
        assert [int(x) for x in distributed(numbers, 6, warm_up=warm_up)] == list(range(length))
    shorter = iter(tf.data.Dataset.range(3))
    dataset = tf.data.Dataset.range(6)
    dataset = dataset.apply(on_data_device(lambda x: x + 0 * next(shorter)))
    seen = []
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no more elements"):
        for x in distributed(dataset, 6, warm_up=warm_up):
            seen.append(int(x))
    assert seen == [0, 1, 2]


def test_a_checkpoint_has_the_batches_that_are_on_their_way(small_batches_too, tmp_path):
    def make():
        strategy = DataModelSplitStrategy(DATA, MODEL, slots=6)
        with strategy.scope(), data_scope():
            generator = tf.random.Generator.from_seed(3)
        dataset = tf.data.Dataset.range(40).shuffle(9, seed=4).batch(3)
        dataset = dataset.apply(
            on_data_device(lambda x: tf.cast(x, tf.float32) + generator.uniform([1]))
        )
        return iter(strategy.experimental_distribute_dataset(dataset))

    expected = [x.numpy() for x in make()]
    for consumed in (4, 12):
        iterator = make()
        for _ in range(consumed):
            next(iterator)
        time.sleep(0.05)  # now the slots are full
        path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        iterator = make()
        next(iterator)
        tf.train.Checkpoint(iterator=iterator).read(path)
        for got, want in zip(iterator, expected[consumed:], strict=True):
            np.testing.assert_array_equal(got, want)
