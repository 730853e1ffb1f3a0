"""Raw recordings become clips with texts, in a format that training reads."""

import numpy as np
import pytest
import soundfile

from myxtts import UserError
from myxtts.corpus.cutting import LONGEST, SHORTEST, clips_of, cut
from myxtts.corpus.formats import ReadOptions, choose_format

RATE = 8000


def speech(*seconds):
    """Noise of these lengths in seconds; negative lengths are pauses."""
    chance = np.random.default_rng(0)
    parts = [chance.uniform(-0.5, 0.5, int(abs(s) * RATE)) * (s > 0) for s in seconds]
    return np.concatenate(parts).astype(np.float32)


class Listener:
    """Stands in for a recogniser: returns given texts, clip after clip."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def transcribe(self, waveforms, sample_rate):
        return [self.texts.pop(0) for _ in waveforms]


def test_clips_end_in_pauses_and_have_one_to_eleven_seconds():
    samples = speech(-1, 4, -0.5, 0.3, -0.5, 2, -0.1, 2, -0.6, 9, -2, 0.4, -1)
    found = [(a / RATE, b / RATE) for a, b in clips_of(samples, RATE)]
    wanted = [(0.9, 5.1), (5.4, 10.5), (10.9, 20.1)]  # the last 0.4 s are too short for a clip
    np.testing.assert_allclose(found, wanted, atol=0.03)


def test_somebody_who_does_not_pause_is_cut_all_the_same():
    found = [b - a for a, b in clips_of(speech(30), RATE)]
    assert sum(found) == pytest.approx(30 * RATE, rel=0.01)
    assert min(found) >= SHORTEST * RATE and max(found) <= LONGEST * RATE


def test_silence_has_no_clips():
    assert not list(clips_of(speech(-5), RATE)) and not list(clips_of(speech(0), RATE))


def test_words_that_were_misheard_between_two_clips_go_by_the_marks(tmp_path):
    soundfile.write(tmp_path / "talk.wav", speech(4, -1, 4, -1, 4), RATE)
    (tmp_path / "talk.txt").write_text("Nothing before us, we were all going on. Then one by two.")
    heard = Listener("nothing before us", "we're all going on then", "by two")
    cut(tmp_path, tmp_path / "out", heard)
    lines = (tmp_path / "out/metadata.csv").read_text().splitlines()
    texts = [line.split("|")[1] for line in lines]
    assert texts == ["Nothing before us,", "we were all going on. Then", "one by two."]


def test_a_directory_of_recordings_becomes_a_corpus(tmp_path):
    (tmp_path / "in/anna").mkdir(parents=True)
    soundfile.write(tmp_path / "in/anna/talk.wav", speech(4, -1, 4, -1, 4), RATE)
    (tmp_path / "in/anna/talk.txt").write_text("It was the best of times, they say. The end? No!")
    soundfile.write(tmp_path / "in/beep.flac", speech(4), RATE)
    (tmp_path / "in/broken.wav").write_bytes(b"no audio")
    listener = Listener("it was the pest of times", "mumble", "the end no", "a | b")
    done = cut(tmp_path / "in", tmp_path / "out", listener)
    assert done.clips == 3 and done.minutes == pytest.approx(12.6 / 60, abs=0.02)
    rows = choose_format(tmp_path / "out", "auto", ReadOptions()).read(
        tmp_path / "out", ReadOptions()
    )
    assert [(row.text, row.speaker, row.language) for row in rows] == [
        ("It was the best of times,", "anna", "en"),
        ("The end? No!", "anna", "en"),
        ("a b", "speaker", "en"),
    ]
    reasons = (tmp_path / "out/rejected.tsv").read_text()
    assert "talk.wav, 4.9 to 9.1 s\tnothing was heard, or not" in reasons
    assert "broken.wav\tit cannot be read as audio" in reasons
    with pytest.raises(UserError, match="name a new directory"):
        cut(tmp_path / "in", tmp_path / "out", listener)
    with pytest.raises(UserError, match=r"there is no recording in .*\.mp3 can be read"):
        cut(tmp_path / "out/none", tmp_path / "new", listener)
