"""Measures intelligibility: a recogniser transcribes sentences that the voice was not trained on.

    rows = intelligibility(Voice.load("RUN"), sentences, recogniser)

Every row is a way to make the waveform, from the recording itself to speech made from the text
alone. Each adds a part of the model to the one before, so they show where intelligibility is lost.
"""

import csv
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from myxtts.corpus import wav
from myxtts.evaluation.distances import CharacterError, mel_cepstral_distance
from myxtts.evaluation.other_recognisers import OtherRecogniser
from myxtts.evaluation.recogniser import Recogniser
from myxtts.evaluation.sentences import Sentence, read
from myxtts.evaluation.waveforms import griffin_lim_waveforms, log_mels, resampled
from myxtts.synthesis import pcm16
from myxtts.voice import ClonedVoice, Speaking, Voice

Way = Callable[[Sentence, np.ndarray, ClonedVoice], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Heard:
    """The figures of one way to make the waveform.

    `word_error` is the word error, for recognisers that know words.

    `error` is the recogniser's character error, compared with that on the recordings; `distance` is
    the mean mel-cepstral distance to the recordings, in dB; `length` is the duration of the speech
    over that of the recordings.
    """

    way: str
    error: CharacterError
    distance: float
    length: float
    word_error: float | None = None


def intelligibility(
    voice: Voice,
    sentences: Sequence[Sentence],
    recogniser: Recogniser | OtherRecogniser,
    *,
    speaking: Speaking | None = None,
    save_dir: Path | None = None,
    every_way: bool = True,
) -> list[Heard]:
    """A row for each way, for sentences in the recogniser's language.

    With `save_dir` the speech is saved there, for listening or for another recogniser: a folder for
    each way, with WAV files and their texts in metadata.csv. Without `every_way` there are rows
    only for the recordings, the tokenizer, and text with the voice's own vocoder.
    """
    rate = voice.audio.sample_rate
    recordings = [resampled(*read(s.recording), rate) for s in sentences]
    cloned = cloned_voices(voice, sentences)
    spoken = {"recorded": recordings}
    ways = _ways(voice, speaking)
    if not every_way:
        ways = {n: way for n, way in ways.items() if n.endswith(f"+{voice.vocoder}")}
    for name, way in ways.items():
        bar = tqdm(sentences, desc=name, unit="sentence")
        spoken[name] = [
            way(sentence, recording, cloned[sentence.references])
            for sentence, recording in zip(bar, recordings, strict=True)
        ]
    if save_dir is not None:
        for name, waveforms in spoken.items():
            save_speech(save_dir / name, sentences, waveforms, rate)
    texts = [sentence.text for sentence in sentences]
    mistakes = {name: recogniser.mistakes(made, rate, texts) for name, made in spoken.items()}
    recorded, _ = mistakes["recorded"]
    return [
        Heard(
            name,
            error=CharacterError.of(*mistakes[name], recorded),
            distance=float(
                np.mean([_distance(voice, *pair) for pair in zip(made, recordings, strict=True)])
            ),
            length=sum(map(len, made)) / sum(map(len, recordings)),
            word_error=recogniser.word_error(made, rate, texts)
            if isinstance(recogniser, OtherRecogniser)
            else None,
        )
        for name, made in spoken.items()
    ]


def cloned_voices(voice: Voice, sentences: Sequence[Sentence]) -> dict[tuple, ClonedVoice]:
    """The voice cloned from the references of each sentence."""
    return {
        references: voice.clone(references)
        for references in dict.fromkeys(sentence.references for sentence in sentences)
    }


def through_codes(voice: Voice, recording: np.ndarray, cloned: ClonedVoice) -> np.ndarray:
    """The recording after the tokenizer and the vocoder."""
    codes, _ = voice.networks.tokenizer.encode(*log_mels([recording], voice.audio))
    return voice.waveform_of(codes, cloned.speaker)[0].numpy()[: len(recording)]


def save_speech(
    directory: Path, sentences: Sequence[Sentence], waveforms: Sequence[np.ndarray], rate: int
) -> None:
    with open(_made(directory) / "metadata.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="|", lineterminator="\n")
        for number, (sentence, waveform) in enumerate(zip(sentences, waveforms, strict=True)):
            name = f"wavs/{sentence.language}-{number:04d}-{sentence.speaker}.wav"
            wav.write_pcm16(directory / name, pcm16(waveform), rate)
            table.writerow([name, sentence.text, sentence.speaker, sentence.language])


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _ways(voice: Voice, speaking: Speaking | None) -> dict[str, Way]:
    networks, audio = voice.networks, voice.audio

    def by_griffin_lim(sentence, recording, cloned):
        return griffin_lim_waveforms(*log_mels([recording], audio), audio)[0]

    def by_tokenizer(voice):
        def way(sentence, recording, cloned):
            return through_codes(voice, recording, cloned)

        return way

    def by_text(voice):
        def way(sentence, recording, cloned):
            return voice.speak(sentence.text, sentence.language, cloned, speaking)

        return way

    vocoders = ["griffin_lim"] + ["network"] * (networks.vocoder is not None)
    voices = {vocoder: Voice(networks, vocoder) for vocoder in vocoders}
    return (
        {"griffin_lim": by_griffin_lim}
        | {f"tokenizer+{name}": by_tokenizer(other) for name, other in voices.items()}
        | {f"generated+{name}": by_text(other) for name, other in voices.items()}
    )


def _distance(voice: Voice, waveform: np.ndarray, recording: np.ndarray) -> float:
    mel, lengths = log_mels([waveform, recording], voice.audio)
    found, wanted = (row[:length] for row, length in zip(mel.numpy(), lengths.numpy(), strict=True))
    return mel_cepstral_distance(found, wanted, voice.audio.power)
