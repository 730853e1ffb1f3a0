"""The profiler: what it measures, what it concludes, its page, and how it ends on bad input."""

import json

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    MirroredDataModelSplitStrategy,
    on_data_device,
)
from dual_device_strategy.profile import ProfileError, profile
from dual_device_strategy.profile.page import render
from dual_device_strategy.profile.result import empty
from dual_device_strategy.profile.setup import Setup
from dual_device_strategy.profile.tracing import write_trace
from dual_device_strategy.readings import Reading
from dual_device_strategy.workload import Workload

PARTS = ("host", "copy", "front_end", "transfer", "step")


def work(host_ms=0, front_end_ms=0, step_ms=0):
    """A dataset and a step that take these times."""
    return Workload(16, 8, 20, (host_ms, front_end_ms, step_ms)).dataset_and_step()


@pytest.fixture(scope="module")
def measured():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    return profile(strategy, *work(5, 30, 10), steps=8)


def test_each_stage_is_measured_alone_and_all_together(measured):
    figures = measured.as_json()
    parts = {part["part"]: part for part in figures["parts"]}
    assert tuple(parts) == PARTS
    assert {part["count"] for part in parts.values()} == {8}
    for name, least in (("host", 5), ("front_end", 29), ("step", 10)):
        assert parts[name]["median_ms"] >= least
    assert figures["staged"]["median_ms"] >= 29
    assert figures["staged"]["gaps"]["count"] == 8
    assert figures["staged"]["others"]["read every tenth"]["median_ms"] >= 29
    assert figures["judgement"]["ahead_ms"] == {
        "read every tenth": figures["staged"]["others"]["read every tenth"]["median_ms"]
    }
    assert figures["work"]["rows"] == 16
    assert not measured.measured.copies_ahead  # it is too small
    assert figures["judgement"]["bottleneck"] == "data device (copy and front end)"
    assert figures["judgement"]["limit_ms"] == pytest.approx(
        parts["front_end"]["median_ms"] + parts["copy"]["median_ms"]
    )
    assert json.loads(json.dumps(figures))["judgement"] == figures["judgement"]


def test_the_table_has_every_stage_the_verdict_and_the_predictions(measured):
    table = measured.table()
    for words in (
        "data device GPU:0, model device GPU:1, slots=4 (emulated",
        "copy to the data device",
        "gap between steps",
        "bottleneck: data device",
        "of the limit reached",
        "verdict: ",
        "advice: training takes only",
        "two model devices",
        "staged step, read every tenth",
        "what 2 devices could do",
        "2 do both, front end in the step",
    ):
        assert words in table


def test_on_logical_cpus_the_same_figures_are_there():
    strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
    double = on_data_device(lambda x: 2 * x)
    dataset = tf.data.Dataset.from_tensors(tf.ones([1000])).repeat().apply(double)
    result = profile(strategy, dataset, tf.function(tf.reduce_sum), steps=5)
    assert not result.emulated
    assert [len(result.measured.parts[name]) for name in PARTS] == [5] * 5
    assert result.judgement.step_ms > 0


def test_several_devices_are_measured_on_the_pieces_that_they_train():
    strategy = MirroredDataModelSplitStrategy(
        ["CPU:3"], ["CPU:1", "CPU:2", "CPU:3"], shares=(0.4, 0.4, 0.2)
    )
    double = on_data_device(lambda x: 2 * x)
    dataset = tf.data.Dataset.from_tensors(tf.ones([20, 100])).repeat().apply(double)
    result = profile(
        strategy, dataset, tf.function(tf.reduce_sum), steps=5, readings=[Reading.ONE_FUNCTION]
    )
    measured = result.measured
    assert (measured.rows, measured.rows_of_replicas) == (20, [8, 8, 4])
    assert result.setup == Setup(data_devices=1, model_devices=3, shared=True)
    assert len(measured.others[Reading.ONE_FUNCTION]) == 1
    assert result.as_json()["work"]["step"] == pytest.approx(
        2.5 * np.median(measured.parts["step"])
    )
    table = result.table()
    assert "data device CPU:3, model devices CPU:1, CPU:2, CPU:3, slots=4" in table
    assert "what 3 devices could do" in table


def test_a_trace_has_a_row_for_each_part_of_each_device_with_what_was_measured(tmp_path):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    write_trace(strategy, *work(2, 8, 5), tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    assert names == {0: "host", 1: "data device GPU:0", 2: "model device GPU:1"}
    rows, kinds = {}, {}
    for event in trace:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
            kinds.setdefault((event["pid"], event["cat"]), []).append(event)
    assert set(kinds) == {
        (0, "host pipeline"), (1, "copy"), (1, "front end"), (2, "on its way"), (2, "READY"),
        (2, "step"),
    }  # fmt: skip
    for events in rows.values():  # what overlaps in one row cannot be drawn
        events.sort(key=lambda event: event["ts"])
        ends = [event["ts"] + event["dur"] for event in events]
        assert all(end <= e["ts"] + 1 for end, e in zip(ends[:-1], events[1:], strict=True))
    for place, least in (((0, "host pipeline"), 2), ((1, "front end"), 8), ((2, "step"), 5)):
        assert len(kinds[place]) >= 25
        assert np.median([event["dur"] for event in kinds[place]]) >= 1000 * least
    of_batch = {(e["cat"], e["args"]["batch"]): e for e in trace if e["ph"] == "X"}
    order = ["host pipeline", "front end", "on its way", "step"]
    begins = [of_batch[kind, 20]["ts"] for kind in order]
    assert begins == sorted(begins)


@pytest.mark.timing
def test_a_trace_shows_copies_from_the_host_beside_the_front_end(run_python, tmp_path):
    code = """
import tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device
from dual_device_strategy.profile.tracing import write_trace
emulation.start(gpus=2, memory_mb=256, gbps=0.1)
with tf.device("CPU:0"):
    dataset = tf.data.Dataset.from_tensors(tf.ones([1, 250_000])).repeat()
dataset = dataset.apply(on_data_device(lambda x: emulation.timed(x, ms=10)[:, :10]))
strategy = DataModelSplitStrategy("GPU:1", "GPU:0", slots=6)
write_trace(strategy, dataset, tf.function(tf.reduce_sum), "trace.json")
"""
    result = run_python(code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    times = {"copy": {}, "front end": {}}
    for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]:
        if event.get("cat") in times:
            span = event["ts"], event["ts"] + event["dur"]
            times[event["cat"]][event["args"]["batch"]] = span
    copies, front_ends = times.values()
    assert copies.keys() == front_ends.keys() == set(range(10, 40))
    assert all(copies[i][1] <= front_ends[i][0] for i in copies)
    # What is noted late makes one longer and the next one shorter.
    assert sum(end - begin for begin, end in copies.values()) >= 29 * 9_900
    # By the link and by the device it could be all of the time.
    both = sum(
        max(0, min(copy[1], prepared[1]) - max(copy[0], prepared[0]))
        for copy in copies.values()
        for prepared in front_ends.values()
    )
    assert both > 0.2 * sum(end - begin for begin, end in front_ends.values())


@pytest.mark.parametrize("data", [["CPU:0"], ["CPU:3", "CPU:4"]])
def test_several_devices_have_a_trace_and_a_front_end_on_the_host_too(data, tmp_path):
    strategy = MirroredDataModelSplitStrategy(data, ["CPU:1", "CPU:2"])
    dataset = tf.data.Dataset.from_tensors({"x": tf.ones([4, 10])}).repeat()
    dataset = dataset.apply(on_data_device(lambda element: {"x": 2 * element["x"]}))
    step = tf.function(lambda batch: tf.reduce_sum(batch["x"]))
    write_trace(strategy, dataset, step, tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    steps = [event for event in trace if event.get("cat") == "step"]
    assert {event["pid"] for event in steps} == {1 + len(data), 2 + len(data)}
    prepared = {event["pid"] for event in trace if event.get("cat") == "front end"}
    assert prepared == set(range(1, 1 + len(data)))


def test_a_dataset_that_ends_too_early_leaves_what_was_measured():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    result = empty(strategy)
    dataset, step = work()
    with pytest.raises(ProfileError, match=r"ended after 9 batches and 13 are needed: .*repeat"):
        profile(strategy, dataset.take(9), step, steps=10, result=result)
    assert len(result.measured.parts["host"]) == 9
    assert "host pipeline" in result.table()


def test_memory_that_does_not_suffice_is_told_in_a_sentence():
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")

    def step(x):
        return tf.reduce_sum(tf.ones([1 << 29]))  # 2 GB of 1

    with pytest.raises(ProfileError, match="the step failed: ResourceExhaustedError: "):
        profile(strategy, work()[0], step, steps=2)


def test_the_page_asks_for_nothing_and_fits_a_phone(measured, opened):
    text = render(measured.as_json())
    for width in (390, 1200):
        seen = opened(text, width)
        assert seen["requests"] == []
        assert seen["needed"] <= seen["width"] == width
        for words in ("Where the time goes", "READY", "TRAINING", "Advice", "two model devices"):
            assert words in seen["text"]
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text


def test_the_page_can_be_printed_and_drawn(measured, chromium, tmp_path):
    measured.write_html(tmp_path / "page.html")
    chromium(
        tmp_path / "page.html",
        "--no-pdf-header-footer",
        f"--print-to-pdf={tmp_path / 'page.pdf'}",
    )
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 1 <= printed.count(b"/Type /Page\n") <= 3
    chromium(
        tmp_path / "page.html", "--window-size=900,1600", f"--screenshot={tmp_path / 'page.png'}"
    )
    image = tf.io.decode_png((tmp_path / "page.png").read_bytes(), channels=3)
    drawn = {tuple(pixel) for pixel in tf.reshape(image, [-1, 3]).numpy()[::7].tolist()}
    # The bar of the slowest part, and the first two batches of the timeline.
    assert {(0xC0, 0x39, 0x2B), (0x1F, 0x77, 0xB4), (0xE0, 0x82, 0x14)} <= drawn


def test_the_page_of_half_a_measurement_says_what_went_wrong(opened):
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    result = empty(strategy)

    def step(x):
        raise KeyError("<no such layer>")

    with pytest.raises(ProfileError):
        profile(strategy, work()[0], step, steps=3, result=result)
    seen = opened(render(result.as_json()), 390)
    assert "incomplete: the step failed: KeyError: '<no such layer>'" in seen["text"]
    assert "front end" in seen["text"]
    assert seen["needed"] <= 390
