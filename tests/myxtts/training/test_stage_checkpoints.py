"""What a stage keeps on disk: damaged, of another job, on a full disk."""

import contextlib
import json
import os
import resource
import shutil

import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.training import checkpoints
from myxtts.training.checkpoints import DamagedCheckpoint, step_directories
from myxtts.training.run_directory import RunDirectory
from myxtts.training.step_log import StepLog
from tests.myxtts.training.test_stage_run import steps


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
def test_a_checkpoint_with_a_changed_or_missing_file_is_refused(
    name, toy, six_steps_done, tmp_path
):
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


def test_a_checkpoint_made_with_other_settings_is_refused_with_the_setting(
    toy, six_steps_done, tmp_path
):
    (RunDirectory(tmp_path).stage("tokenizer") / "finished.json").unlink()
    with pytest.raises(UserError, match="seed=0, not 3; give what it was made with"):
        toy(max_steps=6, seed=3)()
    with pytest.raises(UserError, match="precision='float32', not 'bfloat16'"):
        toy(max_steps=6, precision="bfloat16")()
    # What decides neither weights nor batches may change.
    assert toy(max_steps=8, log_steps=3)().stages["tokenizer"]["steps"] == 8


def test_a_disk_that_is_full_while_saving_is_one_sentence_and_leaves_the_others(
    toy, six_steps_done, tmp_path
):
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
