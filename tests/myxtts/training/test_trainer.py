"""Whole runs: the same under every strategy, stopped and continued, refused with a sentence."""

import dataclasses
import os
import signal

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy
from myxtts import UserError
from myxtts.training.run_directory import RunDirectory, load_networks
from myxtts.training.step_log import read_steps

STAGES = ("tokenizer", "gpt", "vocoder")


def losses(directory):
    return [
        (line["stage"], line["step"], line["epoch"], line["batch"], line["loss"])
        for line in read_steps(RunDirectory(directory).steps_file)
    ]


@pytest.fixture(scope="module")
def plain(sides, tmp_path_factory):
    """A whole run under OneDeviceStrategy, never stopped."""
    from tests.myxtts.training.conftest import CONFIG
    from myxtts.training.trainer import Trainer

    path = tmp_path_factory.mktemp("plain")
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    report = Trainer(CONFIG, path, *sides, strategy=strategy, progress=False).run()
    return path, report


def test_a_run_leaves_a_voice_and_what_it_came_to(plain):
    path, report = plain
    run = RunDirectory(path)
    assert report.finished and report.interrupted is None
    for stage, result in report.stages.items():
        assert result["steps"] == 8 and result["held_out"] and result["skipped"] == 0, stage
        assert (run.stage(stage) / "best").is_dir()
    assert [line[:2] for line in losses(path)] == [(s, i) for s in STAGES for i in range(8)]
    assert run.default_vocoder() in ("network", "griffin_lim")
    text = run.report_file.read_text()
    assert "Griffin" in text or "griffin" in text
    assert run.loss_picture.stat().st_size > 1000
    assert list(run.samples.glob("*/*/*.wav"))
    networks = load_networks(path)
    mel = tf.zeros([1, 20, 80])
    codes, lengths = networks.tokenizer.encode(mel, tf.constant([20]))
    assert networks.vocoder(networks.tokenizer.decode(codes, lengths), tf.zeros([1, 8])).shape[1] > 0
    assert networks.gpt is not None and networks.conditioning is not None
