"""Written forms are spoken as a native reader speaks them: the table is written_forms.tsv."""

import collections
from pathlib import Path

from myxtts.text.normalise import normalise

TABLE = Path(__file__).with_name("written_forms.tsv")
ROWS = [
    row.split("\t")
    for row in TABLE.read_text(encoding="utf-8").splitlines()
    if not row.startswith("#")
]


def test_every_form_of_the_table_is_said_as_it_should_be():
    said = {(language, written): normalise(written, language) for language, written, _ in ROWS}
    wanted = {(language, written): spoken for language, written, spoken in ROWS}
    assert {k: said[k] for k in said if said[k] != wanted[k]} == {}


def test_what_was_said_is_not_changed_again():
    again = {spoken: normalise(spoken, language) for language, _, spoken in ROWS}
    assert {spoken: again[spoken] for spoken in again if again[spoken] != spoken} == {}


def test_the_table_holds_two_hundred_forms_of_five_languages():
    counts = collections.Counter(language for language, _, _ in ROWS)
    assert counts.keys() == {"en", "de", "fr", "es", "fa"} and min(counts.values()) >= 30
    assert len({(language, written) for language, written, _ in ROWS}) >= 200
