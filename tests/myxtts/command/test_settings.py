"""Flags become the settings of a run."""

import dataclasses
import json

import pytest

from myxtts import UserError
from myxtts.command import settings
from myxtts.command.flags import all_flags
from myxtts.config import AugmentConfig, BatchConfig, PrepareConfig, TextConfig, save_config
from myxtts.model.config import (
    SIZES,
    ConditioningConfig,
    GptConfig,
    ModelConfig,
    SpeakerConfig,
)
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.published_run import published_source
from myxtts.training.stages import STAGES, stage_names
from myxtts.xtts_v2.sizes import DvaeSizes, Objective, PublishedModel, SoundObjective
from tests.published_start import make_start, small_model


def test_no_flags_make_a_ten_minute_run_of_everything_on_speech_that_is_made(read_line):
    line = read_line("")
    job = line.job
    assert job.source is None and job.stages == stage_names() and job.slots == 4
    text = dataclasses.replace(SIZES["tiny"].text, phonemes=True)
    model = dataclasses.replace(SIZES["tiny"], text=text)
    assert job.train == dataclasses.replace(TrainConfig(), max_minutes=10.0, model=model)
    assert not job.given


def test_phonemes_are_the_texts_of_the_embedded_corpus_unless_told_otherwise(
    read_line, corpus_path, tmp_path
):
    def phonemes(line):
        return read_line(line).job.train.model.text.phonemes

    assert phonemes("--model_size=small") and not phonemes("--nophonemes")
    assert phonemes(f"--train_data={corpus_path} --phonemes")
    assert not phonemes(f"--train_data={corpus_path}")
    save_config(SIZES["tiny"], tmp_path / "mine.json")
    assert not phonemes(f"--model_config={tmp_path}/mine.json")


def test_every_setting_of_the_training_has_a_flag():
    filled = {flag.sets for flag in all_flags()}
    parts = {"model", "batches", "augment", "stages"}
    wanted = {f"train.{f.name}" for f in dataclasses.fields(TrainConfig) if f.name not in parts}
    # frame_multiple, shuffle and drop_remainder are what the networks need, not a choice; seed is
    # the run's, crop the objective's. The shape of SpecAugment's masks is left at the paper's.
    wanted |= {
        f"batches.{f.name}"
        for f in dataclasses.fields(BatchConfig)
        if f.name not in ("seed", "frame_multiple", "shuffle", "drop_remainder", "crop")
    }
    # Of the objective: the weights are the published ones, dropout is the GPT's of either form.
    wanted |= {
        f"objective.{f.name}"
        for f in dataclasses.fields(Objective)
        if f.name not in ("text_weight", "audio_weight", "dropout")
    }
    wanted |= {
        f"sound.{f.name}"
        for f in dataclasses.fields(SoundObjective)
        if f.name not in ("mel_weight", "feature_weight", "critic_periods")  # the published ones
    }
    wanted |= {
        f"augment.{f.name}"
        for f in dataclasses.fields(AugmentConfig)
        if f.name not in ("time_masks", "time_mask_frames", "mel_masks", "mel_mask_bands")
    }
    of_stages = {f.name for f in dataclasses.fields(StageConfig)} - {"share", "batch_size"}
    wanted |= {f"stages.{name}" for name in of_stages}
    of_each = ("share", "batch_size", "learning_rate")
    wanted |= {f"{stage}.{name}" for stage in stage_names() for name in of_each}
    assert wanted <= filled


def test_defaults_in_the_help_are_those_of_the_settings(read_line):
    job = read_line("").job
    for part, default in (("batches", BatchConfig()), ("augment", AugmentConfig())):
        assert getattr(job.train, part) == default
    assert job.prepare == PrepareConfig()


def test_a_corpus_without_a_limit_is_trained_for_a_hundred_epochs(read_line, corpus_path):
    train = read_line(f"--train_data={corpus_path}").job.train
    assert (train.epochs, train.max_minutes, train.max_steps) == (100, None, None)
    train = read_line(f"--train_data={corpus_path} --max_steps=7").job.train
    assert (train.epochs, train.max_minutes, train.max_steps) == (None, None, 7)
    train = read_line("--max_steps=7").job.train
    assert (train.epochs, train.max_minutes, train.max_steps) == (None, None, 7)


def test_what_is_said_of_one_stage_counts_more_than_what_is_said_of_all(read_line):
    train = read_line("--lr=1e-4 --gpt_lr=2e-4 --ema=0.9 --vocoder_batch_size=3").job.train
    assert [train.stage(s).learning_rate for s in stage_names()] == [1e-4, 2e-4, 1e-4]
    assert {train.stage(s).ema for s in stage_names()} == {0.9}
    assert [train.stage(s).batch_size for s in stage_names()] == [None, None, 3]


def test_larger_networks_get_lower_rates_and_smaller_ones_no_higher(read_line, tmp_path):
    def rates(line):
        train = read_line(line).job.train
        return {stage: train.stage(stage).learning_rate for stage in stage_names()}

    tiny, normal = rates(""), rates("--model_size=normal")
    assert tiny == {name: stage.learning.learning_rate for name, stage in STAGES.items()}
    assert normal["tokenizer"] == tiny["tokenizer"] * 192 / 512
    assert normal["gpt"] == pytest.approx(tiny["gpt"] * 256 / 768)
    assert normal["vocoder"] == tiny["vocoder"] * 256 / 512
    assert rates("--model_size=normal --lr=0.01")["gpt"] == 0.01
    small = {"tokenizer": {"width": 16}}
    (tmp_path / "small.json").write_text(json.dumps(small))
    assert rates(f"--model_config={tmp_path / 'small.json'}")["tokenizer"] == tiny["tokenizer"]


def test_sizes_and_texts_make_the_networks(read_line):
    model = read_line("--model_size=small --dropout=0.3 --phonemes --vocabulary_size=900").job
    model = model.train.model
    assert model.gpt == dataclasses.replace(SIZES["small"].gpt, dropout=0.3)
    assert model.text.phonemes and model.text.vocabulary_size == 900
    assert model.vocoder == SIZES["small"].vocoder
    (mistake,) = read_line("--vocabulary_size=900").mistakes
    assert "--vocabulary_size is of --vocabulary=bpe" in mistake


def test_sizes_may_come_from_a_file(read_line, tmp_path):
    mine = dataclasses.replace(SIZES["tiny"], gpt=dataclasses.replace(SIZES["tiny"].gpt, layers=2))
    save_config(mine, tmp_path / "mine.json")
    assert read_line("--model_config=mine.json").job.train.model == mine
    (mistake,) = read_line("--model_config=mine.json --model_size=normal").mistakes
    assert "give one" in mistake
    values = json.loads((tmp_path / "mine.json").read_text())
    values["gpt"]["heads"] = 3
    (tmp_path / "wrong.json").write_text(json.dumps(values))
    (mistake,) = read_line("--model_config=wrong.json").mistakes
    assert "--model_config" in mistake and "gpt.width must be a multiple of gpt.heads=3" in mistake


def test_directories_that_are_no_corpus_are_told_before_anything_starts(read_line, tmp_path):
    (tmp_path / "empty").mkdir()
    told = "\n".join(read_line("--train_data=empty --val_data=nowhere").mistakes)
    assert "--train_data: " in told and "no corpus format that is recognised" in told
    assert "--val_data: the corpus nowhere is not a directory" in told


def test_a_validation_list_beside_the_training_list(read_line, corpus_path):
    (corpus_path / "eval.csv").write_text("wavs/a.wav|Hello.|me\n", encoding="utf-8")
    line = read_line(
        f"--train_data={corpus_path} --val_data={corpus_path} --metadata=metadata.csv "
        "--val_metadata=eval.csv"
    )
    assert line.mistakes == []
    (mistake,) = read_line(f"--train_data={corpus_path} --val_metadata=eval.csv").mistakes
    assert "--val_metadata is a file inside --val_data" in mistake


@pytest.mark.parametrize("name", ["language", "speaker", "format", "val_data", "prepared_dir"])
def test_flags_of_a_corpus_without_a_corpus_are_a_mistake(read_line, name):
    value = "ljspeech" if name == "format" else "x"
    assert read_line(f"--{name}={value}").mistakes[0] == (
        f"--{name} is about a corpus of yours: give --train_data as well"
    )


def test_a_place_that_refuses_directories_is_told_before_a_corpus_is_made(read_line):
    (mistake,) = read_line("--checkpoint_dir=/proc/run").mistakes
    assert mistake.startswith("--checkpoint_dir=/proc/run cannot be made in /proc: ")


def test_a_longer_run_gets_more_speech_and_a_run_that_was_begun_keeps_its_own(read_line, tmp_path):
    def minutes(line):
        return read_line(line).job.embedded.minutes

    assert minutes("") == 480 and minutes("--max_minutes=2") == minutes("--max_steps=9") == 180
    assert minutes("--max_minutes=30") == minutes("--max_minutes=90") == 1440
    assert minutes("--max_minutes=30 --embedded_minutes=20") == 20
    job = read_line("--max_minutes=30").job
    assert settings.made_by_default(job) == ["--embedded_minutes=1440"]
    run = tmp_path / "runs/voice"
    run.mkdir(parents=True)
    (run / "flags.txt").write_text("# repeats\n--embedded_minutes=180\n--seed=3\n")
    assert minutes("--max_minutes=30") == 180


def test_from_a_published_directory_sizes_rates_and_the_stage_are_its_own(read_line, tmp_path):
    make_start(tmp_path / "model")
    start = f"--init_from={tmp_path / 'model'} --checkpoint_dir={tmp_path / 'run'}"
    job = read_line(f"{start} --trainable=adapters --adapter_rank=4 --crop=other_clip").job
    assert job.stages == ("gpt",) and job.train.model.form == "xtts_v2"
    published = job.train.model.xtts_v2
    assert (published.args.gpt_n_model_channels, published.adapter_rank) == (32, 4)
    assert published.objective == Objective(crop="other_clip")
    assert read_line(f"{start} --stage=vocoder,gpt").job.stages == ("gpt", "vocoder")
    job_of_all = read_line(f"{start} --stage=all --critics_from_step=7").job
    assert job_of_all.stages == ("tokenizer", "gpt", "vocoder")
    assert job_of_all.train.model.xtts_v2.sound == SoundObjective(critics_from_step=7)
    assert job.prepare.sample_rate == job.train.model.audio.sample_rate == 24000
    stage = job_of_all.train.stage("gpt")
    assert stage.learning_rate == pytest.approx(5e-6 * 1024 / 32)
    assert job.train.stage("gpt").learning_rate == 2e-4  # of adapters, at any width
    assert (stage.beta_2, stage.clip_norm, stage.ema, stage.schedule) == (0.96, 0, 0, "constant")


def test_flags_that_do_not_go_with_what_a_run_starts_from_are_mistakes(read_line, tmp_path):
    make_start(tmp_path / "model")
    start = f"--init_from={tmp_path / 'model'} --checkpoint_dir={tmp_path / 'run'}"
    told = read_line(f"{start} --model_size=normal --phonemes --stage=gpt,vocode").mistakes
    assert len(told) == 3
    assert told[0].startswith(
        "--model_size=normal does not go with --init_from, whose sizes count (2"
    )
    assert told[1] == "--phonemes does not go with --init_from, which has a vocabulary"
    known = "--stage=gpt,vocode: these networks have the stages tokenizer, gpt, vocoder"
    assert told[2].startswith(known)
    (told,) = read_line("--trainable=adapters").mistakes
    assert told.startswith("--trainable is for training from a published XTTS v2: give --init_from")
    (told,) = read_line(f"--init_from={tmp_path}").mistakes
    assert told.startswith(f"--init_from: {tmp_path} is no training run")


def test_the_published_networks_may_begin_with_random_weights(read_line, tmp_path):
    job = read_line("--model_size=xtts_v2 --critic_width=8 --vocabulary_size=900").job
    model = job.train.model
    assert model.form == "new_xtts_v2" and job.start is None
    assert job.stages == ("tokenizer", "gpt", "vocoder")
    assert job.prepare.sample_rate == model.audio.sample_rate == 24000
    assert model.text == TextConfig(vocabulary_size=900, max_tokens=401)
    assert model.xtts_v2 == PublishedModel(sound=SoundObjective(critic_width=8), from_random=True)
    stages = job.train.stages
    rates = [stages[name].learning_rate for name in job.stages]
    assert rates == [5e-4, 3e-4, 2e-4] and stages["gpt"].schedule == "cosine"
    sound = SoundObjective(critic_width=4)
    sizes = dataclasses.replace(small_model(), sound=sound)
    save_config(ModelConfig(xtts_v2=sizes), tmp_path / "mine.json")
    model = read_line("--model_config=mine.json --stop_targets=2").job.train.model
    assert model.form == "new_xtts_v2" and model.xtts_v2.args == sizes.args
    assert model.xtts_v2.sound == sound and model.xtts_v2.objective == Objective(stop_targets=2)
    told = read_line("--model_size=xtts_v2 --trainable=adapters --add_language=fa --phonemes")
    assert [sentence.split(" ")[0] for sentence in told.mistakes] == [
        "--add_language",
        "--trainable",
        "--phonemes",
    ]
    sizes = dataclasses.replace(sizes, dvae=DvaeSizes(codes=64))
    save_config(ModelConfig(xtts_v2=sizes), tmp_path / "unfit.json")
    (mistake,) = read_line("--model_config=unfit.json").mistakes
    assert mistake.startswith("--model_config: dvae.codes must be 32, as the other sizes have it")


def test_a_run_of_the_former_size_big_is_refused(read_line, tmp_path):
    sizes = ModelConfig(
        conditioning=ConditioningConfig(layers=2, heads=8, encoder_layers=6),
        gpt=GptConfig(layers=30, width=1024, heads=16),
        speaker=SpeakerConfig(width=512, blocks=4, size=512),
    )
    (tmp_path / "checkpoints").mkdir()
    save_config(TrainConfig(model=sizes), tmp_path / "config.json")
    with pytest.raises(UserError, match="was trained with --model_size=big, whose networks are"):
        published_source(tmp_path)
    (mistake,) = read_line(f"--init_from={tmp_path} --checkpoint_dir={tmp_path}/new").mistakes
    assert "take --model_size=xtts_v2 and another --checkpoint_dir" in mistake


def test_shares_that_go_by_the_clock_are_no_part_of_a_deterministic_run(read_line):
    assert read_line("--shares=auto").mistakes == []
    (mistake,) = read_line("--shares=auto --deterministic").mistakes
    assert "give the shares as numbers" in mistake
