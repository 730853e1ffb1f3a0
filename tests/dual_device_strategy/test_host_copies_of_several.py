"""Copies from the host ahead of the front end: several data devices, workers, dataset functions,
and data devices that train."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import (
    MirroredDataModelSplitStrategy,
    MultiWorkerDataModelSplitStrategy,
    data_scope,
    on_data_device,
)
from tests.dual_device_strategy.tensors import live
from tests.waiting import at_rest, wait_until

MB = 1_000_000
DATA, MODEL = "GPU:1", "GPU:0"


def test_each_of_several_data_devices_has_them(run_python, tmp_path):
    code = """
import time, tensorflow as tf
from dual_device_strategy import MirroredDataModelSplitStrategy, data_scope
from dual_device_strategy import emulation, on_data_device
emulation.start(gpus=4, memory_mb=256)
devices = ["GPU:2", "GPU:3"], ["GPU:0", "GPU:1"]

def plus_one(x, drawn):
    return tf.debugging.check_numerics(x + 1.0 + drawn / 1000, "")

def iterator(length, front_end=plus_one):
    strategy = MirroredDataModelSplitStrategy(*devices, slots=6)
    with strategy.scope(), data_scope():
        generator = tf.random.Generator.from_seed(3)
    numbers = tf.data.Dataset.range(length)
    dataset = numbers.map(lambda i: tf.fill([2, 125_000], tf.cast(i, tf.float32)))
    dataset = dataset.apply(on_data_device(lambda x: front_end(x, generator.uniform([]))))
    made = iter(strategy.experimental_distribute_dataset(dataset))
    assert strategy.extended.running_input.copying == 2
    return made

def numbers(batches):
    found = [[float(piece[0, -1]) - 1 for piece in batch.values] for batch in batches]
    assert all(one == other for one, other in found), found
    return [one for one, _ in found]

for length in (1, 12):
    assert [int(x) for x in numbers(iterator(length))] == list(range(length))
batches, found = iterator(7, lambda x, _: tf.debugging.check_numerics(x / (x - 3.0), "")), []
for _ in range(7):
    try:
        found.append(float(next(batches).values[0][0, 0]))
    except tf.errors.InvalidArgumentError:
        found.append(None)
assert [i for i, x in enumerate(found) if x is None] == [3], found
assert next(batches, None) is None
batches = iterator(20)
for _ in range(6):
    next(batches)
time.sleep(0.05)  # now the slots are full
path = tf.train.Checkpoint(iterator=batches).write("checkpoint")
expected = numbers(batches)
batches = iterator(20)
next(batches)
tf.train.Checkpoint(iterator=batches).read(path)
assert numbers(batches) == expected and len(expected) == 14
"""
    result = run_python(code, cwd=tmp_path, UNOPTIMIZED_GRAPHS="1")
    assert result.returncode == 0, result.stderr


def of_function(strategy, dataset):
    return strategy.distribute_datasets_from_function(lambda context: dataset)


def whole(strategy, dataset):
    return strategy.experimental_distribute_dataset(dataset)


def one_worker():
    return MultiWorkerDataModelSplitStrategy([DATA], [MODEL], slots=6)


def a_device_trains():
    shares = {"shares": (0.75, 0.25), "weighs_rows": True}
    return MirroredDataModelSplitStrategy([DATA], [MODEL, DATA], slots=6, **shares)


OTHERS = {
    "worker": (one_worker, whole),
    "function": (lambda: MirroredDataModelSplitStrategy([DATA], [MODEL], slots=6), of_function),
    "function of a worker": (one_worker, of_function),
    "share": (a_device_trains, whole),
}


def wait_for(held, megabytes):
    wait_until(lambda: np.allclose(held(), megabytes, atol=0.2), lambda: str(held()))


@pytest.mark.parametrize(("make", "distribute"), OTHERS.values(), ids=OTHERS)
def test_workers_dataset_functions_and_devices_that_train_have_them_as_well(make, distribute):
    strategy = make()
    devices = strategy.extended.worker_devices
    before = at_rest(lambda: [live(device) for device in (DATA, MODEL)])

    def held():
        return [(live(d) - then) / MB for d, then in zip((DATA, MODEL), before, strict=True)]

    def filled(i):
        return tf.fill([4, MB // 16], tf.cast(i, tf.float32))

    def numbers(length, bad=-1.0):
        dataset = tf.data.Dataset.range(length).map(filled)
        checked = on_data_device(lambda x: tf.debugging.check_numerics(x / (x - bad), "") * 6.0)
        return distribute(strategy, dataset.apply(checked))

    def first(batch):
        pieces = strategy.experimental_local_results(batch)
        assert [piece.device for piece in pieces] == list(devices)
        assert sum(piece.shape[0] for piece in pieces) == 4
        return float(pieces[-1][0, 0])

    for length in (0, 7):
        assert [first(batch) for batch in numbers(length)] == [
            pytest.approx(6 * i / (i + 1)) for i in range(length)
        ]
    batches, failed = iter(numbers(5, bad=2.0)), []
    assert (batches.slots, strategy.extended.running_input.copying) == (6, 2)
    for i in range(5):
        try:
            first(next(batches))
        except tf.errors.InvalidArgumentError:
            failed.append(i)
    assert failed == [2] and next(batches, None) is None
    del batches
    gc.collect()
    wait_for(held, (0, 0))

    # PREPARING and two COPYING; two READY and one TRAINING, of which a device that trains has its
    # part.
    share = 0.25 if len(devices) > 1 else 0.0
    batches = iter(numbers(20))
    batch = next(batches)
    wait_for(held, (3 + 3 * share, 3 * (1 - share)))
    del batch, batches
    gc.collect()
    wait_for(held, (0, 0))


@pytest.mark.parametrize("make", [one_worker, a_device_trains])
def test_iterators_of_workers_and_of_devices_that_train_are_saved_with_them(
    small_batches_too, tmp_path, make
):
    strategy = make()
    with strategy.scope(), data_scope():
        generator = tf.random.Generator.from_seed(3)
    dataset = tf.data.Dataset.range(40).shuffle(9, seed=4).batch(4)
    dataset = dataset.apply(
        on_data_device(lambda x: tf.cast(x, tf.float32) + generator.uniform([1]))
    )
    distributed = strategy.experimental_distribute_dataset(dataset)
    iterator = iter(distributed)
    assert strategy.extended.running_input.copying == 2

    def rows(batches):
        local = strategy.experimental_local_results
        return [[piece.numpy().tolist() for piece in local(batch)] for batch in batches]

    for _ in range(3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    expected = rows(iterator)
    iterator = iter(distributed)
    next(iterator)
    tf.train.Checkpoint(iterator=iterator).read(path)
    assert rows(iterator) == expected and len(expected) == 7


def test_a_data_device_that_does_all_the_training_has_none():
    strategy = MultiWorkerDataModelSplitStrategy([DATA], [DATA], slots=6)
    dataset = tf.data.Dataset.from_tensors(tf.ones([MB // 4]))
    assert len(list(strategy.experimental_distribute_dataset(dataset))) == 1
    assert strategy.extended.running_input.copying == 0
