"""Directories in the published layout go in and out, and what does not fit is named."""

import json

import numpy as np
import pytest

from myxtts import UserError
from myxtts.xtts_v2.config import CPML, ModelArgs, PublishedConfig
from myxtts.xtts_v2.directory import PublishedDirectory, is_published
from myxtts.xtts_v2.pth import write_pth

TOKENS = 12


def vocabulary(tokens=TOKENS):
    pieces = {"[STOP]": 0, "[UNK]": 1, "[START]": 2} | {f"p{i}": i for i in range(3, tokens)}
    return json.dumps({"model": {"vocab": pieces, "merges": []}, "added_tokens": []})


@pytest.fixture
def published():
    """Not a whole model: the layout does not look at more."""
    args = ModelArgs(gpt_number_text_tokens=TOKENS, gpt_n_model_channels=32, decoder_input_dim=32)
    model = {
        "mel_stats": np.arange(1, 81, dtype=np.float32),
        "gpt.text_embedding.weight": np.ones([TOKENS, 32], np.float32),
        "gpt.conditioning_perceiver.latents": np.ones([32, 32], np.float32),
    }
    voices = {"Ana": (np.ones([1, 32, 32], np.float32), np.ones([1, 512, 1], np.float32))}
    return PublishedDirectory(
        path="",
        config=PublishedConfig(args, top_k=33, raw={"run_name": "kept"}),
        model=model,
        vocabulary=vocabulary(),
        dvae={"codebook.embed": np.eye(3, dtype=np.float32)},
        speakers=voices,
    )


def test_what_is_written_is_read_back_equal(published, tmp_path):
    published.write(tmp_path / "out")
    again = PublishedDirectory.open(tmp_path / "out")
    assert again.config == published.config
    assert again.config.raw["run_name"] == "kept"
    assert again.vocabulary == published.vocabulary
    assert again.licence == published.licence == CPML
    assert again.speakers.keys() == published.speakers.keys()
    for mine, wanted in ((again.model, published.model), (again.need_dvae(), published.dvae)):
        assert mine.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_array_equal(mine[name], wanted[name])
    assert "non-commercial" in (tmp_path / "out" / "LICENSE.txt").read_text()
    assert is_published(tmp_path / "out") and not is_published(tmp_path)


def test_the_licence_is_that_of_the_file_and_cpml_where_it_says_none(published, tmp_path):
    published.write(tmp_path / "out")
    write_pth(tmp_path / "out" / "model.pth", {"model": published.model, "licence": "our own"})
    again = PublishedDirectory.open(tmp_path / "out")
    assert again.licence == "our own"
    again.write(tmp_path / "again")
    assert PublishedDirectory.open(tmp_path / "again").licence == "our own"
    write_pth(tmp_path / "out" / "model.pth", {"model": published.model})
    assert PublishedDirectory.open(tmp_path / "out").licence == CPML


def test_a_directory_that_holds_something_is_not_written_over(published, tmp_path):
    (tmp_path / "result").write_text("of another job")
    with pytest.raises(UserError, match="is not empty"):
        published.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_a_model_without_a_dvae_is_read_and_refused_for_training(published, tmp_path):
    published.write(tmp_path / "out")
    (tmp_path / "out" / "dvae.pth").unlink()
    with pytest.raises(UserError, match=r"has no dvae\.pth, so it speaks but cannot be trained"):
        PublishedDirectory.open(tmp_path / "out").need_dvae()


def test_a_model_without_a_perceiver_is_refused(published, tmp_path):
    published.write(tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    settings["model_args"]["gpt_use_perceiver_resampler"] = False
    (tmp_path / "out" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="without a Perceiver are XTTS v1"):
        PublishedDirectory.open(tmp_path / "out")
    del published.model["gpt.conditioning_perceiver.latents"]
    published.write(tmp_path / "second")
    with pytest.raises(UserError, match="has no Perceiver"):
        PublishedDirectory.open(tmp_path / "second")


def test_a_vocabulary_of_another_size_than_its_table_is_refused(published, tmp_path):
    published.write(tmp_path / "out")
    (tmp_path / "out" / "vocab.json").write_text(vocabulary(TOKENS + 1))
    told = "vocab.json has 13 tokens, the model's table has 12 rows and config.json says 12"
    with pytest.raises(UserError, match=told):
        PublishedDirectory.open(tmp_path / "out")


def test_mel_stats_may_lie_in_either_file_but_must_not_differ(published, tmp_path):
    published.write(tmp_path / "out")
    del published.model["mel_stats"]
    write_pth(tmp_path / "out" / "model.pth", {"model": published.model})
    np.testing.assert_array_equal(
        PublishedDirectory.open(tmp_path / "out").mel_stats, np.arange(1, 81)
    )
    published.model["mel_stats"] = np.ones(80, np.float32)
    write_pth(tmp_path / "out" / "model.pth", {"model": published.model})
    with pytest.raises(UserError, match="differ"):
        PublishedDirectory.open(tmp_path / "out")


@pytest.mark.parametrize(
    "name, content, told",
    [
        ("config.json", "{", r"config\.json cannot be read as XTTS's settings"),
        ("config.json", "{}", r"has no model_args"),
        (
            "config.json",
            '{"model_args": {"gpt_layers": "x"}}',
            r"config\.json: .*gpt_layers must be",
        ),
        ("config.json", '{"model_args": {"decoder_input_dim": 5}}', r"config\.json.*must be 1024"),
        ("vocab.json", "{}", r"vocab\.json cannot be read as a vocabulary"),
    ],
)
def test_a_damaged_settings_file_is_refused_by_name(published, tmp_path, name, content, told):
    published.write(tmp_path / "out")
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(UserError, match=told):
        PublishedDirectory.open(tmp_path / "out")


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_a_missing_settings_file_is_refused_with_where_it_belongs(published, tmp_path, name):
    published.write(tmp_path / "out")
    (tmp_path / "out" / name).unlink()
    with pytest.raises(UserError, match=rf"out has no {name}; put the {name} beside model\.pth"):
        PublishedDirectory.open(tmp_path / "out")


def test_what_is_no_directory_of_xtts_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds none of model\.pth"):
        PublishedDirectory.open(tmp_path)
    with pytest.raises(UserError, match="is no directory"):
        PublishedDirectory.open(tmp_path / "missing")
