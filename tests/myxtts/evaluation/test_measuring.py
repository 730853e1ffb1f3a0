"""Measuring a run: held-out figures, intelligibility, cloning, and the command."""

import csv

import numpy as np
import pytest
import soundfile
from absl import flags

from myxtts import UserError
from myxtts.config import AudioConfig
from myxtts.corpus.embedded import EmbeddedVoice
from myxtts.corpus.manifest import Corpus
from myxtts.evaluation import command
from myxtts.evaluation.cloning import cloning
from myxtts.evaluation.held_out import held_out_figures
from myxtts.evaluation.intelligibility import intelligibility
from myxtts.evaluation.report import Evaluation, report_training
from myxtts.evaluation.run_corpus import run_corpus
from myxtts.evaluation.sentences import new_sentences
from myxtts.evaluation.waveforms import log_mels
from myxtts.training.run_directory import RunDirectory
from myxtts.voice import Speaking

FIGURES = {
    "tokenizer_mel_distance",
    "codes_in_use",
    "code_accuracy",
    "audio_loss",
    "text_loss",
    "vocoder_mel_distance",
    "griffin_lim_mel_distance",
}


def test_held_out_figures_do_not_depend_on_the_batches(run_directory, other_batches):
    _, held_out = run_corpus(run_directory)
    assert len(held_out) > 3
    alone = held_out_figures(other_batches(1), held_out)
    together = held_out_figures(other_batches(4), held_out)
    assert set(alone) == FIGURES
    for name, value in alone.items():
        # An untrained model chooses between near ties: rounding may change one of some 300 codes.
        tie = 0.005 if name == "code_accuracy" else 0
        assert together[name] == pytest.approx(value, rel=1e-3, abs=tie), name
    # Of an untrained model that chooses among 16 codes and an end.
    assert 2 < alone["audio_loss"] < 4 and alone["code_accuracy"] < 0.5


def test_held_out_figures_tell_what_is_there(run_directory, other_batches):
    _, held_out = run_corpus(run_directory)
    networks = other_batches(4)
    networks.gpt = networks.vocoder = None
    assert set(held_out_figures(networks, held_out)) == {"tokenizer_mel_distance", "codes_in_use"}
    networks.tokenizer = None
    with pytest.raises(UserError, match="no trained tokenizer"):
        held_out_figures(networks, held_out)


class LetterCounter:
    """Stands in for a recogniser: the letters it hears are fifteenths of a second."""

    def mistakes(self, waveforms, sample_rate, texts):
        heard = np.array([len(waveform) * 15 // sample_rate for waveform in waveforms])
        letters = np.array([len(text) for text in texts])
        return np.abs(heard - letters), letters


@pytest.mark.slow
def test_intelligibility_has_a_row_for_each_way_and_leaves_its_speech(tmp_path, voice):
    voices = [EmbeddedVoice.number(0), EmbeddedVoice.number(1)]
    sentences = new_sentences(tmp_path / "made", voices, ["en"], 2, seed=1)
    out = tmp_path / "out"
    # Untrained, it would hardly ever stop by itself.
    speaking = Speaking(seed=1, length_penalty=0.2)
    rows = intelligibility(
        voice, sentences=sentences, recogniser=LetterCounter(), speaking=speaking, save_dir=out
    )
    ways = [row.way for row in rows]
    assert ways == [
        "recorded",
        "griffin_lim",
        "tokenizer+griffin_lim",
        "tokenizer+network",
        "generated+griffin_lim",
        "generated+network",
    ]
    row = dict(zip(ways, rows, strict=True))
    recorded = row["recorded"]
    assert (recorded.error.points, recorded.distance, recorded.length) == (0.0, 0.0, 1.0)
    # An untrained tokenizer leaves nothing of what was said.
    assert 0 < row["griffin_lim"].distance < 2 < row["tokenizer+griffin_lim"].distance
    for name in ("griffin_lim", "tokenizer+network"):
        assert row[name].length == pytest.approx(1.0, abs=0.01)
    # Both ways to a waveform are given the same codes.
    assert row["generated+network"].length == row["generated+griffin_lim"].length
    for other in rows[1:]:
        above = 100 * (other.error.value - recorded.error.value)
        assert other.error.points == pytest.approx(above)
    for way in ways:
        with open(out / way / "metadata.csv", encoding="utf-8", newline="") as file:
            table = list(csv.reader(file, delimiter="|"))
        assert [line[1] for line in table] == [sentence.text for sentence in sentences]
        assert all(soundfile.info(out / way / line[0]).samplerate == 22050 for line in table)


class MeanMelJudge:
    """Tells voices apart by their mean log-mel: crude, but it really listens."""

    def vectors(self, waveforms, sample_rate):
        rows = []
        for waveform in waveforms:
            mel = log_mels([waveform], AudioConfig())[0].numpy()[0]
            mean = mel[mel.mean(1) > -9].mean(0) if (mel.mean(1) > -9).any() else mel.mean(0)
            mean = mean - mean.mean()
            rows.append(mean / np.linalg.norm(mean))
        return np.array(rows)


def test_cloning_finds_recordings_near_their_own_voice_and_untrained_speech_by_chance(
    tmp_path, voice
):
    voices = [EmbeddedVoice.number(100 + i) for i in range(6)]
    sentences = new_sentences(tmp_path, voices, ["en"], 12, seed=1)
    recorded, tokenizer, generated = cloning(
        voice, sentences, MeanMelJudge(), speaking=Speaking(length_penalty=0.2)
    )
    assert [row.way for row in (recorded, tokenizer, generated)] == [
        "recorded",
        "tokenizer",
        "generated",
    ]
    # 9 in 10 of five others are all of them.
    assert recorded.clips_nearer > 0.7 and recorded.voices_nearer > 0.8
    assert recorded.beaten > 0.9 and recorded.own > recorded.others
    assert generated.clips_nearer < 0.6 and generated.beaten < 0.9


def test_the_corpus_of_a_run_is_divided_as_it_was_in_training(run_directory, english_prepared):
    training, held_out = run_corpus(run_directory)
    wanted = Corpus.load(english_prepared).split(0.2)
    assert training.fingerprint == wanted[0].fingerprint
    assert held_out.fingerprint == wanted[1].fingerprint
    named, _ = run_corpus(RunDirectory(run_directory.path), english_prepared)
    assert named.fingerprint == training.fingerprint


def test_a_run_that_does_not_know_its_corpus_asks_for_it(run_directory, monkeypatch, tmp_path):
    run = RunDirectory(run_directory.path)
    run.manifests = tmp_path
    with pytest.raises(UserError, match="--prepared_dir"):
        run_corpus(run)
    with pytest.raises(UserError, match=r"manifest\.tsv does not exist"):
        run_corpus(run, tmp_path)


def test_the_report_tells_how_long_every_stage_was_trained(run_directory, voice, tmp_path):
    run = RunDirectory(run_directory.path)
    results = {"tokenizer": {"steps": 1500, "seconds": 90.0}}
    run.result = results.get
    evaluation = Evaluation(run, voice, *run_corpus(run_directory), tmp_path)
    lines = [line.split() for line in report_training(evaluation)]
    assert lines[1] == ["tokenizer", "1,500", "steps", "1.5", "minutes"]
    assert lines[2] == ["gpt", "not", "finished"]
    assert lines[4] == ["together", "1.5", "minutes"]


def test_the_command_needs_a_run():
    given = flags.FlagValues()
    with pytest.raises(UserError, match="--checkpoint is missing"):
        command.evaluation_of_flags("checkpoint", _parsed(given, []))
    with pytest.raises(UserError, match="/nowhere does not exist"):
        command.evaluation_of_flags("checkpoint", _parsed(flags.FlagValues(), ["/nowhere"]))


def _parsed(given, runs):
    command.define_flags("checkpoint", given)
    given(["command", *(f"--checkpoint={run}" for run in runs)])
    return given


@pytest.mark.slow
def test_mistakes_end_the_command_with_one_sentence(run_python, run_directory):
    for arguments, told in (
        (["--checkpoint=/nowhere"], "error: /nowhere does not exist"),
        ([f"--checkpoint={run_directory.path}", "--measure=speed"], "error: --measure must name"),
    ):
        done = run_python(["-m", "myxtts.evaluation", *arguments])
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(told)
        assert "Traceback" not in done.stderr and done.stdout == ""
