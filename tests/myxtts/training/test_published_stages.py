"""DVAE and HiFi-GAN of a published XTTS v2 are trained, continued, exported and imported again."""

import dataclasses
import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation
from myxtts import UserError
from myxtts.corpus.batches import read_batches
from myxtts.export import export_published
from myxtts.training.data import StageData
from myxtts.training.precision import policy_of
from myxtts.training.published_run import published_source
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_named
from myxtts.training.start import start_of
from myxtts.training.step_log import read_steps
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.voice import PublishedVoice
from tests.myxtts.training.fine_tuning import SOUND, held_out, restored, tensors, trainer

SCRIPT = Path(__file__).with_name("killed_fine_tuning.py")
ALL = ("tokenizer", "gpt", "vocoder")
OF_STAGE = {"tokenizer": "dvae.", "gpt": "gpt.", "vocoder": "hifigan_decoder.waveform_decoder."}


@pytest.fixture(scope="module")
def all_tuned(start_directory, clips, tmp_path_factory):
    """A run of all three stages, their results, and its export."""
    path = tmp_path_factory.mktemp("all_tuned")
    made = trainer(path / "run", start_of(start_directory), clips, max_steps=18)
    results = made.run(ALL).stages
    export_published(path / "run", path / "export", [])
    return path / "run", results, path / "export"


def test_every_stage_lowers_its_held_out_loss_and_changes_its_own_tensors(
    start_directory, all_tuned
):
    _, results, export = all_tuned
    for stage, result in results.items():
        figure = stage_named(stage, "xtts_v2").held_out[0]
        losses = [one[figure] for one in result["evaluations"]]
        assert losses[-1] < losses[0], stage
    before, after = tensors(start_directory), tensors(export)
    assert before.keys() == after.keys()
    trained = [name for name in before if name.startswith(tuple(OF_STAGE.values()))]
    kept = {name for name in before if np.array_equal(before[name], after[name])}
    # What the DVAE counts about its codes stays; all else of the three parts is another.
    assert kept & set(trained) == {n for n in trained if n.startswith("dvae.discrete_loss.")}
    assert kept == set(before) - set(trained) | kept & set(trained)


def test_what_was_exported_and_read_again_has_equal_tensors_and_losses(
    all_tuned, clips, tmp_path
):
    run, results, export = all_tuned
    start, wanted = start_of(export), tensors(export)
    config = trainer(tmp_path, start, clips).config
    for name in ALL:
        stage = restored(tmp_path, start, config, name)
        found = held_out(stage, start, clips, config)
        assert found == pytest.approx(results[name]["held_out"], rel=1e-5), name
        for network in stage.networks.values():
            names = network.published_names
            made = names.tensors()
            for tensor in names.shapes():
                key = OF_STAGE["tokenizer"] + tensor if name == "tokenizer" else tensor
                np.testing.assert_array_equal(made[tensor], wanted[key], err_msg=tensor)
    # A run is spoken with as its export is.
    clip = np.sin(np.arange(24000) / 20).astype(np.float32)
    voices = [PublishedVoice.of(published_source(run)), PublishedVoice.load(export)]
    said = [voice.speak("a", "en", voice.clone([clip])) for voice in voices]
    np.testing.assert_array_equal(*said)


def test_teacher_forced_segments_are_those_of_each_clip_alone(start_directory, clips, tmp_path):
    """What the HiFi-GAN is trained on are places of what synthesis would give it for the clip."""
    start = start_of(start_directory)
    config = trainer(tmp_path, start, clips).config
    stage = restored(tmp_path, start, config, "vocoder")
    data = StageData.training("vocoder", clips[0], start.vocabulary, config)
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
    start_directory, clips, tmp_path
):
    run = tmp_path / "run"

    def train(stage):
        begun = start_of(start_directory, RunDirectory(run))
        trainer(run, begun, clips, max_steps=1).run([stage])

    train("gpt")
    published_source(run)
    train("tokenizer")
    sentence = "expects the codes of another DVAE than the one that was trained there"
    with pytest.raises(UserError, match=f"{sentence}; delete .*checkpoints/gpt and train its GPT"):
        published_source(run)
    with pytest.raises(UserError, match="was trained with another tokenizer than the one there"):
        train("gpt")
    shutil.rmtree(RunDirectory(run).stage("gpt"))
    with pytest.raises(UserError, match=f"{sentence}; train its GPT on them with --stage=gpt"):
        published_source(run)
    with pytest.raises(UserError, match="the gpt, which was not trained with the tokenizer"):
        train("vocoder")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_discriminators_may_learn_before_they_are_heard(
    start_directory, clips, tmp_path, precision
):
    start = start_of(start_directory)
    config = trainer(tmp_path, start, clips).config
    published = config.model.xtts_v2
    sound = dataclasses.replace(published.sound, critics_from_step=2)
    model = dataclasses.replace(
        config.model, xtts_v2=dataclasses.replace(published, sound=sound)
    )
    config = dataclasses.replace(config, model=model)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy_of(precision))
    try:
        stage = restored(tmp_path, start, config, "vocoder")
    finally:
        keras.config.set_dtype_policy(before)
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
            data = StageData.training(name, clips[0], start.vocabulary, config)
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


@pytest.mark.slow
def test_a_run_that_is_killed_and_continued_has_the_steps_of_one_that_was_not(
    start_directory, prepared_at_24k, tmp_path, run_python
):
    arguments = [SCRIPT, start_directory, prepared_at_24k, tmp_path, "vocoder"]
    done = run_python(arguments, CUDA_VISIBLE_DEVICES="")
    logs = "".join(path.read_text()[-3000:] for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended == {"calm": 0, "vocoder": signal.SIGKILL, "continued": 0}, logs
    calm, killed = (RunDirectory(tmp_path / name) for name in ("calm", "killed"))
    wanted, found = read_steps(calm.steps_file), read_steps(killed.steps_file)
    assert len(wanted) == 6
    for one, other in zip(wanted, found, strict=True):
        assert one | {"wait_seconds": 0} == other | {"wait_seconds": 0}
    assert calm.result("vocoder")["evaluations"] == killed.result("vocoder")["evaluations"]
