"""DVAE and HiFi-GAN of a published XTTS v2 are trained, continued, exported and imported again."""

import dataclasses
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation
from myxtts import UserError
from myxtts.corpus.batches import read_batches
from myxtts.training import checkpoints, networks
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage_run import StageRun
from myxtts.training.stages import stage_named
from myxtts.training.start import start_of
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from tests.myxtts.training.fine_tuning import (
    ALL,
    SOUND,
    computing_in,
    deterministic_ops,
    held_out,
    restored,
    stage_data,
    tensors,
    trainer,
    variables_of,
)

pytestmark = pytest.mark.slow
OF_STAGE = {"tokenizer": "dvae.", "gpt": "gpt.", "vocoder": "hifigan_decoder.waveform_decoder."}


def test_every_stage_lowers_its_held_out_loss_and_changes_its_own_tensors(
    start_directory, all_tuned
):
    for stage, result in all_tuned.results.items():
        figure = stage_named(stage, "xtts_v2").held_out[0]
        losses = [one[figure] for one in result["evaluations"]]
        assert losses[-1] < losses[0], stage
    before, after = tensors(start_directory), tensors(all_tuned.export)
    assert before.keys() == after.keys()
    trained = [name for name in before if name.startswith(tuple(OF_STAGE.values()))]
    kept = {name for name in before if np.array_equal(before[name], after[name])}
    # What the DVAE counts about its codes stays; all else of the three parts is another.
    assert kept & set(trained) == {n for n in trained if n.startswith("dvae.discrete_loss.")}
    assert kept == set(before) - set(trained) | kept & set(trained)


def test_what_was_exported_and_read_again_has_equal_tensors_and_losses(all_tuned, clips, tmp_path):
    start, wanted = start_of(all_tuned.export), tensors(all_tuned.export)
    config = trainer(tmp_path, start, clips).config
    for name in ALL:
        stage = restored(tmp_path, start, config, name)
        found = held_out(stage, start, clips, config)
        assert found == pytest.approx(all_tuned.results[name]["held_out"], rel=1e-5), name
        for network in stage.networks.values():
            names = network.published_names
            made = names.tensors()
            for tensor in names.shapes():
                key = OF_STAGE["tokenizer"] + tensor if name == "tokenizer" else tensor
                np.testing.assert_array_equal(made[tensor], wanted[key], err_msg=tensor)
    # A run is spoken with, and started from, as its export is.
    source = published_source(all_tuned.run)
    for name, value in start.source.model.items():
        np.testing.assert_array_equal(source.model[name], value, err_msg=name)
    assert start_of(all_tuned.run).model == start.model


def test_teacher_forced_segments_are_those_of_each_clip_alone(start_directory, clips, tmp_path):
    """What the HiFi-GAN is trained on are places of what synthesis would give it for the clip."""
    start = start_of(start_directory)
    config = trainer(tmp_path, start, clips).config
    stage = restored(tmp_path, start, config, "vocoder")
    data = stage_data("vocoder", clips[0], start, config)
    raw = next(iter(read_batches(data.corpus, data._texts, data.plan, epochs=1, workers=1)))
    batch = stage.front_end(raw)
    size = SOUND.segment_hops
    assert batch["latents"].shape[1:] == (size, 32)
    assert batch["waveform"].shape == (4, size * 256)
    networks = Published.load(PublishedDirectory.open(start_directory))
    heard = stage.for_gpt(raw, networks.dvae)
    for row in range(4):
        codes, tokens = int(heard["code_lengths"][row]), int(heard["text_lengths"][row])
        latents = networks.gpt.latents_of(
            networks.conditioning(heard["conditioning_mel"][row : row + 1]),
            heard["text"][row : row + 1, :tokens],
            heard["text_lengths"][row : row + 1],
            heard["codes"][row : row + 1, :codes],
            heard["code_lengths"][row : row + 1],
        )
        hops = networks.hifigan.hops_of(latents)[0].numpy()
        found = batch["latents"][row].numpy()
        gaps = [np.abs(hops[i : i + size] - found).max() for i in range(len(hops) - size + 1)]
        begin = int(np.argmin(gaps))
        assert gaps[begin] < 1e-4, row
        recorded = raw["waveform"][row, begin * 256 : (begin + size) * 256].numpy() / 32768.0
        np.testing.assert_allclose(batch["waveform"][row].numpy(), recorded, atol=1e-6)
    # A clip that is too short for a reference is spoken with all the same.
    heard = []
    short = {"waveform": raw["waveform"][:1], "waveform_lengths": tf.constant([12000])}
    shown = SimpleNamespace(
        clips=short, texts=[([5], 0)], sound=lambda _, sound: heard.append(sound)
    )
    stage.show(shown)
    assert len(heard[0]) > 256


def test_a_gpt_that_expects_other_codes_is_refused_until_it_was_trained_on_them(
    start_directory, all_tuned, clips, tmp_path
):
    run = RunDirectory(shutil.copytree(all_tuned.run, tmp_path / "run"))
    shutil.rmtree(run.stage("vocoder"))
    train_anew(run, "tokenizer")

    def train(stage):
        begun = start_of(start_directory, run)
        settings = {"deterministic": True, "max_steps": 6 * len(ALL)}
        trainer(run.path, begun, clips, **settings).run([stage])

    sentence = "expects the codes of another DVAE than the one that was trained there"
    with pytest.raises(UserError, match=f"{sentence}; delete .*checkpoints/gpt and train its GPT"):
        published_source(run.path)
    with pytest.raises(UserError, match="was trained with another tokenizer than the one there"):
        train("gpt")
    shutil.rmtree(run.stage("gpt"))
    with pytest.raises(UserError, match=f"{sentence}; train its GPT on them with --stage=gpt"):
        published_source(run.path)
    with pytest.raises(UserError, match="the gpt, which was not trained with the tokenizer"):
        train("vocoder")


def train_anew(run, stage):
    """Leaves what a second training of the stage would leave: other weights."""
    best, finished = run.stage(stage) / "best", run.stage(stage) / "finished.json"
    made = networks.make(stage, run.config().model, len(run.vocabulary()))
    state = checkpoints.read_weights(best, made)
    for network in made.values():
        for variable in network.trainable_variables:
            variable.assign(variable + 0.01)
    variables = {name: network.variables for name, network in made.items()}
    checkpoints.save(best, state, variables)
    digests = state["digest"], checkpoints.described(best)["digest"]
    assert digests[0] != digests[1] and finished.read_text().count(digests[0]) == 1
    finished.write_text(finished.read_text().replace(*digests))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_discriminators_may_learn_before_they_are_heard(
    start_directory, clips, tmp_path, precision
):
    start = start_of(start_directory)
    config = trainer(tmp_path, start, clips).config
    published = config.model.xtts_v2
    sound = dataclasses.replace(published.sound, critics_from_step=2)
    model = dataclasses.replace(config.model, xtts_v2=dataclasses.replace(published, sound=sound))
    config = dataclasses.replace(config, model=model)
    with computing_in(precision):
        stage = restored(tmp_path, start, config, "vocoder")
    assert stage.phases == (0, 2)
    chance = tf.random.Generator.from_seed(1)
    batch = {
        "latents": chance.normal([2, 16, 32]),
        "waveform": 0.1 * chance.normal([2, 16 * 256]),
        "speaker": chance.normal([2, 16]),
    }
    with tf.GradientTape(persistent=True) as tape:
        silent, figures = stage.losses(batch, None, 0)
        heard, _ = stage.losses(batch, None, 1)
    mel, more = 45 * figures["mel"], figures["adversarial"] + 108 * figures["features"]
    assert float(silent["hifigan"]) == pytest.approx(float(mel), rel=1e-6)
    assert float(heard["hifigan"]) == pytest.approx(float(mel + more), rel=1e-2)
    for name, learner in stage.learners.items():
        norms = [tf.norm(gradient) for gradient in learner.gradients(tape, heard[name])]
        assert min(norms) > 0, name
    # Lengths of weights are computed in float32, whatever the convolutions are.
    assert {v.dtype for v in stage.hifigan.variables} == {"float32"}


@pytest.mark.timing
def test_the_frozen_part_works_on_the_data_device(start_directory, clips, tmp_path):
    """On two emulated GPUs, of the GPT's stage and of the HiFi-GAN's: mels, codes and the frozen
    GPT on one, weights and steps on the other."""
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    start = start_of(start_directory)
    config = trainer(tmp_path, start, clips, strategy).config
    for name in ("gpt", "vocoder"):
        stage = restored(tmp_path, start, config, name, strategy.scope)
        with strategy.scope():
            data = stage_data(name, clips[0], start, config)
            dataset = data.batches(stage, augmented=True)
        frozen = [stage.dvae] if name == "gpt" else [stage.dvae, stage.gpt, stage.speaker]
        assert all("GPU:1" in v.value.device for network in frozen for v in network.variables)
        trained = stage.networks.values()
        assert all("GPU:0" in v.value.device for network in trained for v in network.variables)
        batches = iter(strategy.experimental_distribute_dataset(dataset))
        key = next(batches)["key"].numpy()
        with emulation.measure() as use:
            for _ in range(3):
                key = next(batches)["key"].numpy()
        assert len(key) == 4
        assert use[1].busy > 20 * use[0].busy and use[1].busy * use.seconds > 0.01
        del batches, dataset


def test_a_run_that_was_killed_goes_on_with_every_variable_of_its_last_checkpoint(
    start_directory, all_tuned, clips, monkeypatch
):
    """From the files that were there between the last step and its checkpoint. That a run which
    goes on so has the steps of one that was not killed: test_killed and test_trainer."""
    killed, seen = RunDirectory(all_tuned.killed), []

    def spy(self, interruption):
        seen.append((self.progress.step, variables_of(self.loop)))

    monkeypatch.setattr(StageRun, "train", spy)
    settings = {"deterministic": True, "max_steps": 6 * len(ALL)}
    with deterministic_ops():
        trainer(killed.path, start_of(start_directory, killed), clips, **settings).run(ALL)
    assert killed.result("gpt") and not killed.result("vocoder")
    ((step, found),) = seen
    assert step == 3 and len(found) == len(all_tuned.at_step_3) > 100
    for (_, wanted), (name, value) in zip(all_tuned.at_step_3, found, strict=True):
        np.testing.assert_array_equal(value, wanted, err_msg=name)
