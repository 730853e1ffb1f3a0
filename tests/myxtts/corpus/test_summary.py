"""What is counted of a corpus while it is prepared."""

import pytest

from myxtts import UserError
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
