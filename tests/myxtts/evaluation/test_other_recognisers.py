"""Recognisers from other projects, if they are installed; the errors if they are not."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from myxtts import UserError
from myxtts.evaluation import other_recognisers
from myxtts.evaluation.other_recognisers import OtherRecogniser, recogniser_named
from myxtts.evaluation.sentences import peoples_texts, read


class Told(OtherRecogniser):
    """Returns a given text for each waveform."""

    def __init__(self, *texts):
        self.language, self.told, self.asked = "en", texts, 0
        self._jiwer = SimpleNamespace(process_characters=_count, process_words=_count_words)

    def transcribe(self, waveforms, sample_rate):
        self.asked += 1
        return self.told


def _count(wanted, found):
    from myxtts.evaluation.distances import edits

    return SimpleNamespace(substitutions=edits(found, wanted), deletions=0, insertions=0)


def _count_words(wanted, found):
    return _count(wanted.split(), found.split())


def test_marks_and_digits_are_no_mistakes_and_speech_is_heard_once():
    recogniser = Told("I have 2 cats!", "stop")
    clips, texts = [np.zeros(8, np.float32), np.ones(8, np.float32)], ["i have two cats", "stomp"]
    wrong, letters = recogniser.mistakes(clips, 22050, texts)
    assert wrong.tolist() == [0, 1] and letters.tolist() == [15, 5]
    assert recogniser.word_error(clips, 22050, texts) == 1 / 5
    assert recogniser.asked == 1


def test_what_is_missing_is_told_with_the_remedy(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="moonshine knows English only, and this is fa"):
        recogniser_named("moonshine", language="fa", directory=tmp_path)
    with pytest.raises(UserError, match="--recogniser_model=DIR, a model for faster-whisper"):
        recogniser_named("whisper", language="en", directory=tmp_path)

    def nothing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(other_recognisers.importlib, "import_module", nothing)
    with pytest.raises(UserError, match=r"jiwer is not there.*pip install '\.\[evaluation\]'"):
        recogniser_named("moonshine", language="en", directory=tmp_path)


def test_the_sentences_for_judging_are_a_hundred_different_ones():
    texts = peoples_texts()
    assert len(set(texts)) == len(texts) >= 100
    assert all(text[-1] in ".?!" and "\t" not in text for text in texts)


@pytest.mark.slow
def test_moonshine_hears_people_right_and_refuses_to_judge_where_it_does_not(monkeypatch):
    for module in ("moonshine_voice", "jiwer"):
        try:
            importlib.import_module(module)
        except (ImportError, OSError):
            pytest.skip(f"the extra evaluation is not installed ({module})")
    recogniser = recogniser_named("moonshine", language="en", directory=None)
    clip, rate = read(str(recogniser.recordings / "beckett.wav"))
    wrong, letters = recogniser.mistakes([clip], rate, [other_recognisers._CHECKED[1]])
    assert wrong.sum() <= 0.1 * letters.sum()
    monkeypatch.setattr(other_recognisers, "_CHECKED", ("beckett.wav", "Something else altogether"))
    with pytest.raises(UserError, match="its judgement is worth nothing here"):
        recogniser_named("moonshine", language="en", directory=None)
