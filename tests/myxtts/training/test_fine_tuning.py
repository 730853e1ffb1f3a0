"""The loop of fine-tuning: start from a published directory, train, export, start from that."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.config import BatchConfig
from myxtts.corpus.batches import read_batches
from myxtts.export import export_published
from myxtts.model.layers import seed_of
from myxtts.training.config import TrainConfig
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.start import start_of
from myxtts.xtts_v2.directory import PublishedDirectory
from tests.myxtts.training.fine_tuning import (
    computing_in,
    held_out,
    restored,
    stage_data,
    tensors,
    trainer,
)
from tests.published_start import LICENCE


@pytest.mark.slow
def test_the_export_is_a_directory_with_a_speaker_and_the_licence(all_tuned):
    start = start_of(all_tuned.export)
    assert start.licence == LICENCE == (all_tuned.run / "LICENSE.txt").read_text().strip()
    assert (all_tuned.export / "LICENSE.txt").read_text().strip() == LICENCE
    assert list(start.source.speakers) == ["Me"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_samples")
def test_adapters_change_matrices_by_their_rank_and_are_added_up_in_the_export(
    start_directory, clips, tmp_path
):
    """In steps of two batches whose layers are computed twice."""
    settings = {"rank": 2, "grad_accum": 2, "recompute": True}
    report = trainer(tmp_path / "run", start_of(start_directory), clips, **settings).run(["gpt"])
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
    start = start_of(tmp_path / "export")
    config = trainer(tmp_path / "again", start, clips).config
    stage = restored(tmp_path / "again", start, config, "gpt")
    found = held_out(stage, start, clips, config)
    assert found == pytest.approx(report.stages["gpt"]["held_out"], rel=1e-4)


def test_recomputed_layers_and_half_precision_give_the_same_gradients(
    start_directory, clips, tmp_path, monkeypatch
):
    """The published model keeps its weights in float32; what computes with them is half as wide."""
    start, calls, found = start_of(start_directory), [], []

    def counting(self, *arguments, **named):
        calls.append(self)
        return call(self, *arguments, **named)

    for recompute, precision in ((False, "float32"), (True, "float32"), (True, "bfloat16")):
        config = trainer(tmp_path, start, clips, recompute=recompute).config
        with tf.device("CPU:0"), monkeypatch.context() as patch, computing_in(precision):
            stage = restored(tmp_path, start, config, "gpt")
            data = stage_data("gpt", clips[0], start, config)
            raw = next(iter(read_batches(data.corpus, data._texts, data.plan, epochs=1, workers=1)))
            batch = stage.front_end(raw)
            block = type(stage.gpt.blocks[0])
            call = block.call
            patch.setattr(block, "call", counting)
            calls.clear()
            with tf.GradientTape() as tape:
                losses, _ = stage.losses(batch, seed_of(batch["key"]), 0)
            found.append(stage.learners["gpt"].gradients(tape, losses["gpt"]))
            assert len(calls) == len(stage.gpt.blocks) * (1 + recompute)
    one, recomputed, half = found
    for gradient, other in zip(one, recomputed, strict=True):
        np.testing.assert_allclose(other, gradient, rtol=1e-4, atol=1e-6)
    assert {gradient.dtype for gradient in half} == {tf.float32}
    error = tf.linalg.global_norm([a - b for a, b in zip(half, one, strict=True)])
    assert 0 < float(error) < 0.1 * float(tf.linalg.global_norm(one))


@pytest.mark.slow
def test_a_run_goes_on_only_from_what_it_began_with(all_tuned, start_directory):
    run, export = all_tuned.run, all_tuned.export
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
    data = stage_data("gpt", changed, start, config)
    assert len(data.corpus) == len(training) - 1
    assert "1 of 10 clips have texts with characters that vocab.json does not have" in caplog.text
    persian = dataclasses.replace(training, languages=tuple("fa" for _ in training.languages))
    with pytest.raises(UserError, match="the model has no language 'fa'; it has de, en"):
        stage_data("gpt", persian, start, config)
