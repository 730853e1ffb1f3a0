"""The run of a stage around its steps, of a stage that is traced within a second."""

import dataclasses
import logging
import os
import re
import signal

import pytest

from dual_device_strategy import MirroredDataModelSplitStrategy
from myxtts import UserError
from myxtts.model.config import GptConfig
from myxtts.training import trainer as trainers
from myxtts.training.checkpoints import step_directories
from myxtts.training.run_directory import RunDirectory, default_vocoder
from myxtts.training.stages.tokenizer import TokenizerStage
from myxtts.training.step_log import read_steps
from myxtts.training.workers import Workers
from tests.myxtts.training.toy_stage import Toy


def steps(path):
    return [line["step"] for line in read_steps(RunDirectory(path).steps_file)]


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


def test_a_signal_that_comes_while_workers_meet_counts_at_their_next_meeting(
    toy, tmp_path, monkeypatch
):
    """Else it would be lost, or one worker would stop while the others go on."""
    meet, met = Workers.meet, []

    def and_signal(self, signalled=None):
        result = meet(self, signalled)
        met.append(result)
        if len(met) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr(Workers, "meet", and_signal)
    report = toy(steps_per_call=1)()
    assert report.interrupted == "SIGTERM" and met[2:] == [None, "SIGTERM"]
    assert not (tmp_path / "report.md").exists()


def test_bad_batches_are_counted_across_an_interruption(toy, tmp_path):
    with pytest.raises(trainers.TrainingFailed):
        toy(spoil=range(5, 100), max_skipped=6)()
    # The checkpoint after step 9 remembers four of them.
    with pytest.raises(trainers.TrainingFailed, match=r"6 steps in a row.*step 10 "):
        toy(spoil=range(5, 100), max_skipped=6)()


def test_another_number_of_devices_goes_on_with_the_same_batches(toy, tmp_path, caplog):
    two = MirroredDataModelSplitStrategy(["CPU:0"], ["CPU:1", "CPU:2"])
    with pytest.raises(trainers.TrainingFailed):
        toy(spoil=range(6, 100), max_skipped=4, strategy=two)()
    caplog.set_level(logging.INFO, logger="absl")
    toy(spoil=range(6, 100), max_skipped=30)()
    assert "2 model devices have trained it so far, 1 do now" in caplog.text
    toy(spoil=range(6, 100), max_skipped=30, path=tmp_path / "one")()
    found, wanted = (
        read_steps(RunDirectory(place).steps_file) for place in (tmp_path, tmp_path / "one")
    )
    assert len(found) == len(wanted) == 12
    for one, other in zip(found, wanted, strict=True):
        assert (one["epoch"], one["batch"]) == (other["epoch"], other["batch"])
    losses = [[line["loss"] for line in lines[:6]] for lines in (found, wanted)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_continuing_with_another_batch_size_of_the_stage_is_refused(
    toy, six_steps_done, small_config, tmp_path
):
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
    toy, six_steps_done, small_config, sides, tmp_path
):
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
    toy, six_steps_done, small_config, tmp_path, caplog
):
    before = RunDirectory(tmp_path).config_file.read_bytes()
    slower = dataclasses.replace(small_config.stage("tokenizer"), learning_rate=1e-5)
    with caplog.at_level(logging.WARNING, logger="absl"):
        again = toy(max_steps=12, stages={"tokenizer": slower}, log_steps=7)()
    assert again.stages == six_steps_done.stages
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


def test_a_stage_that_hardly_began_is_said_to_be_untrained_and_so_is_a_codebook_that_collapsed(
    toy, small_config, tmp_path, caplog
):
    learning = dataclasses.replace(small_config.stage("tokenizer"), warm_up_steps=200)
    assert not TokenizerStage.complaints(small_config, {"perplexity": 20.0})
    with caplog.at_level(logging.WARNING, logger="absl"):
        report = toy(max_steps=6, stages={"tokenizer": learning})()
    assert report.stages["tokenizer"]["untrained"]
    assert "**tokenizer**: it is untrained: it made 6 steps, fewer than 100 (half of" in report.text
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
    assert len([r for r in caplog.records if "is odd" in r.getMessage()]) == 3
    assert "is odd." in report.text
    assert report.stages["tokenizer"]["seconds_in_steps"] >= 0
