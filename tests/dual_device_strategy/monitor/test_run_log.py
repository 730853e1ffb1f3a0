"""The files of a monitored run, and memory that grows."""

import json

import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    Monitor,
)
from dual_device_strategy.monitor import memory, run_log
from tests.dual_device_strategy.monitor.test_monitor import made, train


def test_every_epoch_goes_into_the_log_and_the_summary_at_its_end(tmp_path):
    file = tmp_path / "run.jsonl"
    watched = train(made(30), step_ms=1, epochs=2, json_file=file, log_dir=tmp_path / "tb")
    header, lines, summary = run_log.read(file)
    assert header["devices"] == {"data": "GPU:0", "model": "GPU:1"}
    assert header["slots"] == 4
    assert lines[-1]["step"] == 60
    assert {"step_ms", "wait_share", "ready", "model_memory_mb", "variation"} <= set(lines[-1])
    assert (summary["steps"], summary["epochs"], summary["epoch_starts"]) == (54, 2, 1)
    assert summary == json.loads(json.dumps(watched.summary())) | {
        "total_seconds": summary["total_seconds"]
    }
    shown = {}
    for events in (tmp_path / "tb").iterdir():
        for record in tf.data.TFRecordDataset(str(events)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                shown[event.step, value.tag] = tf.make_ndarray(value.tensor)
    for name in ("step_ms", "wait_share", "model_busy"):
        assert shown[60, f"monitor/{name}"] == pytest.approx(lines[-1][name])


def test_memory_that_grows_is_told_once_with_the_figures(monkeypatch):
    monkeypatch.setitem(memory.GROWTH_MB, "model", 20)
    monkeypatch.setattr(memory, "STEPS_BEFORE_GROWTH", 20)
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    watched = Monitor(strategy, write_seconds=0)
    kept = []
    for batch in watched.batches(strategy.experimental_distribute_dataset(made(200))):
        with tf.device("GPU:1"):
            kept.append(tf.concat([batch] * 250, axis=0))  # 1 MB
    watched.close()
    (text,) = [text for text in watched.warnings if "grew by" in text]
    assert text.startswith("memory of the model device GPU:1 grew by ")
    assert "something keeps tensors of past steps" in text


def test_memory_that_stays_is_not_warned_of(monkeypatch):
    monkeypatch.setitem(memory.GROWTH_MB, "model", 20)
    monkeypatch.setitem(memory.GROWTH_MB, "data", 20)
    watched = train(made(200, floats=1_000_000), step_ms=0, epochs=2)
    assert not [text for text in watched.warnings if "grew by" in text]


def test_an_exception_in_the_loop_leaves_a_readable_log(tmp_path):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with (
        pytest.raises(RuntimeError, match="stop"),
        Monitor(strategy, json_file=tmp_path / "run.jsonl") as watched,
    ):
        for _ in watched.batches(strategy.experimental_distribute_dataset(made(30))):
            if watched.times.steps.count == 10:
                raise RuntimeError("stop")
    assert run_log.read(tmp_path / "run.jsonl")[2]["steps"] == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not the log of a monitored run"),
        ("<html>", "is not the log of a monitored run"),
        ('{"loss": 1}\n', "is not the log of a monitored run"),
        ('{"format": "dual_device_strategy.monitor", "version": 9}\n', "has version 9"),
        ('{"format": "dual_device_strategy.monitor", "version": 1}\n{"st', "in line 2"),
        ('{"format": "dual_device_strategy.monitor", "version": 1}\n{"step": 1}\n', "no summary"),
    ],
)
def test_a_file_that_is_no_finished_log_is_refused_in_a_sentence(tmp_path, text, words):
    file = tmp_path / "some.jsonl"
    file.write_text(text)
    with pytest.raises(run_log.LogError, match=words):
        run_log.read(file)
