"""A device without room: the error says which device, which stage, how much, what to change."""

import pytest

PROGRAM = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

memory, work = {memory}, {work!r}
emulation.start(gpus=2, memory_mb=memory)
strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
dataset = tf.data.Dataset.range(6).map(lambda i: tf.fill([2_500_000], tf.cast(i, tf.float32)))
if work == "preparing":
    dataset = dataset.apply(on_data_device(lambda x: tf.stack([x] * 4)))
kept = []

@tf.function
def step(x):
    return tf.reduce_sum(tf.concat([x] * 9, 0)) if work == "training" else x[0]

iterator = iter(strategy.experimental_distribute_dataset(dataset))
try:
    for _ in range(6):
        kept.append(next(iterator))
        strategy.run(step, args=(kept[-1],))
        if work != "ready":
            kept.clear()
    print("no error")
except tf.errors.ResourceExhaustedError as error:
    print(error.message.splitlines()[0])
    print("SCOPES", *[s for s in ("PREPARING_on", "READY_on") if s in error.message])
kept.clear()
with tf.device("GPU:1"):
    print("alive", float(tf.reduce_sum(tf.ones([1000]))))
"""


@pytest.mark.parametrize(
    "work, memory, device, size, remedy",
    [
        ("preparing", [30, 200], "GPU:0", "40,000,000", "front end lighter"),
        ("ready", [200, 30], "GPU:1", "10,000,000", "fewer slots (now slots=3)"),
        ("training", [200, 40], "GPU:1", "10,000,000", "the model smaller"),
    ],
)
def test_the_error_names_device_stage_bytes_and_remedy(
    run_python, work, memory, device, size, remedy
):
    done = run_python(PROGRAM.format(memory=memory, work=work))
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Out of memory while "), done.stdout + done.stderr[-2000:]
    for word in (work.upper(), device, size + " bytes", remedy):
        assert word in lines[0]
    assert lines[-1] == "alive 1000.0"


KERAS = """
import keras
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

emulation.start(gpus=2, memory_mb=[30, 200])
strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
with strategy.scope():
    model = keras.Sequential([keras.layers.Lambda(lambda x: x[:, :8]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
dataset = tf.data.Dataset.from_tensors((tf.ones([10, 250_000]), tf.ones([10, 1]))).repeat()
dataset = dataset.apply(on_data_device(lambda x, y: (tf.concat([x] * 4, 1), y)))
try:
    model.fit(dataset, steps_per_epoch=3, verbose=0, shuffle=False)
    print("no error")
except tf.errors.ResourceExhaustedError as error:
    print(error.message)
"""


def test_under_keras_the_names_in_the_message_tell_stage_bytes_and_remedy(run_python):
    done = run_python(KERAS)
    assert (
        "PREPARING_on_data_device.a_batch_has_40000040_bytes."
        "make_the_batch_smaller_or_the_front_end_lighter" in done.stdout
    ), done.stdout + done.stderr[-2000:]
    assert "device:GPU:0" in done.stdout


IN_GRAPH = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation

emulation.start(gpus=2, memory_mb=[200, 30])
strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
dataset = tf.data.Dataset.from_tensors(tf.ones([2_500_000])).repeat()

@tf.function
def total(iterator):
    kept = []
    for _ in range(4):
        with tf.control_dependencies(kept):
            kept.append(next(iterator))
    with tf.device("GPU:1"):
        return tf.reduce_sum(tf.add_n(kept))

try:
    print(total(iter(strategy.experimental_distribute_dataset(dataset))))
except tf.errors.ResourceExhaustedError as error:
    print(error.message)
"""


def test_in_a_function_the_names_in_the_message_tell_of_batches_that_are_ready(run_python):
    done = run_python(IN_GRAPH)
    assert (
        "READY_on_model_device.a_batch_has_10000000_bytes."
        "make_the_batch_smaller_or_use_fewer_slots" in done.stdout
    ), done.stdout + done.stderr[-2000:]
