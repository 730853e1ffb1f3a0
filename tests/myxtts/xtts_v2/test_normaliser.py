"""A model is spoken with the normaliser that it was trained with, or not at all."""

import json

import pytest

from myxtts import UserError
from myxtts.xtts_v2.cleaners import libraries
from myxtts.xtts_v2.normaliser import FILE, Normaliser


@pytest.fixture
def directory(tmp_path):
    Normaliser().with_language("fa").recorded(["en", "fa"]).save(tmp_path)
    return tmp_path


def _change(directory, change):
    values = json.loads((directory / FILE).read_text())
    change(values)
    (directory / FILE).write_text(json.dumps(values))


def test_a_normaliser_comes_back_from_its_file_with_the_versions_of_libraries(directory):
    loaded = Normaliser.load(directory)
    assert loaded == Normaliser().with_language("fa").recorded(["en"])
    assert dict(loaded.versions) == {"num2words": libraries.installed("num2words")}
    assert loaded.written("۲۵", "fa") == "بیست و پنج"
    assert loaded.written("25 %", "en") == "twenty-five percent"


def test_a_directory_without_a_record_is_read_with_the_published_cleaners(tmp_path):
    assert Normaliser.load(tmp_path) == Normaliser()


def test_a_language_with_cleaners_keeps_them():
    assert Normaliser().with_language("en") == Normaliser()
    with pytest.raises(UserError, match="not trained on 'fa'"):
        Normaliser().written("سلام", "fa")


@pytest.mark.parametrize("which", ["published", "own"])
def test_another_version_of_a_normaliser_is_refused(directory, which):
    _change(directory, lambda values: values[which].update(version=99))
    with pytest.raises(UserError, match=r"version 99, and this is .* version 1; speak with"):
        Normaliser.load(directory)


def test_another_version_of_our_normaliser_matters_only_to_added_languages(tmp_path):
    Normaliser().save(tmp_path)
    _change(tmp_path, lambda values: values["own"].update(version=99))
    assert Normaliser.load(tmp_path) == Normaliser()


def test_another_version_of_a_library_is_told(directory, caplog):
    _change(directory, lambda values: values["libraries"].update(num2words="0.1"))
    Normaliser.load(directory)
    assert "trained with num2words 0.1, here is" in caplog.text


def test_a_file_that_says_nothing_is_refused(directory):
    (directory / FILE).write_text("[]")
    with pytest.raises(UserError, match="does not say how texts are written"):
        Normaliser.load(directory)
