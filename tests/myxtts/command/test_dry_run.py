"""What --dry_run says before anything is trained."""

import dataclasses

import pytest

from dual_device_strategy.devices import Device, Devices
from myxtts.command import dry_run
from myxtts.command.corpora import Clips
from myxtts.command.flags import all_flags


def test_a_stage_that_is_registered_has_flags_and_stands_in_the_dry_run(
    fourth_stage, read_line, spoken_corpus, corpus_path, capsys
):
    names = {flag.name: flag for flag in all_flags()}
    assert {"loudness_lr", "loudness_share", "loudness_batch_size"} <= names.keys()
    assert "tokenizer, gpt, vocoder, loudness, or all" in names["stage"].help
    job = read_line("--loudness_lr=0.5 --loudness_batch_size=7").job
    assert job.stages[-1] == "loudness" and job.train.batch_size("loudness") == 7
    assert job.train.stage("loudness").learning_rate == 0.5
    normal = read_line("--model_size=normal").job.train
    assert normal.stage("loudness").learning_rate == pytest.approx(0.01 / 3)

    training, held_out = spoken_corpus.split(0.2)
    cpus = [Device("model", f"CPU:{i}", i, "a logical CPU", "host memory") for i in range(3)]
    devices = Devices((dataclasses.replace(cpus[0], role="data"),), tuple(cpus[1:]), "asked for")
    dry_run.describe(job, Clips(training, held_out, {}, "a summary"), devices)
    shown = capsys.readouterr().out.splitlines()
    parts = [line.split() for line in shown]
    assert ["loudness", "loudness", "0.00", "M"] in parts
    assert ["data", "CPU:0", "loudness", "batches", "of", "7", "clips:"] in [p[:7] for p in parts]
    for cpu in ("CPU:1", "CPU:2"):
        told = ["model", cpu, "loudness", "4", "clips", "of", "batches", "of", "7:"]
        assert told in [p[:9] for p in parts]
    assert '"loudness": {' in "".join(shown)
