"""The run of a stage around its steps, of a stage that is traced within a second."""

import contextlib
import dataclasses
import json
import logging
import os
import re
import resource
import shutil

import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.model.config import GptConfig
from myxtts.training import checkpoints, precision, stage_run
from myxtts.training import trainer as trainers
from myxtts.training.budget import Budget
from myxtts.training.checkpoints import DamagedCheckpoint, step_directories
from myxtts.training.config import TrainConfig
from myxtts.training.run_directory import RunDirectory, default_vocoder
from myxtts.training.stages import STAGES
from myxtts.training.stages.tokenizer import TokenizerStage
from myxtts.training.step_log import StepLog, read_steps
from tests.myxtts.training.toy_stage import Toy


@pytest.fixture
def toy(make_trainer, monkeypatch, tmp_path):
    """toy(spoil=..., **settings).run() in tmp_path; three batches are an epoch."""

    def make(spoil=(), path=None, **settings):
        stage = type("Toy", (Toy,), {"spoil": spoil})
        monkeypatch.setitem(STAGES, "tokenizer", stage)
        chosen = make_trainer(path or tmp_path, **{"max_steps": 12, **settings})
        return lambda: chosen.run(["tokenizer"])

    return make


def steps(path):
    return [line["step"] for line in read_steps(RunDirectory(path).steps_file)]


def test_checkpoints_keep_the_last_and_the_best(toy, tmp_path):
    report = toy(keep_checkpoints=2)()
    stage = RunDirectory(tmp_path).stage("tokenizer")
    assert [path.name for path in step_directories(stage)] == ["step-00000009", "step-00000012"]
    result = report.stages["tokenizer"]
    state = json.loads((stage / "best" / "state.json").read_text())
    assert state["step"] == result["best_step"]
    assert result["held_out"]["loss"] == min(e["loss"] for e in result["evaluations"])
    newest = json.loads((stage / "step-00000012" / "state.json").read_text())
    assert newest["progress"]["trained_on"] == [3, 2]  # twelve batches, three an epoch
    assert newest["config"]["max_steps"] == 12 and newest["identity"]["vocabulary"]


def test_a_bad_batch_is_left_out_and_the_run_goes_on(toy, tmp_path):
    result = toy(spoil=(1, 4))().stages["tokenizer"]
    assert result["skipped"] == 2 and result["steps"] == 12
    lines = read_steps(RunDirectory(tmp_path).steps_file)
    assert [line["step"] for line in lines if not line["counts"]] == [1, 4]


def test_bad_batches_in_a_row_stop_the_run_with_their_clips(toy, tmp_path):
    run = toy(spoil=range(6, 100), max_skipped=4)
    with pytest.raises(trainers.TrainingFailed) as failure:
        run()
    text = str(failure.value)
    assert "4 steps in a row" in text and "step 9 (epoch 3, batch 0)" in text
    assert "with the clips" in text and ".wav" in text
    # Saved every three steps; at the ninth three were left out, which is not too many yet.
    assert step_directories(RunDirectory(tmp_path).stage("tokenizer"))[-1].name == "step-00000009"


def test_bad_batches_are_counted_across_an_interruption(toy, tmp_path):
    with pytest.raises(trainers.TrainingFailed):
        toy(spoil=range(5, 100), max_skipped=6)()
    # The checkpoint after step 9 remembers four of them.
    with pytest.raises(trainers.TrainingFailed, match=r"6 steps in a row.*step 10 "):
        toy(spoil=range(5, 100), max_skipped=6)()


def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_offered(toy, tmp_path):
    toy(max_steps=9)()
    stage = RunDirectory(tmp_path).stage("tokenizer")
    (stage / "finished.json").unlink()
    newest, before = step_directories(stage)[-1], step_directories(stage)[-2]
    data = newest / "training.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(DamagedCheckpoint) as refusal:
        toy(max_steps=9)()
    text = str(refusal.value)
    assert f"{newest} is damaged: training.data-00000-of-00001" in text
    assert f"The one before it, {before}, is whole: delete {newest}" in text
    shutil.rmtree(newest)
    assert toy(max_steps=9)().stages["tokenizer"]["steps"] == 9
    assert steps(tmp_path) == list(range(9))


@pytest.mark.parametrize("name", ["state.json", "weights.index"])
def test_a_checkpoint_with_a_changed_or_missing_file_is_refused(name, toy, tmp_path):
    toy(max_steps=6)()
    stage = RunDirectory(tmp_path).stage("tokenizer")
    (stage / "finished.json").unlink()
    newest = step_directories(stage)[-1]
    if name == "state.json":
        text = (newest / name).read_text()
        (newest / name).write_text(text.replace('"step": 6', '"step": 5'))
    else:
        (newest / name).unlink()
    with pytest.raises(DamagedCheckpoint, match=f"damaged: {name} is (not what|missing)"):
        toy(max_steps=6)()


def test_a_checkpoint_made_with_other_settings_is_refused_with_the_setting(toy, tmp_path):
    toy(max_steps=6)()
    (RunDirectory(tmp_path).stage("tokenizer") / "finished.json").unlink()
    with pytest.raises(UserError, match="seed=0, not 3; give what it was made with"):
        toy(max_steps=6, seed=3)()
    with pytest.raises(UserError, match="precision='float32', not 'bfloat16'"):
        toy(max_steps=6, precision="bfloat16")()
    # What decides neither weights nor batches may change.
    assert toy(max_steps=8, log_steps=3)().stages["tokenizer"]["steps"] == 8


def test_continuing_with_another_batch_size_of_the_stage_is_refused(toy, small_config, tmp_path):
    toy(max_steps=6)()
    (RunDirectory(tmp_path).stage("tokenizer") / "finished.json").unlink()
    learning = small_config.stage("tokenizer")
    smaller = dataclasses.replace(learning, batch_size=2)
    with pytest.raises(UserError, match=r"batches\.batch_size=4, not 2"):
        toy(max_steps=8, stages={"tokenizer": smaller})()
    # The batch size of another stage has no part in it, nor has the way in which it is said.
    stages = {
        "tokenizer": dataclasses.replace(learning, batch_size=4),
        "gpt": dataclasses.replace(learning, batch_size=2),
    }
    assert toy(max_steps=8, stages=stages)().stages["tokenizer"]["steps"] == 8


def contents(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_finished_run_refuses_the_job_of_another_and_is_left_as_it_was(
    toy, small_config, sides, tmp_path
):
    toy(max_steps=6)()
    before = contents(tmp_path)
    training, held_out, _ = sides
    fewer = training.subset(range(len(training) - 1))
    for change, said in (
        ({"corpus": fewer}, "on other clips"),
        ({"validation": held_out.subset([0])}, "other held-out clips"),
        ({"validation": None}, "other held-out clips"),
        ({"seed": 3}, "seed=0, not 3"),
        ({"grad_accum": 2}, "grad_accum=1, not 2"),
        ({"tokenizer_frames": 16}, "tokenizer_frames=32, not 16"),
        ({"model": dataclasses.replace(small_config.model, gpt=GptConfig())}, "model.gpt."),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            toy(max_steps=6, **change)()
        assert contents(tmp_path) == before, change


def test_a_run_that_another_job_has_begun_is_refused_before_its_first_checkpoint(
    toy, sides, tmp_path
):
    with pytest.raises(trainers.TrainingFailed):
        toy(spoil=range(100), max_skipped=2)()
    assert not step_directories(RunDirectory(tmp_path).stage("tokenizer"))
    before = contents(tmp_path)
    with pytest.raises(UserError, match="on other clips"):
        toy(corpus=sides[0].subset([0, 1, 2, 3, 4]))()
    assert contents(tmp_path) == before


def test_a_finished_stage_says_which_new_settings_have_no_effect_on_it(
    toy, small_config, tmp_path, caplog
):
    first = toy(max_steps=6)()
    before = RunDirectory(tmp_path).config_file.read_bytes()
    slower = dataclasses.replace(small_config.stage("tokenizer"), learning_rate=1e-5)
    with caplog.at_level(logging.WARNING, logger="absl"):
        again = toy(max_steps=12, stages={"tokenizer": slower}, log_steps=7)()
    assert again.stages == first.stages
    (said,) = [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()]
    assert "tokenizer.learning_rate=0.001, not 1e-05" in said and "max_steps=6, not 12" in said
    assert "log_steps" not in said
    assert RunDirectory(tmp_path).config_file.read_bytes() == before


def test_training_stops_early_when_nothing_gets_better(toy, monkeypatch):
    from myxtts.training.loop import Loop

    evaluated = []

    def evaluate(self, iterator, batches):
        evaluated.append(1.0 if len(evaluated) < 2 else 2.0)
        return {"loss": evaluated[-1]}

    monkeypatch.setattr(Loop, "evaluate", evaluate)
    result = toy(max_steps=40, evaluate_steps=2, patience=2)().stages["tokenizer"]
    assert result["reason"] == "no better in 2 evaluations"
    assert result["steps"] == 6 and result["best_step"] == 2


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
    monkeypatch.setattr(trainers, "time", clock)
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


def test_two_trainings_in_one_directory_are_refused(toy, tmp_path):
    run = toy()
    import fcntl

    with open(tmp_path / ".lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another training is running in"):
            run()
    assert run().finished


def test_a_directory_that_cannot_be_written_is_one_sentence(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written: Not a directory"):
        toy(path=tmp_path / "file" / "run")()


def test_a_disk_that_is_full_while_saving_is_one_sentence_and_leaves_the_others(toy, tmp_path):
    toy(max_steps=6)()
    run = RunDirectory(tmp_path)
    (run.stage("tokenizer") / "finished.json").unlink()
    before = step_directories(run.stage("tokenizer"))
    # No file may become larger: to the process a disk without room.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    variables = {"weights": [tf.Variable(tf.ones([5000]))]}
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(UserError) as refusal:
            checkpoints.save(run.stage("tokenizer") / "step-00000007", {}, variables)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    text = str(refusal.value)
    assert "step-00000007 cannot be written" in text and "Make room" in text and "\n" not in text
    assert step_directories(run.stage("tokenizer")) == before
    assert toy(max_steps=9)().stages["tokenizer"]["steps"] == 9


def test_a_best_that_was_moved_away_when_its_process_ended_is_put_back(tmp_path, monkeypatch):
    best, variables = tmp_path / "best", {"weights": [tf.Variable([1.0])]}
    checkpoints.save(best, {"step": 1}, variables)
    rename = os.rename

    def ending(source, target):
        if source.name == "best.partial":
            raise SystemExit
        rename(source, target)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(os, "rename", ending)
        checkpoints.save(best, {"step": 2}, variables)
    assert not best.exists()
    checkpoints.clear_leftovers(tmp_path)
    assert checkpoints.read_state(best)["step"] == 1
    assert not list(tmp_path.glob("*.partial"))


def test_a_log_on_a_full_disk_is_one_sentence(tmp_path):
    log = StepLog.continued(tmp_path / "steps.jsonl", "tokenizer", 0)
    log.close()
    log._file = open("/dev/full", "w")  # noqa: SIM115 -- closing it fails as well
    with pytest.raises(UserError, match=r"cannot be written: No space left on device; make room"):
        log.write(0, [{"loss": 1.0}])
    with contextlib.suppress(OSError):
        log._file.close()


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


def test_a_stage_that_hardly_began_is_said_to_be_untrained_and_so_is_a_codebook_that_collapsed(
    toy, small_config, tmp_path, caplog
):
    learning = dataclasses.replace(small_config.stage("tokenizer"), warm_up_steps=200)
    assert not TokenizerStage.complaints(small_config, {"perplexity": 20.0})
    with caplog.at_level(logging.WARNING, logger="absl"):
        report = toy(max_steps=6, stages={"tokenizer": learning})()
    assert report.stages["tokenizer"]["untrained"]
    assert "**tokenizer**: it is untrained: it made 6 steps, fewer than the 200" in report.text
    assert "tokenizer: it is untrained" in caplog.text
    (said,) = TokenizerStage.complaints(small_config, {"perplexity": 1.04})
    assert "of its 32 codes as good as 1.0 are in use" in said
    assert default_vocoder({"untrained": True, "default_vocoder": "network"}) == "griffin_lim"
    assert default_vocoder({"untrained": False, "default_vocoder": "network"}) == "network"


def test_what_is_wrong_with_a_stage_is_said_after_every_evaluation_and_in_the_report(
    toy, caplog, monkeypatch
):
    odd = classmethod(lambda cls, config, figures: [f"a loss of {figures['loss']:.0f} is odd"])
    monkeypatch.setattr(Toy, "complaints", odd)
    with caplog.at_level(logging.WARNING, logger="absl"):
        report = toy(max_steps=12, evaluate_steps=4)()
    assert len([r for r in caplog.records if "is odd" in r.getMessage()]) == 4
    assert "is odd." in report.text
    assert report.stages["tokenizer"]["seconds_in_steps"] >= 0
