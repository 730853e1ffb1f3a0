"""--add_language and --keep_data, from the command line to a trained run."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.command import corpora
from myxtts.command.new_language import with_added_language
from myxtts.command.settings import validation_source
from myxtts.export import export_published
from myxtts.training.published_run import published_source
from myxtts.training.trainer import Trainer
from myxtts.xtts_v2.text import Tokens


@pytest.fixture
def command(start_directory, spoken_directory):
    """On a corpus in English and Persian."""
    return (
        f"--init_from={start_directory} --train_data={spoken_directory} --max_steps=2 "
        "--batch_size=2 --buckets=1 --evaluation_clips=2 --sample_steps=1000 --seed=3 "
    )


def _job(read_line, line):
    read = read_line(line)
    assert read.mistakes == []
    clips = corpora.clips_of(read.job)
    return with_added_language(read.job, clips), clips


@pytest.mark.slow
@pytest.mark.usefixtures("no_samples")
def test_a_language_is_learnt_from_its_clips_and_trained_beside_adapters(
    read_line, command, start_directory, tmp_path, caplog
):
    line = (
        f"{command} --validation_share=0 --add_language=fa --add_language_tokens=80 "
        "--trainable=adapters --lr=1e-2"
    )
    job, clips = _job(read_line, line)
    assert job.start.vocabulary.languages == ("en", "de", "fa")
    old = published_source(start_directory)
    rows, tokens = len(old.model["gpt.text_embedding.weight"]), len(job.start.vocabulary)
    assert tokens == rows + 81 == job.train.model.xtts_v2.args.gpt_number_text_tokens

    def trained(job):
        return Trainer(
            dataclasses.replace(job.train, steps_per_call=1),
            run_dir=job.run_path,
            corpus=clips.training,
            validation=clips.validation,
            vocabulary=job.start.vocabulary,
            start=job.start,
            strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
            monitor=False,
            progress=False,
        ).run(("gpt",))

    stages = trained(job).stages
    made = published_source(job.run_path)
    table, before = made.model["gpt.text_embedding.weight"], old.model["gpt.text_embedding.weight"]
    assert len(table) == tokens
    text = clips.training.texts[list(clips.training.language_ids).index(1)]
    ids = np.array(Tokens(made.vocabulary, made.normaliser).encode(text, "fa"))
    assert (ids >= rows).mean() > 0.5
    mean = before.astype(np.float64).mean(0).astype(np.float32)
    assert np.abs(table[rows:] - mean).max() > 1e-4  # the rows are trained
    unused = Tokens(old.vocabulary).bpe.special["[de]"]
    np.testing.assert_array_equal(table[unused], before[unused])

    export_published(job.run_path, tmp_path / "export", [])
    assert "no cleaners for the added fa" in caplog.text
    assert published_source(tmp_path / "export").normaliser.own == ("fa",)

    # The same command goes on with the run; another one does not.
    again, _ = _job(read_line, line)
    assert again.train == job.train and again.start.vocabulary.text == job.start.vocabulary.text
    assert trained(again).stages == stages
    with pytest.raises(UserError, match="was begun without --add_language=sv"):
        _job(read_line, line.replace("=fa", "=sv"))


def test_a_language_that_no_clip_has_is_refused(read_line, command):
    with pytest.raises(UserError, match="no clip is in that language, they are in en, fa"):
        _job(read_line, f"{command} --add_language=sv")


def test_a_language_that_the_model_has_is_refused(read_line, command):
    with pytest.raises(UserError, match="has the language 'en' already"):
        _job(read_line, f"{command} --add_language=en")


def test_without_published_weights_no_language_is_added(read_line):
    (mistake,) = read_line("--add_language=fa").mistakes
    assert "--add_language is for training from a published XTTS v2" in mistake


def test_clips_with_numbers_that_have_no_words_are_left_out_and_counted(spoken_corpus, caplog):
    texts = ["दो लोग", *["2 लोग"] * 2]
    corpus = dataclasses.replace(
        spoken_corpus.subset(np.arange(3)), texts=texts, languages=("hi", "fa")
    )
    corpus = dataclasses.replace(corpus, language_ids=np.zeros(3, np.int32))
    assert list(corpora._readable(corpus).texts) == texts[:1]
    assert "2 of 3 clips (the first: " in caplog.text
    assert "num2words has no words for '2' in 'hi' texts" in caplog.text
    with pytest.raises(UserError, match="no text can be read: 2 of 2 clips"):
        corpora._readable(corpus.subset(np.array([1, 2])))


def test_kept_clips_are_a_share_of_those_trained_on(read_line, command, spoken_directory):
    plain, clips = _job(read_line, command)
    assert validation_source(plain.source, plain.values) is None
    job, mixed = _job(read_line, f"{command} --keep_data={spoken_directory}:0.25")
    assert job.kept.share == 0.25
    more = len(mixed.training) - len(clips.training)
    assert more / len(mixed.training) == pytest.approx(0.25, abs=0.02)
    assert list(mixed.training.paths[: len(clips.training)]) == list(clips.training.paths)
    assert len(mixed.training.samples) == len(mixed.training.language_ids) == len(mixed.training)
    assert mixed.training.fingerprint != clips.training.fingerprint
    assert list(mixed.validation.paths) == list(clips.validation.paths)


def test_too_few_clips_to_keep_are_all_taken_and_told(read_line, command, spoken_directory, caplog):
    _, mixed = _job(read_line, f"{command} --keep_data={spoken_directory}:0.9")
    assert "% were asked for: there are no more" in caplog.text.replace("%%", "%")
    assert len(mixed.training) > 1


@pytest.mark.parametrize("value", ["old", "old:2", "old:x", ":0.5", "old:0"])
def test_a_directory_and_a_share_are_needed(read_line, command, value):
    (mistake,) = read_line(f"{command} --keep_data={value}").mistakes
    assert "give a directory and a share" in mistake
