"""The loop of fine-tuning: start from a published directory, train, export, start from that."""

import dataclasses

import numpy as np
import pytest

from myxtts import UserError
from myxtts.config import BatchConfig
from myxtts.export import export_published
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.data import StageData
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.start import start_of
from myxtts.training.step_log import read_steps
from myxtts.xtts_v2.directory import PublishedDirectory
from tests.myxtts.training.fine_tuning import tensors, trainer
from tests.published_start import LICENCE


@pytest.fixture(scope="module")
def tuned(start_directory, clips, tmp_path_factory):
    """A run from the published directory, its result, and its export."""
    path = tmp_path_factory.mktemp("tuned")
    result = trainer(path / "run", start_of(start_directory), clips).run(["gpt"]).stages["gpt"]
    export_published(path / "run", path / "export", [f"Me:{clips[0].paths[0]}"])
    return path / "run", result, path / "export"


def test_training_lowers_the_held_out_loss_and_changes_what_the_stage_trains(
    start_directory, tuned
):
    _, result, export = tuned
    losses = [one["audio_loss"] for one in result["evaluations"]]
    assert losses[-1] < losses[0]
    before, after = tensors(start_directory), tensors(export)
    assert before.keys() == after.keys()
    for name, value in before.items():
        same = np.array_equal(value, after[name])
        assert same != name.startswith("gpt."), name


def test_the_export_is_a_directory_that_a_run_starts_from_with_the_same_loss(
    tuned, clips, tmp_path
):
    run, result, export = tuned
    start = start_of(export)
    assert start.licence == LICENCE == (run / "LICENSE.txt").read_text().strip()
    assert (export / "LICENSE.txt").read_text().strip() == LICENCE
    assert list(start.source.speakers) == ["Me"]
    # With a rate of nothing, the second run's figures are those of what it starts from.
    second = trainer(tmp_path / "second", start, clips, max_steps=3)
    second.config = dataclasses.replace(
        second.config, stages={"gpt": StageConfig(1e-30, 1.0, weight_decay=0.0, ema=0.0)}
    )
    found = second.run(["gpt"]).stages["gpt"]["held_out"]
    wanted = result["held_out"]
    assert found == pytest.approx(wanted, rel=1e-6)
    export_published(tmp_path / "second", tmp_path / "again", [])
    first, again = tensors(export), tensors(tmp_path / "again")
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    # A run starts from a run as it does from its export.
    assert start_of(run).model == start.model
    np.testing.assert_array_equal(
        start_of(run).source.model["gpt.mel_head.weight"], first["gpt.mel_head.weight"]
    )


def test_adapters_change_matrices_by_their_rank_and_are_added_up_in_the_export(
    start_directory, clips, tmp_path
):
    report = trainer(tmp_path / "run", start_of(start_directory), clips, rank=2).run(["gpt"])
    losses = [one["audio_loss"] for one in report.stages["gpt"]["evaluations"]]
    assert losses[-1] < losses[0]
    export_published(tmp_path / "run", tmp_path / "export", [])
    before, after = tensors(start_directory), tensors(tmp_path / "export")
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {
        "gpt.gpt.h.0.attn.c_attn.weight",
        "gpt.conditioning_encoder.attn.0.qkv.weight",
    } < changed
    for name in changed:
        difference = np.squeeze(after[name] - before[name]).astype(np.float64)
        sizes = np.linalg.svd(difference, compute_uv=False)
        assert sizes[2] < 1e-4 * sizes[0], name
    # What was exported is what was measured.
    again = trainer(tmp_path / "again", start_of(tmp_path / "export"), clips, max_steps=3)
    again.config = dataclasses.replace(
        again.config, stages={"gpt": StageConfig(1e-30, 1.0, weight_decay=0.0, ema=0.0)}
    )
    found = again.run(["gpt"]).stages["gpt"]["held_out"]
    assert found == pytest.approx(report.stages["gpt"]["held_out"], rel=1e-4)


def test_half_precision_and_accumulated_batches_learn_as_well(start_directory, clips, tmp_path):
    """The published model keeps its weights in float32; what computes with them is half as wide."""
    start = start_of(start_directory)
    made = trainer(tmp_path, start, clips, precision="bfloat16", grad_accum=2, max_steps=3)
    result = made.run(["gpt"]).stages["gpt"]
    losses = [one["audio_loss"] for one in result["evaluations"]]
    assert losses[-1] < losses[0] and result["skipped"] == 0


def test_recomputed_layers_give_the_same_steps(start_directory, clips, tuned, tmp_path):
    trainer(tmp_path, start_of(start_directory), clips, recompute=True, max_steps=3).run(["gpt"])
    found, wanted = (
        [line["loss"] for line in read_steps(RunDirectory(path).steps_file)][:3]
        for path in (tmp_path, tuned[0])
    )
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_run_goes_on_only_from_what_it_began_with(tuned, start_directory):
    run, _, export = tuned
    assert start_of(start_directory, RunDirectory(run)).path == str(start_directory)
    with pytest.raises(UserError, match=f"was begun with --init_from={start_directory}, not"):
        start_of(export, RunDirectory(run))


def test_networks_of_our_own_are_not_written_in_the_published_layout(finished_run, tmp_path):
    with pytest.raises(UserError, match="its tokenizer, conditioning, GPT, speaker encoder and"):
        export_published(finished_run.path, tmp_path / "out", [])
    assert published_source(finished_run.path) is None
    start = start_of(finished_run.path)
    assert start.model == finished_run.config().model and set(start.weights) == {
        "tokenizer",
        "gpt",
        "vocoder",
    }


def test_without_a_dvae_it_speaks_but_does_not_train(start_directory, tmp_path):
    source = PublishedDirectory.open(start_directory)
    dataclasses.replace(source, dvae=None).write(tmp_path / "model")
    with pytest.raises(UserError, match=r"has no dvae\.pth, so it speaks but cannot be trained"):
        start_of(tmp_path / "model")


def test_clips_with_characters_that_have_no_token_are_left_out_and_counted(
    clips, start_directory, caplog
):
    start, (training, _) = start_of(start_directory), clips
    texts = ["Été 9 ق", *training.texts[1:]]
    changed = dataclasses.replace(training, texts=texts)
    config = TrainConfig(model=start.model, batches=BatchConfig(batch_size=4))
    data = StageData.training("gpt", changed, start.vocabulary, config)
    assert len(data.corpus) == len(training) - 1
    assert "1 of 10 clips have texts with characters that vocab.json does not have" in caplog.text
    persian = dataclasses.replace(training, languages=tuple("fa" for _ in training.languages))
    with pytest.raises(UserError, match="the model has no language 'fa'; it has de, en"):
        StageData.training("gpt", persian, start.vocabulary, config)
