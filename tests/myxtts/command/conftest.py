"""Command lines read into flags of their own, so that no test sees another one's."""

import pytest
from absl import flags

from myxtts.command import settings
from myxtts.command.flags import arguments, groups, table


class Line:
    """What became of a command line: values, changed spellings, mistakes, the job."""

    def __init__(self, line: str | list[str]):
        self.values = flags.FlagValues()
        table.define(groups(), self.values)
        flags.DEFINE_string("flagfile", "", "", flag_values=self.values)
        words = line.split() if isinstance(line, str) else line
        self.mistakes: list[str] = []
        self.job = None
        try:
            self.canonical, wrong = arguments.parse(["train.py", *words], self.values)
            self.job = settings.job_from(self.values, wrong)
        except arguments.Mistakes as mistakes:
            self.mistakes = mistakes.sentences


@pytest.fixture
def read_line(tmp_path, monkeypatch):
    """read_line("--lr=1e-3 --epochs=2"), in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return Line


@pytest.fixture
def corpus_path(tmp_path):
    """A directory that looks like a corpus; its one clip is not read by these tests."""
    place = tmp_path / "corpus"
    (place / "wavs").mkdir(parents=True)
    (place / "metadata.csv").write_text("wavs/a.wav|Hello.|me\n", encoding="utf-8")
    return place
