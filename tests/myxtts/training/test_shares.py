"""`--shares=auto` while a stage trains: trials, what is chosen, and what a continued run knows."""

import json

import pytest

from dual_device_strategy import MirroredDataModelSplitStrategy
from dual_device_strategy.replicas.plans import Costs
from myxtts.training import step_records
from myxtts.training.run_directory import RunDirectory
from myxtts.training.shares import ShareTrials
from tests.myxtts.training.toy_stage import Toy
from tests.share_times import only_whole_batches, pretend

SHARED = (["CPU:1"], ["CPU:2", "CPU:1"])
COSTS = Costs(front_end=30, front_fixed=0, step_fixed=0, step=60)  # 3:1 rows of four


@pytest.fixture
def trials(monkeypatch):
    """The plans of the trials, of five steps each."""
    monkeypatch.setattr(ShareTrials, "STEPS", 5)
    monkeypatch.setattr(ShareTrials, "STEPS_OF_SHAPES", 5)
    only_whole_batches(monkeypatch)
    return pretend(monkeypatch, COSTS, least=4)


def rows(trials):
    return [plan.rows for plan in trials]


def strategy():
    return MirroredDataModelSplitStrategy(*SHARED, shares="auto")


def losses(path):
    lines = map(json.loads, RunDirectory(path).steps_file.read_text().splitlines())
    return [line["loss"] for line in lines]


def test_shares_follow_from_the_first_steps_and_losses_stay(trials, toy, tmp_path):
    plain = toy(path=tmp_path / "plain", max_steps=16)()
    report = toy(path=tmp_path / "auto", max_steps=16, strategy=strategy())()
    assert rows(trials) == [(2, 2), (3, 1)]
    assert report.stages["tokenizer"]["shares"] == {
        "rows": [3, 1],
        "each_prepares_its_own": False,
    }
    assert plain.stages["tokenizer"]["shares"] is None
    assert losses(tmp_path / "auto") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)


def test_a_run_that_was_killed_goes_on_with_the_shares_it_had(trials, toy, tmp_path, monkeypatch):
    wanted = toy(path=tmp_path / "plain", max_steps=16)()
    write = step_records.StepRecords.fetch

    def killed(self, **options):
        write(self, **options)
        if self._progress.step >= 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step_records.StepRecords, "fetch", killed)
        with pytest.raises(KeyboardInterrupt):
            toy(max_steps=16, strategy=strategy())()
    assert rows(trials) == [(2, 2), (3, 1)]
    trials.clear()
    again = strategy()
    report = toy(max_steps=16, strategy=again)()
    assert not trials and again.share_choice.plan.rows == (3, 1)
    assert report.stages["tokenizer"]["steps"] == wanted.stages["tokenizer"]["steps"]
    assert losses(tmp_path) == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)


def test_another_phase_has_trials_of_its_own_and_another_stage_begins_with_equal_shares(
    trials, toy, tmp_path, monkeypatch
):
    both = strategy()
    with monkeypatch.context() as patch:
        patch.setattr(Toy, "phases", (0, 11))
        toy(path=tmp_path / "one", max_steps=24, strategy=both)()
    assert rows(trials) == [(2, 2), (3, 1), (3, 1)]
    trials.clear()
    toy(path=tmp_path / "two", max_steps=6, strategy=both)()
    assert rows(trials) == [(2, 2)]


def test_a_stage_that_is_too_short_says_that_its_shares_are_equal(trials, toy, caplog):
    report = toy(max_steps=4, strategy=strategy())()
    assert "--shares=auto needs more than 5 steps to choose, and this stage has 4" in caplog.text
    assert not trials and report.stages["tokenizer"]["shares"] is None
