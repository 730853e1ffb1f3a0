"""Whole runs of real stages: what they leave, the same under every strategy, stopped, continued."""

import gc
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, MirroredDataModelSplitStrategy
from myxtts import UserError
from myxtts.model.layers import seed_of
from myxtts.training import step_records
from myxtts.training.data import StageData, UsableClips
from myxtts.training.networks import load_networks
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stage_run import StageRun
from myxtts.training.stages import Stage, Surroundings, stage_named
from myxtts.training.step_log import read_steps
from tests.myxtts.training.conftest import CONFIG
from tests.myxtts.training.fine_tuning import computing_in, deterministic_ops

STAGES = ("tokenizer", "gpt", "vocoder")


def figures(directory):
    """Every figure of every step, but for the waiting."""
    lines = read_steps(RunDirectory(directory).steps_file)
    return [{n: v for n, v in line.items() if n != "wait_seconds"} for line in lines]


@pytest.fixture(scope="module", autouse=True)
def deterministic():
    with deterministic_ops():
        yield


@pytest.fixture(scope="module")
def plain(make_trainer, tmp_path_factory):
    """A whole run under OneDeviceStrategy, never stopped."""
    path = tmp_path_factory.mktemp("plain")
    return path, make_trainer(path, deterministic=True).run()


@pytest.mark.slow
def test_a_run_leaves_a_voice_and_what_it_came_to(plain):
    path, report = plain
    run = RunDirectory(path)
    assert report.finished and report.interrupted is None
    for stage, result in report.stages.items():
        assert result["steps"] == 8 and result["held_out"] and result["skipped"] == 0, stage
        assert (run.stage(stage) / "best").is_dir()
    found = [(line["stage"], line["step"]) for line in figures(path)]
    assert found == [(stage, step) for stage in STAGES for step in range(8)]
    assert run.default_vocoder() == report.stages["vocoder"]["default_vocoder"]
    text = run.report_file.read_text()
    assert text == report.text and "griffin_lim" in text and "loss.png" in text
    assert run.loss_picture.stat().st_size > 1000
    spoken = {p.parent.parent.name for p in run.samples.glob("*/*/*.wav")}
    assert {"tokenizer", "vocoder"} <= spoken
    networks = load_networks(path)
    codes, lengths = networks.tokenizer.encode(tf.zeros([1, 20, 80]), tf.constant([20]))
    mel = networks.tokenizer.decode(codes, lengths)
    assert networks.vocoder(mel, tf.zeros([1, 8])).shape == [1, 20 * 256]
    assert networks.gpt is not None and networks.conditioning is not None
    # One checkpoint of a stage can be had as well.
    step = sorted(run.stage("gpt").glob("step-*"))[0]
    assert load_networks(step).gpt is not None


@pytest.mark.slow
def test_finished_stages_leave_the_memory(plain):
    """Or the graphs of each of them would stay, a gigabyte of a small run."""
    gc.collect()
    kinds = StageRun, StageData, Stage  # by type(): a weak proxy is what it stands for, or gone
    assert not [o for o in gc.get_objects() if issubclass(type(o), kinds)]


@pytest.mark.slow
def test_adversarial_steps_begin_where_the_config_says(plain):
    lines = [line for line in figures(plain[0]) if line["stage"] == "vocoder"]
    assert [line["critics"] > 0 for line in lines] == [False] * 4 + [True] * 4
    assert [line["discriminators_norm"] > 0 for line in lines] == [False] * 4 + [True] * 4


@pytest.mark.slow
def test_on_two_gpus_networks_train_on_one_and_frozen_ones_live_on_the_other(
    plain, make_trainer, tmp_path, monkeypatch
):
    """Of the later stages nothing is traced: where their variables are is known before."""
    shutil.copytree(plain[0], tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    for name in ("gpt", "vocoder"):
        shutil.rmtree(run.stage(name))
    seen = {}

    def spy(self, interruption):
        stage = self.stage
        trained = [v for n in stage.networks.values() for v in n.variables]
        trained += [v for learner in stage.learners.values() for v in learner.optimizer.variables]
        seen[stage.name] = [
            {v.value.device[-5:] for v in vs} for vs in (trained, stage.tokenizer.variables)
        ]

    monkeypatch.setattr(StageRun, "train", spy)
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    for name in ("gpt", "vocoder"):
        make_trainer(run.path, strategy=strategy, deterministic=True).run([name])
    assert seen == {"gpt": [{"GPU:0"}, {"GPU:1"}], "vocoder": [{"GPU:0"}, {"GPU:1"}]}


class _Signal:
    """Sends a signal when a stage has come to a step."""

    def __init__(self, monkeypatch, stage, step, number):
        read = step_records.StepRecords.fetch

        def and_signal(this, **options):
            read(this, **options)
            if this._stage.name == stage and this._progress.step == step and not self.sent:
                self.sent = True
                os.kill(os.getpid(), number)

        self.sent = False
        monkeypatch.setattr(step_records.StepRecords, "fetch", and_signal)


@pytest.mark.usefixtures("no_samples")
@pytest.mark.slow
def test_stopped_by_a_signal_under_the_split_strategy_it_has_the_same_losses_bit_for_bit(
    plain, make_trainer, tmp_path, monkeypatch
):
    """As a run under OneDeviceStrategy that nobody stopped. In the last stage, behind finished
    ones; in the first one by SIGINT: test_train."""
    strategy = DataModelSplitStrategy("CPU:1", "CPU:2")
    with monkeypatch.context() as patch:
        _Signal(patch, "vocoder", 4, signal.SIGTERM)
        report = make_trainer(tmp_path, strategy=strategy, deterministic=True).run()
    assert not report.finished and report.interrupted == "SIGTERM"
    assert list(report.stages) == ["tokenizer", "gpt"]
    report = make_trainer(tmp_path, strategy=strategy, deterministic=True).run()
    assert report.finished and report.interrupted is None
    for wanted, found in zip(figures(plain[0]), figures(tmp_path), strict=True):
        assert wanted == found
    for name in STAGES:
        one, other = (RunDirectory(p).stage(name) / "best/weights" for p in (plain[0], tmp_path))
        one, other = tf.train.load_checkpoint(str(one)), tf.train.load_checkpoint(str(other))
        for key in one.get_variable_to_shape_map():
            if not key.startswith("_"):  # the graph of objects has the names that layers got
                np.testing.assert_array_equal(one.get_tensor(key), other.get_tensor(key))


@pytest.mark.slow
def test_finished_stages_are_skipped_and_other_tokenizers_refused(plain, make_trainer):
    path, report = plain
    before = RunDirectory(path).steps_file.read_bytes()
    again = make_trainer(path).run()
    assert again.stages == report.stages
    assert RunDirectory(path).steps_file.read_bytes() == before
    finished = RunDirectory(path).stage("tokenizer") / "finished.json"
    kept = finished.read_text()
    finished.write_text(kept.replace(report.stages["tokenizer"]["weights"], "0" * 64))
    try:
        with pytest.raises(UserError, match=r"trained with another tokenizer.*delete"):
            make_trainer(path).run(["gpt"])
    finally:
        finished.write_text(kept)


def test_a_stage_that_lacks_an_earlier_one_is_refused(make_trainer, tmp_path):
    with pytest.raises(UserError, match="the stage gpt needs the result of the stage tokenizer"):
        make_trainer(tmp_path).run(["gpt"])
    with pytest.raises(UserError, match="there is no stage 'lexer'; there are tokenizer, gpt"):
        make_trainer(tmp_path).run(["lexer"])


@pytest.mark.usefixtures("no_samples")
@pytest.mark.slow
def test_two_replicas_have_the_losses_of_one(plain, make_trainer, tmp_path):
    """The vocoder's steps: test_vocoder_replicas. The GPT's: test_published_replicas."""
    strategy = MirroredDataModelSplitStrategy(["CPU:3"], ["CPU:1", "CPU:2"])
    trainer = make_trainer(tmp_path, strategy=strategy, deterministic=True, max_steps=8)
    report = trainer.run(["tokenizer"])
    wanted = [line for line in figures(plain[0]) if line["stage"] == "tokenizer"]
    for one, other in zip(wanted, figures(tmp_path), strict=True):
        assert one.pop("stage") == other.pop("stage")
        for name in one:
            assert one[name] == pytest.approx(other[name], rel=1e-5, abs=1e-7), (name, one)
    held_out = [stages["tokenizer"]["held_out"] for stages in (plain[1].stages, report.stages)]
    assert held_out[0] == pytest.approx(held_out[1], rel=1e-4)


def test_batches_that_cannot_be_divided_are_refused(make_trainer, tmp_path):
    devices = ["CPU:1", "CPU:2", "CPU:3"]
    told = {
        None: "a batch of 4 clips cannot be divided among 3 model devices: give for instance --",
        (0.8, 0.1, 0.1): "3 model devices in shares of 0.8, 0.1, 0.1: give for instance "
        "--tokenizer_batch_size=10",
    }
    for shares, sentence in told.items():
        strategy = MirroredDataModelSplitStrategy(["CPU:0"], devices, shares=shares)
        with pytest.raises(UserError, match=sentence):
            make_trainer(tmp_path / "run", strategy=strategy).run()
    assert not (tmp_path / "run").exists()


def test_losses_and_gradients_in_bfloat16_are_nearly_those_in_float32(sides, tmp_path):
    corpus, _, vocabulary = sides
    data = StageData.training("tokenizer", UsableClips.of(corpus, vocabulary, CONFIG.model), CONFIG)
    found = []
    for precision in ("float32", "bfloat16"):
        keras.utils.set_random_seed(0)
        with computing_in(precision):
            at = Surroundings(CONFIG, RunDirectory(tmp_path), len(vocabulary), precision)
            stage = stage_named("tokenizer").restored(at)
        batch = found[0][0] if found else next(iter(data.batches(stage, augmented=True)))
        with tf.GradientTape(persistent=True) as tape:
            losses, _ = stage.losses(batch, seed_of(batch["key"]), 0)
        gradients = [
            gradient
            for name, learner in stage.learners.items()
            for gradient in learner.gradients(tape, losses[name])
        ]
        found.append((batch, losses, tf.linalg.global_norm(gradients)))
    (_, wanted, norm), (_, losses, other) = found
    assert 0 < float(other) == pytest.approx(float(norm), rel=0.1) and other != norm
    for name, loss in losses.items():
        assert float(loss) == pytest.approx(float(wanted[name]), rel=0.02), name
