"""A stage is one class: what it declares shows wherever stages are known."""

import dataclasses

import pytest

from myxtts import UserError
from myxtts.training.config import TrainConfig
from myxtts.training.identity import fixed_settings
from myxtts.training.memory import estimate
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import STAGES, LongestClip, register, stage_named, stage_names


def test_a_stage_that_is_registered_is_in_the_order_the_settings_and_the_estimates(fourth_stage):
    assert stage_names() == ("tokenizer", "gpt", "vocoder", "loudness")
    config = TrainConfig()
    assert config.stage("loudness") == fourth_stage.learning
    assert fixed_settings(config, "loudness").keys() == fixed_settings(config, "gpt").keys()
    found = estimate(config, "loudness", LongestClip(400, 100), 300)
    assert found.parameters == {"loudness": 2}
    frozen = estimate(config, "tokenizer", LongestClip(400, 100), 300).parameters
    assert found.fixed["data"] > 4 * sum(frozen.values())


def test_a_stage_that_is_registered_is_trained_judged_and_reported(
    fourth_stage, make_trainer, tmp_path
):
    settings = {"max_steps": 8, "evaluate_steps": 4}
    trainer = make_trainer(tmp_path, **settings)
    with pytest.raises(UserError, match="the stage loudness needs the result of the stage tok"):
        trainer.run(["loudness"])
    assert not (tmp_path / "config.json").exists()
    report = trainer.run(["loudness", "tokenizer"])
    assert list(report.stages) == ["tokenizer", "loudness"]
    assert report.stages["loudness"]["identity"]["tokenizer"]
    assert report.stages["loudness"]["held_out"]["error"] >= 0
    assert report.stages["loudness"]["clips_judged"] == 4
    assert "## Loudness\n\n4 clips were judged." in RunDirectory(tmp_path).report_file.read_text()


def test_a_stage_before_the_one_it_needs_is_refused(fourth_stage):
    early = type("Early", (fourth_stage,), {"name": "early", "needs": ("lexer",)})
    with pytest.raises(ValueError, match="early needs lexer, which is not registered before it"):
        register(early)
    assert "early" not in STAGES


def test_settings_of_a_stage_that_does_not_exist_are_refused():
    settings = TrainConfig().stages
    with pytest.raises(UserError, match=r"stages must be one of tokenizer, gpt, vocoder"):
        dataclasses.replace(TrainConfig(), stages={**settings, "lexer": settings["gpt"]})
    with pytest.raises(UserError, match="there is no stage 'lexer'; there are tokenizer, gpt"):
        stage_named("lexer")
