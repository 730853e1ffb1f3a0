"""Batches leave the host from pinned memory, for every kind of host pipeline."""

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

BATCHES, ROWS, COLUMNS = 6, 8, 10_000
OF_AN_ITERATOR = 8  # what a hop's last function returns, once
BYTES = 4 * ROWS * COLUMNS * BATCHES


def numbered(i):
    return tf.fill([COLUMNS], tf.cast(i, tf.float32))


def elements():
    return tf.data.Dataset.range(BATCHES * ROWS).map(numbered)


def padded():
    rows = tf.data.Dataset.range(BATCHES * ROWS).map(
        lambda i: tf.fill([COLUMNS - i % ROWS], tf.cast(i, tf.float32))
    )
    return rows.padded_batch(ROWS)


def generated():
    def batches():
        for i in range(BATCHES):
            yield np.full([ROWS, COLUMNS], i, np.float32)

    return tf.data.Dataset.from_generator(
        batches, output_signature=tf.TensorSpec([ROWS, COLUMNS], tf.float32)
    )


def recorded(folder):
    path = str(folder / "rows.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(BATCHES * ROWS):
            writer.write(np.full([COLUMNS], i, np.float32).tobytes())
    records = tf.data.TFRecordDataset(path).map(lambda record: tf.io.decode_raw(record, tf.float32))
    return records.map(lambda row: tf.ensure_shape(row, [COLUMNS])).batch(ROWS)


PIPELINES = {
    "batch": lambda _: elements().batch(ROWS),
    "padded_batch": lambda _: padded(),
    "map": lambda _: elements().batch(ROWS).map(lambda x: (x + 1, tf.shape(x, tf.int64))),
    "TFRecords": recorded,
    "generator": lambda _: generated(),
}


@pytest.mark.parametrize("ends_in", PIPELINES)
@pytest.mark.parametrize("devices", [("GPU:1", "GPU:0"), ("CPU:0", "GPU:0")])
def test_no_byte_of_a_batch_leaves_pageable_memory(ends_in, devices, tmp_path):
    with tf.device("/CPU:0"):
        host = PIPELINES[ends_in](tmp_path)
        expected = [tf.nest.map_structure(lambda t: t.numpy(), batch) for batch in host]
    strategy = DataModelSplitStrategy(*devices)
    distributed = strategy.experimental_distribute_dataset(host)
    received = int(devices[0] == "GPU:1")  # the physical GPU to which the host sends
    with emulation.measure() as use:
        batches = [tf.nest.map_structure(lambda t: t.numpy(), batch) for batch in distributed]
    tf.nest.map_structure(np.testing.assert_array_equal, batches, expected)
    assert use[received].bytes_in >= BYTES * 0.99
    assert use[received].bytes_pageable <= OF_AN_ITERATOR


def test_what_is_not_pinned_is_counted_and_held_by_the_host(run_python):
    code = """
import time, numpy as np, tensorflow as tf
from dual_device_strategy import emulation
emulation.start(gpus=1, memory_mb=512, gbps=100, pageable_gbps=0.1)
with tf.device("/CPU:0"):
    sent = tf.fill([5_000_000], 1.0)
with emulation.measure() as use, tf.device("/GPU:0"):
    began = time.perf_counter()
    tf.identity(sent)  # comes back once the host has the bytes where the link can read them
    print(time.perf_counter() - began)
print(use[0].bytes_pageable)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    seconds, pageable = map(float, result.stdout.splitlines())
    assert seconds >= 0.2
    assert pageable == 20_000_000


def test_a_batch_that_is_refused_arrives_at_its_place_and_ends_nothing():
    def refuse_third(i, x):
        with tf.control_dependencies([tf.debugging.Assert(i != 2, ["the third is refused"])]):
            return tf.identity(x)

    host = elements().batch(ROWS).enumerate().map(refuse_third)
    host = host.apply(on_data_device(lambda x: x + 0.0))
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    iterator = iter(strategy.experimental_distribute_dataset(host))
    assert [float(next(iterator)[0, 0]) for _ in range(2)] == [0.0, ROWS]
    with pytest.raises(tf.errors.InvalidArgumentError, match="the third is refused"):
        next(iterator)
