"""What a voice is asked to say."""

import numpy as np
import soundfile

from myxtts.corpus.embedded import EmbeddedVoice
from myxtts.corpus.sentences import different_sentences
from myxtts.evaluation.sentences import (
    embedded_voices,
    held_out_sentences,
    new_sentences,
    read,
)


def test_new_sentences_are_unknown_spoken_and_come_with_references_of_the_same_voice(tmp_path):
    stream = different_sentences("en", 5, for_judging=True)
    known = [next(stream) for _ in range(4)]
    voices = [EmbeddedVoice.number(3), EmbeddedVoice.number(9)]
    made = new_sentences(tmp_path, voices, ["en"], 3, known=known, seed=5, references=1)
    assert [s.text for s in made] == [next(stream) for _ in range(3)]
    assert [s.speaker for s in made] == ["voice003", "voice009", "voice003"]
    recordings = {s.recording for s in made}
    for sentence in made:
        assert len(sentence.references) == 1
        assert recordings.isdisjoint(sentence.references)
        assert all(sentence.speaker in path for path in sentence.references)
        waveform, rate = read(sentence.recording)
        assert len(waveform) / rate > 0.5 and np.abs(waveform).max() > 0.05
        assert all(soundfile.info(path).duration > 2 for path in sentence.references)
    again = new_sentences(tmp_path / "again", voices, ["en"], 2, known=known, seed=5, references=1)
    for first, second in zip(made[:2], again, strict=True):
        assert (first.text, first.speaker) == (second.text, second.speaker)
        np.testing.assert_array_equal(read(first.recording)[0], read(second.recording)[0])


def test_voices_of_an_embedded_corpus_are_known_again(spoken_corpus):
    voices = embedded_voices(spoken_corpus.speakers, spoken_corpus.languages)
    assert voices == [EmbeddedVoice.number(i) for i in range(3)]
    assert embedded_voices(["voice001", "Anna"], ["en"]) is None
    assert embedded_voices(["voice001"], ["xx"]) is None


def test_held_out_sentences_are_clips_with_references_of_their_speaker(spoken_corpus):
    training, held_out = spoken_corpus.split(0.3)
    made = held_out_sentences(training, held_out, 6)
    assert len(made) == 6 and len({s.recording for s in made}) == 6
    speaker_of = dict(zip(spoken_corpus.paths, spoken_corpus.speaker_ids, strict=True))
    for sentence in made:
        assert sentence.recording in held_out.paths
        for path in sentence.references:
            assert path in training.paths
            assert spoken_corpus.speakers[speaker_of[path]] == sentence.speaker


def test_a_speaker_with_a_single_clip_is_cloned_from_that(spoken_corpus):
    one = spoken_corpus.subset(np.array([0]))
    others = spoken_corpus.subset(np.flatnonzero(spoken_corpus.speaker_ids != one.speaker_ids[0]))
    (sentence,) = held_out_sentences(others, one, 5)
    assert sentence.references == (sentence.recording,)
