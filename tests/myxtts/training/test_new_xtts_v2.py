"""The published XTTS v2 from random weights: trained, killed and continued, exported, spoken."""

import dataclasses
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from myxtts import UserError
from myxtts.config import TextConfig
from myxtts.export import export_published
from myxtts.model.config import ModelConfig, new_xtts_v2
from myxtts.training.loop import Loop
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage_run import StageRun
from myxtts.training.start import random_start, start_of
from myxtts.xtts_v2.beginning import NO_LICENCE
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import check_published
from myxtts.xtts_v2.voice import PublishedVoice
from tests.myxtts.training.fine_tuning import ALL, deterministic_ops, tensors, trainer, variables_of
from tests.published_start import small_model

pytestmark = pytest.mark.slow


def begun(clips, run=None):
    """The start of a run of the smallest networks."""
    text = TextConfig(vocabulary_size=300)
    model = new_xtts_v2(ModelConfig(text=text, xtts_v2=small_model()))
    return random_start(model, clips[0], 5, run)


class Enough(Exception):
    pass


@pytest.fixture(scope="module")
def from_nothing(clips, tmp_path_factory):
    """A `run` of all stages, six steps each, its `results` and `export`; the variables of the first
    stage after its last step, and the same of a run that went on from what was there when that step
    was made and not saved (`never_killed`, `killed`)."""
    path = tmp_path_factory.mktemp("from_nothing")
    made = SimpleNamespace(run=path / "run", export=path / "export")
    steps, killed = Loop.run, path / "killed"

    def copying(self, *arguments):
        steps(self, *arguments)
        if self.stage.name == "tokenizer" and int(self.step.numpy()) == 6:
            made.never_killed = variables_of(self)
            shutil.copytree(made.run, killed)

    def stopping(self, *arguments):
        assert 3 <= int(self.step.numpy()) < 6
        steps(self, *arguments)
        if int(self.step.numpy()) == 6:
            made.killed = variables_of(self)
            raise Enough

    settings = {"deterministic": True, "max_steps": 6 * len(ALL)}
    with pytest.MonkeyPatch.context() as patch, deterministic_ops():
        patch.setattr(Loop, "run", copying)
        patch.setattr(StageRun, "show", lambda self: None)
        made.results = trainer(made.run, begun(clips), clips, **settings).run(ALL).stages
        patch.setattr(Loop, "run", stopping)
        with pytest.raises(Enough):
            trainer(killed, begun(clips, RunDirectory(killed)), clips, **settings).run(ALL)
    export_published(made.run, made.export, [f"Me:{clips[0].paths[0]}"])
    return made


def test_every_stage_learns_and_every_part_is_trained(from_nothing):
    for stage, figure in (
        ("tokenizer", "reconstruction"),
        ("gpt", "audio_loss"),
        ("vocoder", "mel"),
    ):
        losses = [one[figure] for one in from_nothing.results[stage]["evaluations"]]
        assert losses[-1] < losses[0], stage
    assert from_nothing.results["tokenizer"]["held_out"]["perplexity"] > 4
    before, after = tensors(from_nothing.run / "init"), tensors(from_nothing.export)
    assert before.keys() == after.keys()
    kept = {name for name in before if np.array_equal(before[name], after[name])}
    # Constants, counts, and what a softmax over places does not depend on.
    still = "discrete_loss.|torch_spec.|mel_stats|num_batches_tracked|attention.3.bias"
    assert [name for name in kept if not re.search(still, name)] == []


def test_an_export_has_the_published_layout_and_speaks(from_nothing, start_directory, clips):
    source = PublishedDirectory.open(from_nothing.export)
    check_published(source)
    published = PublishedDirectory.open(start_directory)
    for mine, theirs in ((source.model, published.model), (source.dvae, published.dvae)):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            of_tokens = name.startswith("gpt.text_")
            assert value.shape[of_tokens:] == theirs[name].shape[of_tokens:], name
    assert json.loads((from_nothing.export / "config.json").read_text())["languages"] == ["en"]
    assert source.licence == NO_LICENCE
    assert not (source.mel_stats == published.mel_stats).any() and (source.mel_stats > 1).all()
    voice = PublishedVoice.of(source)
    made = voice.speak(clips[0].texts[0], "en", voice.speaker("Me"))
    assert len(made) > 256 and np.isfinite(made).all() and made.std() > 0
    # What was trained from nothing is fine-tuned like any published model.
    assert start_of(from_nothing.run).model.form == "xtts_v2"


def test_a_killed_run_goes_on_as_one_that_was_not(from_nothing):
    """With the codes that are due to be moved, and the statistics of the batch norms."""
    assert len(from_nothing.killed) == len(from_nothing.never_killed)
    for (name, value), (_, now) in zip(from_nothing.never_killed, from_nothing.killed, strict=True):
        np.testing.assert_array_equal(now, value, err_msg=name)


def test_networks_that_still_have_random_weights_are_refused(from_nothing, clips, tmp_path):
    run = shutil.copytree(from_nothing.run, tmp_path / "run")
    shutil.rmtree(run / "checkpoints/vocoder")
    with pytest.raises(UserError, match=r"the vocoder in .* still has the random weights that it"):
        published_source(run)
    shutil.rmtree(run / "checkpoints/tokenizer")
    shutil.rmtree(run / "checkpoints/gpt")
    with pytest.raises(UserError, match="the stage gpt needs the result of the stage tokenizer"):
        trainer(run, begun(clips, RunDirectory(run)), clips).run(["gpt"])
    with pytest.raises(UserError, match="was begun with random weights, not /other; give that"):
        start_of("/other", RunDirectory(run))


def test_a_run_begins_anew_with_the_same_weights_and_tokens(from_nothing, clips, tmp_path):
    """One that is killed before its init/ is whole."""
    start = begun(clips)
    assert start.model == begun(clips, RunDirectory(from_nothing.run)).model
    start.leave(RunDirectory(tmp_path), ["en"])
    again, before = tensors(tmp_path / "init"), tensors(from_nothing.run / "init")
    for name, value in before.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    other = dataclasses.replace(start.beginning, seed=6).drawn()
    assert not np.array_equal(other.model["gpt.mel_head.weight"], before["gpt.mel_head.weight"])
