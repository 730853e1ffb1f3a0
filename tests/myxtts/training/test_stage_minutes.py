"""How many steps a budget of minutes is, and which number type is fast."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import pytest

from myxtts import UserError
from myxtts.training import precision, stage_run, workers
from myxtts.training.budget import Budget
from myxtts.training.checkpoints import step_directories
from myxtts.training.config import TrainConfig
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage_checkpoints import Progress
from myxtts.training.stage_run import StageRun
from myxtts.training.step_log import read_steps


class Clock:
    """A second hand that moves whenever somebody looks."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 0.01
        return self.now


def test_a_budget_of_minutes_is_planned_once_and_kept_when_continued(toy, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stage_run, "time", clock)
    monkeypatch.setattr(workers, "time", clock)
    settings = {"max_steps": None, "max_minutes": 0.05, "log_steps": 50, "evaluate_steps": 10**6}
    settings |= {"checkpoint_steps": 10**6, "sample_steps": 10**6}
    toy(**settings)()
    stage = RunDirectory(tmp_path).stage("tokenizer")
    # One checkpoint is of the moment when the number of steps was known, another one of that when
    # it was corrected, half way.
    *_, first, last = step_directories(stage)
    planned = [
        json.loads((path / "state.json").read_text())["progress"]["planned"]
        for path in (first, last)
    ]
    assert planned[0] == planned[1] > 10
    (stage / "finished.json").unlink()
    shutil.rmtree(last)
    lines = read_steps(RunDirectory(tmp_path).steps_file)
    toy(**settings)()
    again = read_steps(RunDirectory(tmp_path).steps_file)
    assert first in step_directories(stage) and len(again) == planned[0]
    for one, other in zip(lines, again, strict=False):
        assert (one["loss"], one["learning_rate"]) == (other["loss"], other["learning_rate"])


def test_the_number_of_steps_follows_from_the_rate_of_the_first_ones():
    config = TrainConfig(max_minutes=10.0)
    budget = Budget(config, stage="gpt", stages=("gpt",), spent={}, batches_per_epoch=100)
    assert not budget.measure(5, 20.0, 4, 15.0)  # too few steps
    assert not budget.measure(21, 25.0, 20, 20.0)  # too little time
    assert budget.measure(41, 48.0, 40, 40.0)
    # A second each; 595 of them less those that passed, and 6 % for evaluations and the like.
    assert budget.steps == 41 + int((595 - 48) * 0.94)
    assert not budget.measure(42, 50.0, 41, 42.0)
    assert not budget.is_over(594) and budget.is_over(596)


def test_a_plan_that_would_miss_its_time_is_corrected():
    config = TrainConfig(max_minutes=10.0)
    budget = Budget(config, stage="gpt", stages=("gpt",), spent={}, batches_per_epoch=100)
    budget.steps = 540
    # 270 steps more would end at 591 seconds, which is near enough; then the machine slows down.
    assert not budget.correct(270, 300.0, (30, 45.0)) and budget.steps == 540
    assert budget.correct(270, 450.0, (30, 45.0)) and budget.steps == 270 + 145 * 240 // 405


def test_a_plan_is_corrected_again_where_the_machine_slows_down_late():
    config = TrainConfig(max_minutes=10.0)
    budget = Budget(config, stage="gpt", stages=("gpt",), spent={}, batches_per_epoch=100)
    budget.steps, now, planned = 560, 0.0, []
    run = SimpleNamespace(
        progress=Progress(planned=560, planned_at=(0, 0.0)),
        budget=budget,
        seconds=lambda: now,
        save=lambda: planned.append(budget.steps),
        _plan=lambda: setattr(run.progress, "planned", budget.steps),
        _bar=SimpleNamespace(plan=lambda steps: None),
    )
    while run.progress.step < budget.steps and not budget.is_over(now):
        run.progress.step += 1
        now += 1.0 if run.progress.step <= 300 else 2.0
        StageRun._correct_plan(run)
    assert run.progress.step == budget.steps and 560 < now <= 597
    assert len(planned) > 1 and planned[-1] == budget.steps


def test_the_next_stages_have_their_share_of_the_time_whatever_the_first_one_took():
    config, stages = TrainConfig(max_minutes=10.0), ("tokenizer", "gpt", "vocoder")
    spent = {"tokenizer": 300.0, "gpt": 500.0}
    last = Budget(config, stage="vocoder", stages=stages, spent=spent, batches_per_epoch=100)
    assert last.seconds == pytest.approx(600 * config.stage("vocoder").share)
    assert last.run_seconds_left(10.0) == pytest.approx(last.seconds - 10)
    first = Budget(config, stage="tokenizer", stages=stages, spent={}, batches_per_epoch=100)
    assert first.run_seconds_left(2.0) == pytest.approx(598)


def test_shares_of_a_budget_go_to_the_stages_that_are_left():
    config = TrainConfig(max_minutes=10.0)
    stages = ("tokenizer", "gpt", "vocoder")
    first = Budget(config, stage="tokenizer", stages=stages, spent={}, batches_per_epoch=100)
    shares = [config.stage(name).share for name in stages]
    assert first.seconds == pytest.approx(600 * shares[0] / sum(shares))
    second = Budget(
        config, stage="gpt", stages=stages, spent={"tokenizer": 50.0}, batches_per_epoch=100
    )
    assert second.seconds == pytest.approx(550 * shares[1] / (shares[1] + shares[2]))
    alone = Budget(config, stage="gpt", stages=("gpt",), spent={}, batches_per_epoch=100)
    assert alone.seconds == pytest.approx(600)
    steps = Budget(
        dataclasses.replace(config, max_minutes=None, epochs=3),
        stage="gpt",
        stages=stages,
        spent={},
        batches_per_epoch=100,
    )
    assert steps.steps == 300
    for most in (7, 18, 1000):
        config = TrainConfig(max_steps=most)
        assert (
            sum(
                Budget(config, stage=name, stages=stages, spent={}, batches_per_epoch=100).steps
                for name in stages
            )
            == most
        )
    with pytest.raises(UserError, match="give --epochs, --max_steps or --max_minutes"):
        Budget(TrainConfig(), stage="gpt", stages=stages, spent={}, batches_per_epoch=100)


def test_a_run_keeps_the_precision_that_it_was_begun_with(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "fastest_precision", lambda: "bfloat16")
    toy(max_steps=6, precision="auto")()
    run = RunDirectory(tmp_path)
    assert run.identity()["precision"] == "bfloat16"
    (run.stage("tokenizer") / "finished.json").unlink()
    monkeypatch.setattr(precision, "fastest_precision", lambda: "float32")
    result = toy(max_steps=8, precision="auto")().stages["tokenizer"]
    assert result["steps"] == 8 and result["identity"]["precision"] == "bfloat16"
    assert precision.precision_for("auto", run, "gpt") == "bfloat16"
    assert precision.precision_for("auto", RunDirectory(tmp_path / "new")) == "float32"


@pytest.mark.parametrize(
    ("flags", "onednn", "wanted"),
    [("sse4_2 avx512_bf16", "1", True), ("amx_bf16", "0", False), ("avx512f", "1", False)],
)
def test_bfloat16_is_fast_where_the_processor_and_tensorflow_have_it(
    flags, onednn, wanted, tmp_path, monkeypatch
):
    about = tmp_path / "cpuinfo"
    about.write_text(f"flags\t\t: fpu {flags}\n")
    monkeypatch.setattr(precision, "_PROCESSOR", about)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", onednn)
    assert precision.bfloat16_on_cpu() == wanted
