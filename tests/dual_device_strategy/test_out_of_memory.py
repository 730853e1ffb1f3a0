"""A device without room: the error says which device, which stage, how much, what to change."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device, out_of_memory

PROGRAM = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

memory, work = {memory}, {work!r}
emulation.start(gpus=2, memory_mb=memory)
strategy = DataModelSplitStrategy("GPU:0", "GPU:1", slots={slots})
dataset = tf.data.Dataset.range(6).map(lambda i: tf.fill([2_500_000], tf.cast(i, tf.float32)))
if work == "preparing":
    dataset = dataset.apply(on_data_device(lambda x: tf.stack([x] * {times})))
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
    "work, slots, memory, device, size, remedy",
    [
        ("preparing", 4, [30, 200], "GPU:0", "40,000,000", "front end lighter."),
        ("preparing", 6, [40, 200], "GPU:0", "20,000,000", "or use fewer slots (now slots=6)"),
        ("copying", 6, [8, 200], "GPU:0", "10,000,000", "fewer slots (now slots=6)"),
        ("ready", 4, [200, 30], "GPU:1", "10,000,000", "fewer slots (now slots=4)"),
        ("training", 4, [200, 40], "GPU:1", "10,000,000", "the model smaller"),
    ],
)
def test_the_error_names_device_stage_bytes_and_remedy(
    run_python, work, slots, memory, device, size, remedy
):
    times = 4 if slots == 4 else 2
    done = run_python(PROGRAM.format(memory=memory, work=work, slots=slots, times=times))
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
        "PREPARING_on_data_device.a_batch_has_40000040_bytes.if_the_device_is_out_of_memory."
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
        "READY_on_model_device.a_batch_has_10000000_bytes.if_the_device_is_out_of_memory."
        "make_the_batch_smaller_or_use_fewer_slots" in done.stdout
    ), done.stdout + done.stderr[-2000:]


def _no_memory_in_python(x):
    raise MemoryError("the user's own")


def _failing_generator():
    def generate():
        yield 1.0
        raise MemoryError("the user's own")

    return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([]))


def _write_on_full_disk(i):
    with tf.control_dependencies([tf.io.write_file("/dev/full", tf.fill([10], "text")[0])]):
        return tf.identity(i)


_OWN = "the user's own"
_NOT_A_DEVICE = {
    "a generator's MemoryError": (_failing_generator, _OWN),
    "a full disk": (
        lambda: tf.data.Dataset.range(2).map(_write_on_full_disk),
        "No space left on device",
    ),
    "a front end's MemoryError": (
        lambda: tf.data.Dataset.range(2).apply(
            on_data_device(lambda x: tf.numpy_function(_no_memory_in_python, [x], tf.int64))
        ),
        _OWN,
    ),
    "the host's own memory": (
        lambda: tf.data.Dataset.range(2).map(lambda x: tf.zeros([1 << 48])),
        "device:CPU:0",
    ),
}


_SLOW = "the host's own memory"  # TensorFlow asks for it again for half a minute


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.slow if c == _SLOW else ()) for c in _NOT_A_DEVICE],
)
def test_what_is_exhausted_but_no_devices_memory_is_passed_on_unchanged(case):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    make, words = _NOT_A_DEVICE[case]
    iterator = iter(strategy.experimental_distribute_dataset(make()))
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        for _ in range(2):
            next(iterator)
    assert "Out of memory while" not in error.value.message
    assert words in error.value.message


def test_a_memory_error_in_the_step_is_passed_on_unchanged():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    step = tf.function(lambda x: tf.numpy_function(_no_memory_in_python, [x], tf.float32))
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        strategy.run(step, args=(tf.ones([]),))
    assert "Out of memory while" not in error.value.message


def test_in_a_function_the_remedy_in_the_names_is_for_devices_out_of_memory_only():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    dataset = strategy.experimental_distribute_dataset(_failing_generator())

    @tf.function
    def last(iterator):
        next(iterator)
        return next(iterator)

    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        last(iter(dataset))
    assert "use_fewer_slots" not in error.value.message.replace(
        "if_the_device_is_out_of_memory.make_the_batch_smaller_or_use_fewer_slots", ""
    )


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("OOM when allocating tensor with shape[9] and type float on {gpu}:1 by allocator a", 1),
        ("OOM when allocating temporary tensor with shape[9] on {gpu}:0 by allocator a", 0),
        ("SameWorkerRecvDone unable to allocate output tensor. Key: {gpu}:0;1;{gpu}:1;e;0:0", 1),
        ("Out of memory while trying to allocate 9 bytes.", "unnamed"),
        ("Failed to allocate request for 2.00GiB (9B) on device ordinal 0", "unnamed"),
        ("MemoryError: Unable to allocate 3. GiB for an array with shape (9,)", None),
        ("Failed to allocate memory for the batch of component 0", None),
        ("/corpus/0001.wav; Too many open files", None),
    ],
)
def test_the_device_is_the_one_that_tensorflow_names(message, device):
    gpu = "/job:localhost/replica:0/task:0/device:GPU"
    error = tf.errors.ResourceExhaustedError(None, None, message.format(gpu=gpu))
    found = out_of_memory.exhausted_device(error)
    assert found == (f"{gpu}:{device}" if isinstance(device, int) else device)
