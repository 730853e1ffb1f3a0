"""What is counted of a corpus while it is prepared."""

import pytest

from myxtts import UserError
from myxtts.config import PrepareConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare


def test_a_corpus_in_another_script_is_refused_until_its_language_is_named(ljspeech):
    root = ljspeech(3)
    persian = "".join(f"c{i:03d}|x|این یک جمله است\n" for i in range(3))
    (root / "metadata.csv").write_text(persian, encoding="utf-8")
    refused = r"corpus has 36 of 36 letters .*--language \(the letters are those of fa"
    with pytest.raises(UserError, match=refused):
        prepare(Source(root), workers=1, progress=False)
    assert not (root / "prepared" / "manifest.tsv").exists()
    prepared, _ = prepare(Source(root, language="fa"), workers=1, progress=False)
    assert Corpus.load(prepared).languages == ("fa",)


def test_clips_recorded_at_a_lower_rate_than_they_are_prepared_at_are_counted(ljspeech):
    root = ljspeech(3)
    for rate, said in ((24000, ["recorded   3 at 22,050 Hz, brought to 24,000"]), (16000, [])):
        _, summary = prepare(Source(root), PrepareConfig(rate), workers=1, progress=False)
        assert [line for line in f"{summary}".splitlines() if "recorded" in line] == said
        # What was not prepared anew says it as well.
        _, again = prepare(Source(root), PrepareConfig(rate), workers=1, progress=False)
        assert f"{again}" == f"{summary}"
