"""The validation command: sound set-ups pass, and what is broken fails in its own section.

Things are broken from outside: a fake driver, a wrong device, a patched strategy, a small limit.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from dual_device_strategy import (
    DataModelSplitStrategy,
    emulation,
)
from dual_device_strategy.devices import Device, Devices, topology
from dual_device_strategy.validate import (
    configuration,
    pipeline,
    placement,
    prerequisites,
    transfer,
)
from dual_device_strategy.validate.report import Report, Status

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE_DRIVER = Path(__file__).parent / "devices" / "fake_driver"
PAIR = Devices(
    Device("data", "GPU:0", physical=0, name="emulated GPU", memory="memory grows"),
    Device("model", "GPU:1", physical=1, name="emulated GPU", memory="memory grows"),
    "as asked",
)


@pytest.fixture
def validate(run_python, tmp_path):
    """Runs the command; returns its exit code, its lines by number, and what it printed."""

    def run(*flags, **environment):
        file = tmp_path / "report.json"
        done = run_python(
            ["-m", "dual_device_strategy.validate", f"--json={file}", *flags],
            UNOPTIMIZED_GRAPHS="1",
            **environment,
        )
        assert "Traceback" not in done.stderr
        lines = json.loads(file.read_text())["lines"] if file.exists() else []
        return done.returncode, {line["number"]: line for line in lines}, done

    return run


def failures(report):
    return [(line.text, line.remedy) for line in report.lines if line.status is Status.FAIL]


def test_two_emulated_gpus_of_four_pass_all_five_sections(validate):
    code, lines, done = validate("--emulate_gpus=4", "--data_gpu=3", "--model_gpu=1")
    failed = [line for line in lines.values() if line["status"] == "FAIL"]
    assert (code, failed) == (0, []), done.stdout
    assert {number.split(".")[0] for number in lines} == set("12345")
    assert lines["2.1"]["figures"]["data_logical"] == "GPU:1"
    speeds = lines["4.5"]["figures"]["gbps"]
    assert speeds["CPU:0 (pageable) -> GPU:1"] < speeds["CPU:0 (pinned) -> GPU:1"]
    assert lines["2.3"]["text"] == "what is sent to GPU:1 arrives on physical GPU 3"
    assert "   5.1 PASS  4 of 4 slots in use while a step holds batch 0\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("All ")


def test_a_driver_whose_gpus_tensorflow_cannot_see_fails_and_logical_cpus_pass_the_rest(validate):
    code, lines, done = validate(
        FAKE_NVML='{"gpus": ["NVIDIA RTX A5000", "NVIDIA RTX A5000"]}',
        PYTHONPATH=os.pathsep.join([str(FAKE_DRIVER), str(ROOT)]),
    )
    failed = [number for number, line in lines.items() if line["status"] == "FAIL"]
    assert (code, failed) == (1, ["1.4"]), done.stdout
    assert lines["1.3"]["text"].startswith(
        "driver 550.54.14 (CUDA 12.4) with 2 GPUs: NVIDIA RTX A5000 at 0000:10:00.0, 1024 of 24576"
    )
    assert "pip install 'dual-device-strategy[gpu]'" in lines["1.4"]["remedy"]
    assert lines["2.1"]["figures"]["model_logical"] == "CPU:1"
    assert done.stdout.splitlines()[-1].endswith(": 1.4")


def test_a_gpu_that_does_not_exist_fails_the_configuration_and_ends_the_report(validate):
    code, lines, done = validate("--emulate_gpus=2", "--data_gpu=0", "--model_gpu=5")
    assert code == 1
    assert lines["2.1"]["status"] == "FAIL"
    assert lines["2.1"]["remedy"].startswith(
        "model_gpu=5 does not exist: TensorFlow sees 2 GPUs, 0 to 1; name two of them"
    )
    assert "3. Model" not in done.stdout


def test_running_out_of_memory_fails_a_section_with_the_flags_that_raise_the_limit():
    report = Report()
    with report.section("Too much", remedy="another"), tf.device("GPU:0"):
        tf.zeros([2 << 30], tf.int8)
    (failed,) = failures(report)
    assert failed[0] == "a device ran out of memory"
    assert "--data_gpu_memory_mb, --model_gpu_memory_mb" in failed[1]
    with report.section("Something else", remedy="look there"):
        raise OSError("no such thing\nwith details")
    assert failures(report)[1] == ("OSError: no such thing", "look there")
    assert report.summary().endswith(": 1.1, 2.1")


def test_bytes_that_arrive_on_another_card_than_promised_fail_the_configuration():
    swapped = Devices(
        Device("data", "GPU:0", physical=1, name="emulated GPU", memory="memory grows"),
        Device("model", "GPU:1", physical=0, name="emulated GPU", memory="memory grows"),
        "as asked",
    )
    report = Report()
    configuration.check(report, lambda: swapped)
    assert [text for text, _ in failures(report)] == [
        "what is sent to GPU:0 arrives on physical GPU 0",
        "what is sent to GPU:1 arrives on physical GPU 1",
    ]
    assert failures(report)[0][1].startswith("expected physical GPU 1: start nothing of TensorFlow")


@pytest.fixture
def four_real_gpus(monkeypatch):
    """Emulated GPUs pass for real ones, and a fake driver tells of two more and of their links."""
    monkeypatch.setattr(emulation, "active", lambda: None)
    monkeypatch.syspath_prepend(str(FAKE_DRIVER))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    layout = {"gpus": ["NVIDIA A"] * 4, "links": {"2-3": "nvlink", "0-1": "socket"}}
    monkeypatch.setenv("FAKE_NVML", json.dumps(layout))
    addresses = [f"0000:{number}0:00.0" for number in (1, 2, 3, 4)]
    monkeypatch.setattr(topology, "cuda_bus_ids", lambda: addresses)
    yield
    sys.modules.pop("pynvml", None)


def test_the_better_pair_of_four_gpus_is_told_with_the_reason(four_real_gpus, monkeypatch):
    report = Report()
    configuration.check(report, lambda: PAIR)
    assert [line.text for line in report.lines if "better" in line.text] == [
        "GPUs 0 and 1 are joined by the same processor socket; 2 and 3 would be better, joined by "
        "NVLink"
    ]
    assert any("does not tell which card" in line.text for line in report.lines)

    two = tf.config.list_physical_devices("GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: two * 2)
    prerequisites.check(report)
    assert not failures(report)
    texts = [line.text for line in report.lines]
    assert "the better pair is 2 and 3, joined by NVLink" in texts
    assert any(
        text.startswith("GPUs joined: 0 and 1 by the same processor socket; 0 and 2 by different")
        for text in texts
    )


def test_a_limit_beyond_the_cards_memory_fails_the_configuration(four_real_gpus, monkeypatch):
    limit = [tf.config.LogicalDeviceConfiguration(memory_limit=32768)]
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: limit)
    report = Report()
    configuration.check(report, lambda: PAIR)
    assert failures(report) == [
        (
            f"{name}: limit 32768 MB of the card's 24576 MB",
            f"give less than 24576 MB for {name}",
        )
        for name in ("GPU:0", "GPU:1")
    ]


def test_a_strategy_on_the_wrong_device_fails_the_placement(monkeypatch):
    def on_the_data_device(data, model):
        return tf.distribute.OneDeviceStrategy(data)

    monkeypatch.setattr(placement, "DataModelSplitStrategy", on_the_data_device)
    report = Report()
    placement.check(report, PAIR)
    failed = dict(failures(report))
    assert "12 variables of the model: 12 on GPU:0" in failed
    assert "1 batches: 1 on GPU:0" in failed
    assert all(remedy.startswith("expected ") for remedy in failed.values())


def test_one_layer_on_the_wrong_device_is_found_among_the_steps_operations(monkeypatch):
    import keras

    class Elsewhere(keras.layers.LayerNormalization):
        def call(self, inputs):
            with tf.device("GPU:0"):
                return super().call(inputs)

    monkeypatch.setattr(keras.layers, "LayerNormalization", Elsewhere)
    report = Report()
    placement.check(report, PAIR)
    ((text, remedy),) = failures(report)
    assert "operations of the compiled step on GPU:1, " in text and " on GPU:0 (" in text
    assert "leave out tf.device" in remedy


@pytest.mark.parametrize("broken", [False, True])
def test_looking_at_the_graphs_ends_with_the_check(monkeypatch, broken):
    from tensorflow.python.eager import context

    def fail(*_, **__):
        raise RuntimeError("broken")

    if broken:
        monkeypatch.setattr(tf.summary, "trace_export", fail)
    with pytest.raises(RuntimeError) if broken else contextlib.nullcontext():
        placement.check(Report(), PAIR)
    assert int(tf.function(lambda x: x + 1)(tf.constant(1))) == 2
    assert not context.context().export_run_metadata().function_graphs


def test_one_damaged_byte_in_one_of_a_hundred_batches_fails_the_transfer(monkeypatch):
    class Damaging(DataModelSplitStrategy):
        def experimental_distribute_dataset(self, dataset, options=None):
            def damage(index, batch):
                sent = batch["uint8"]
                flipped = tf.tensor_scatter_nd_update(sent, [[77]], [255 - sent[77]])
                return {**batch, "uint8": tf.where(index == 57, flipped, sent)}

            damaged = dataset.enumerate().map(damage)
            return super().experimental_distribute_dataset(damaged, options)

    monkeypatch.setattr(transfer, "DataModelSplitStrategy", Damaging)
    report = Report()
    transfer.check(report, PAIR)
    ((text, remedy),) = failures(report)
    assert text == "arrived with another checksum: uint8 1 times"
    assert "switch off ACS and IOMMU" in remedy


def test_a_strategy_that_stages_nothing_fails_the_pipeline(monkeypatch):
    class Unstaged(tf.distribute.OneDeviceStrategy):
        def __init__(self, data, model):
            super().__init__(model)
            self.extended.slots = 3

        def experimental_distribute_dataset(self, dataset, options=None):
            one_at_a_time = tf.data.Options()
            one_at_a_time.experimental_optimization.apply_default_optimizations = False
            one_at_a_time.experimental_optimization.inject_prefetch = False
            return dataset.with_options(one_at_a_time)

    monkeypatch.setattr(pipeline, "DataModelSplitStrategy", Unstaged)
    monkeypatch.setattr(pipeline, "ROUNDS", 1)
    report = Report()
    pipeline.check(report, PAIR)
    (slots, _), (overlap, remedy) = failures(report)
    assert slots == "1 of 3 slots in use while a step holds batch 0"
    assert overlap.endswith("x the slowest part")
    assert "this was the best of 1 rounds" in remedy


def test_real_gpus_are_kept_busy_by_matrix_products(monkeypatch):
    monkeypatch.setattr(pipeline, "work_on", lambda device: pipeline.multiplying(device.logical))
    for name, value in (("STEPS", 8), ("WARM_UP", 5), ("ROUNDS", 1)):
        monkeypatch.setattr(pipeline, name, value)
    report = Report()
    pipeline.check(report, PAIR)
    (measured,) = report.lines[1].figures["rounds"]
    assert min(measured[name] for name in ("data_ms", "model_ms", "step_ms")) > 1
    assert max(measured["busy"]) > 0
