"""A small real corpus, made once per test process."""

import pytest

from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare


@pytest.fixture(scope="session")
def spoken_directory(tmp_path_factory):
    """Three minutes of speech, three voices, English and Persian, as an unprepared corpus."""
    settings = embedded.EmbeddedConfig(minutes=3, voices=3, languages=("en", "fa"), seed=7)
    directory = tmp_path_factory.mktemp("spoken")
    return embedded.make(directory, settings, workers=2, progress=False)


@pytest.fixture(scope="session")
def spoken_corpus(spoken_directory) -> Corpus:
    """The same, prepared and loaded."""
    prepared, _ = prepare(Source(spoken_directory), workers=2, progress=False)
    return Corpus.load(prepared)
