"""The monitor's figures, warnings and files, in every kind of loop."""

import keras
import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    Monitor,
    emulation,
    on_data_device,
)
from dual_device_strategy.monitor import run_log
from dual_device_strategy.monitor.diagnosis import (
    FRONT_END,
    HOST,
    JITTER,
    STEP,
    TRANSFER,
    warnings,
)


def made(batches, host_ms=0, front_end_ms=0, floats=1000, moved=0):
    """`moved`: this number of floats, which nobody computes, goes on to the model device."""
    with tf.device("CPU:0"):
        example = tf.ones([floats])
    with tf.device("GPU:0"):
        held = tf.Variable(tf.ones([moved])) if moved else None
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    dataset = tf.data.Dataset.from_tensors(example).repeat(batches)
    if host_ms:
        dataset = dataset.map(lambda x: emulation.timed(x, ms=host_ms))
    front_end = on_data_device(
        lambda x: held.read_value() if moved else emulation.timed(x, ms=front_end_ms)
    )
    return dataset.with_options(options).apply(front_end)


def train(dataset, step_ms, epochs=1, strategy=None, **settings):
    """A custom loop that reads its loss; returns the closed monitor."""
    strategy = strategy or DataModelSplitStrategy("GPU:0", "GPU:1")
    watched = Monitor(strategy, write_seconds=0, device_seconds=0.1, **settings)
    distributed = strategy.experimental_distribute_dataset(dataset)
    step = tf.function(
        lambda batch: strategy.run(lambda x: emulation.timed(x, ms=step_ms)[0], args=(batch,))
    )
    for _ in range(epochs):
        for batch in watched.batches(distributed):
            step(batch).numpy()
    watched.close()
    return watched


@pytest.mark.timing
def test_a_step_that_varies_by_itself_is_told_from_one_that_waits():
    recent = {"wait_share": 0.02, "variation": 0.5, "std_ms": 10, "wait_std_ms": 0.5}
    (warning,) = warnings(recent, HOST)
    assert warning.cause == STEP
    assert "vary by 50%" in warning.text
    waiting = {"wait_share": 0.3, "variation": 0.5, "std_ms": 10, "wait_std_ms": 9}
    assert {w.cause for w in warnings(waiting, HOST)} == {HOST}
    assert warnings({**recent, "variation": 0.1}, HOST) == []


@pytest.mark.timing
def test_a_loop_that_is_fed_in_time_waits_for_nothing():
    summary = train(made(60, front_end_ms=2), step_ms=20).summary()
    assert summary["steps"] == 55
    assert summary["step_ms"] > 20
    assert summary["wait_share"] < 0.25
    assert summary["ready"] > 0.5
    assert summary["devices"]["model"]["busy"] > summary["devices"]["data"]["busy"] > 0
    assert summary["devices"]["model"]["peak_mb"] > 0


def test_a_loop_that_is_left_may_go_on_with_its_iterator():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with Monitor(strategy, sample_every=1, first_steps=1) as watched:
        iterator = iter(strategy.experimental_distribute_dataset(made(30)))
        for _ in range(2):
            for count, batch in enumerate(watched.batches(iterator)):
                emulation.timed(batch, ms=20)[0].numpy()
                if count == 9:
                    break
        with watched.call(iterator):
            next(iterator)
        summary = watched.summary()
    # What was left before is not READY any more: of four slots two are.
    assert summary["ready_samples"] > 10
    assert 1 < summary["ready"] <= 2


@pytest.mark.timing
@pytest.mark.parametrize(
    ("stages", "stage"),
    [
        ({"host_ms": 40}, HOST),
        ({"front_end_ms": 40}, FRONT_END),
        # 96 MB over the links of both devices take 12 ms.
        ({"moved": 24_000_000}, TRANSFER),
    ],
)
def test_the_warning_names_the_slow_part_and_a_setting(stages, stage):
    watched = train(made(50, **stages), step_ms=1, sample_every=3)
    waiting = [text for text in watched.warnings if "waiting for batches" in text]
    # Where the machine itself pauses, batches come unevenly for a while: a cause of its own.
    named = [text for text in waiting if JITTER not in text]
    assert len(named) == 1, watched.warnings
    assert f"because of {stage}: " in named[0]
    assert watched.summary()["wait_share"] > 0.3


def test_the_report_says_what_is_known_and_what_is_not():
    watched = train(made(30), step_ms=2)
    report = watched.close()
    assert "25 steady steps" in report
    assert "of at most 2 with 4 slots" in report
    assert "apart      the first 5 steps took" in report
    on_cpu = train(made(30), 2, strategy=tf.distribute.OneDeviceStrategy("CPU:0")).close()
    assert "READY      not counted" in on_cpu
    assert "CPU:0: use unknown, a CPU device has no figures of its use" in on_cpu


@pytest.mark.timing
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_keras_fit_has_the_same_figures_per_call(steps_per_execution, tmp_path):
    # Keras's results pass GPU:0, where reading them would wait for a front end.
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    with strategy.scope():
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    pair = tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1])))
    slow = on_data_device(lambda x, y: (emulation.timed(x, ms=60), y))
    watched = Monitor(strategy, json_file=tmp_path / "run.jsonl", sample_every=2)
    model.fit(
        pair.repeat(30).apply(slow),
        validation_data=pair.repeat(6) if steps_per_execution == 1 else None,
        epochs=2,
        verbose=0,
        callbacks=[watched.callback()],
    )
    summary = run_log.read(tmp_path / "run.jsonl")[2]
    calls = 2 * 30 // steps_per_execution
    assert summary["steps"] == (calls - 5 - 1) * steps_per_execution
    assert summary["epochs"] == 2
    assert summary["step_ms"] > 50
    if steps_per_execution == 1:
        # The front end takes most of the time, and the loop waits for it inside its tf.function.
        assert summary["wait_share"] > 0.3
        assert summary["ready"] < 0.3
    else:
        assert summary["wait_share"] is None
        assert "inside a tf.function" in watched.close()


def test_a_second_fit_goes_on_with_the_figures_and_files_of_the_first(tmp_path):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    with strategy.scope():
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat(12)
    file, logs = tmp_path / "run.jsonl", tmp_path / "tb"
    watched = Monitor(strategy, json_file=file, log_dir=logs, write_seconds=0)
    for fits in (1, 2):
        model.fit(data, verbose=0, callbacks=[watched.callback()])
        _, lines, summary = run_log.read(file)  # complete after every fit
        assert lines[-1]["step"] == 12 * fits
        assert summary["epochs"] == fits
        # The first five steps are apart, and the first of the second fit, which is an epoch's.
        assert summary["steps"] == 7 + 11 * (fits - 1)
    assert watched.close().startswith("Monitor: 18 steady steps")


def test_a_closed_monitor_measures_again_when_it_is_used_again(tmp_path):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    file = tmp_path / "run.jsonl"
    watched = Monitor(strategy, json_file=file, first_steps=1)
    dataset = strategy.experimental_distribute_dataset(made(10))
    for count in (9, 18):
        for _ in watched.batches(dataset):
            pass
        watched.close()
        assert run_log.read(file)[2]["steps"] == count
    iterator = iter(dataset)
    with watched.call(iterator):
        next(iterator)
    watched.close()
    assert run_log.read(file)[2]["steps"] == 19


@pytest.mark.parametrize("loop", ["batches", "call", "fit"])
def test_a_monitor_made_after_distributing_says_so_and_gives_no_advice_on_waiting(loop, caplog):
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    pairs = tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat(40)
    slow = pairs.apply(on_data_device(lambda x, y: (emulation.timed(x, ms=5), y)))
    dataset = strategy.experimental_distribute_dataset(slow)
    watched = Monitor(strategy, write_seconds=0)
    if loop == "batches":
        for _ in watched.batches(dataset):
            pass
    elif loop == "call":
        iterator = iter(dataset)
        for _ in range(40):
            with watched.call(iterator):
                next(iterator)
    else:
        with strategy.scope():
            model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        model.fit(dataset, verbose=0, callbacks=[watched.callback()])
    (text,) = [text for text in watched.warnings if "after" in text]
    assert text.startswith("the Monitor was made after the dataset was distributed")
    assert not [text for text in watched.warnings if "DataModelSplitStrategy" in text]
    assert "READY      not counted" in watched.close()


@pytest.mark.timing
def test_calls_of_many_steps_are_counted_as_steps():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    watched = Monitor(strategy, first_steps=1, sample_every=1)
    iterator = iter(strategy.experimental_distribute_dataset(made(60)))

    @tf.function
    def ten_steps(iterator):
        total = 0.0
        for _ in tf.range(10):
            batch = next(iterator)
            total += strategy.run(lambda x: emulation.timed(x, ms=5)[0], args=(batch,))
        return total

    for _ in range(6):
        with watched.call(iterator, steps=10):
            ten_steps(iterator).numpy()
    summary = watched.summary()
    watched.close()
    assert summary["steps"] == 50
    assert 5 < summary["step_ms"] < 50
    assert summary["steps_per_call"] == 10
    assert summary["ready"] <= 2


def test_several_devices_are_all_watched(tmp_path):
    strategy = MirroredDataModelSplitStrategy(["GPU:0"], ["GPU:1", "GPU:0"], shares=(0.75, 0.25))
    monitor = Monitor(strategy, first_steps=1, sample_every=1, json_file=tmp_path / "run.jsonl")
    dataset = tf.data.Dataset.from_tensors(tf.ones([8, 1000])).repeat(6)
    for batch in monitor.batches(strategy.experimental_distribute_dataset(dataset)):
        strategy.run(tf.function(tf.reduce_sum), args=(batch,))
    report = monitor.close()
    devices = {role: use["device"] for role, use in monitor.summary()["devices"].items()}
    assert devices == {"data": "GPU:0", "model 0": "GPU:1", "model 1": "GPU:0"}
    assert "READY" in report and "not counted" not in report and "model 1" in report
    _, lines, _ = run_log.read(tmp_path / "run.jsonl")
    assert lines[-1]["model_1_peak_mb"] > 0


def test_a_dealt_dataset_is_not_counted_and_nobody_says_that_it_came_too_late():
    strategy = MirroredDataModelSplitStrategy(["CPU:3"], ["CPU:1", "CPU:2"])
    monitor = Monitor(strategy, first_steps=1)
    dataset = strategy.distribute_datasets_from_function(
        lambda _: tf.data.Dataset.from_tensors(tf.ones([4])).repeat(4)
    )
    assert len(list(monitor.batches(dataset))) == 2
    monitor.close()
    assert monitor.warnings == []
