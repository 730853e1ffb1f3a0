"""Recognisers of people's speech from other projects: `pip install '.[evaluation]'`.

    recogniser = recogniser_named("moonshine", language="en", directory="recogniser")
    recogniser.transcribe([waveform], sample_rate=22050)    # ["Ever tried. Ever failed. ..."]

"own" is the small one that this package trains on espeak-ng's speech (`recogniser`). "moonshine" is
the English model that PyPI's moonshine-voice 0.1.0 carries; it works offline. "whisper" takes a
model of yours for faster-whisper. jiwer counts errors on the letters of both texts (`letters_of`),
so punctuation and digits do not count.
"""

import functools
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from myxtts import UserError
from myxtts.evaluation.distances import edits
from myxtts.evaluation.recogniser import letters_of, trained_recogniser
from myxtts.evaluation.sentences import read
from myxtts.evaluation.waveforms import resampled
from myxtts.text.languages import base_language

RECOGNISERS = ("own", "moonshine", "whisper")
_RATE = 16_000
# A person's recording in moonshine-voice, and what it says; the model mishears two letters of it.
_CHECKED = "beckett.wav", "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
_MOST_WRONG = 0.15


def recogniser_named(
    name: str, language: str, directory: str | os.PathLike, model: str | None = None
):
    """The recogniser called `name`, one of RECOGNISERS. `directory` is where "own" is kept,
    `model` is the model of "whisper"."""
    if name == "own":
        return trained_recogniser(directory, language)
    if name == "moonshine":
        return Moonshine(language)
    return Whisper(model, language)


class OtherRecogniser:
    """The base of recognisers from other projects."""

    texts: frozenset[str] = frozenset()  # its training texts are not known

    def __init__(self, language: str):
        self.language = language
        self._jiwer = _needed("jiwer")

    def transcribe(self, waveforms: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        """The texts of float waveforms of any length."""
        return [self._heard(resampled(clip, sample_rate, _RATE)) for clip in waveforms]

    def _heard(self, waveform: np.ndarray) -> str:
        raise NotImplementedError(f"{type(self).__name__} does not say how it hears")

    def mistakes(
        self, waveforms: Sequence[np.ndarray], sample_rate: int, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(edits, letters) of each clip, as from `Recogniser.mistakes`."""
        return self._counted(
            waveforms,
            sample_rate=sample_rate,
            texts=texts,
            process=self._jiwer.process_characters,
            size=len,
        )

    def word_error(
        self, waveforms: Sequence[np.ndarray], sample_rate: int, texts: Sequence[str]
    ) -> float:
        """The share of words that are misheard."""
        wrong, words = self._counted(
            waveforms,
            sample_rate=sample_rate,
            texts=texts,
            process=self._jiwer.process_words,
            size=lambda text: text.count(" ") + 1,
        )
        return float(wrong.sum() / words.sum())

    def _counted(self, waveforms, sample_rate, *, texts, process, size) -> tuple:
        heard = self._transcribed(tuple(map(bytes_of, waveforms)), sample_rate)
        wanted = [letters_of(text, self.language) for text in texts]
        found = [letters_of(text, self.language) for text in heard]
        pairs = [process(text, other) for text, other in zip(wanted, found, strict=True)]
        wrong = [pair.substitutions + pair.deletions + pair.insertions for pair in pairs]
        return np.array(wrong), np.array([size(text) for text in wanted])

    @functools.lru_cache(maxsize=8)  # noqa: B019 -- one recogniser lives as long as its process
    def _transcribed(self, clips: tuple[bytes, ...], sample_rate: int) -> list[str]:
        waveforms = [np.frombuffer(clip, np.float32) for clip in clips]
        return self.transcribe(waveforms, sample_rate)


def bytes_of(waveform: np.ndarray) -> bytes:
    return np.ascontiguousarray(waveform, np.float32).tobytes()


class Moonshine(OtherRecogniser):
    """The English model in moonshine-voice 0.1.0. It is checked on a person's recording when it is
    made."""

    def __init__(self, language: str = "en"):
        if base_language(language) != "en":
            raise UserError(
                f"--recogniser=moonshine knows English only, and this is {language}; take own, or "
                "whisper with a model of that language"
            )
        super().__init__(language)
        package = _needed("moonshine_voice")
        assets = Path(package.__file__).parent / "assets"
        if not (assets / "tiny-en").is_dir():
            raise UserError(
                "the moonshine-voice that is installed has no model in it; "
                "pip install moonshine-voice==0.1.0 brings one"
            )
        transcriber = importlib.import_module("moonshine_voice.transcriber").Transcriber
        kind = importlib.import_module("moonshine_voice.moonshine_api").ModelArch.TINY
        self._transcriber = transcriber(str(assets / "tiny-en"), kind)
        self.recordings = assets
        self._check()

    def _check(self) -> None:
        name, said = _CHECKED
        samples, rate = read(str(self.recordings / name))
        (heard,) = self.transcribe([samples], rate)
        wanted, found = (letters_of(text, "en") for text in (said, heard))
        if edits(found, wanted) > _MOST_WRONG * len(wanted):
            raise UserError(
                f"moonshine hears {heard!r} where a person says {said!r}, so its judgement is "
                "worth nothing here; take --recogniser=own"
            )

    def lines(self, waveform: np.ndarray, sample_rate: int) -> list[tuple[float, float, str]]:
        """(begin, end, text) of what is said between pauses, in seconds."""
        clip = resampled(waveform, sample_rate, _RATE)
        found = self._transcriber.transcribe_without_streaming(clip.tolist(), _RATE)
        return [(one.start_time, one.start_time + one.duration, one.text) for one in found.lines]

    def _heard(self, waveform: np.ndarray) -> str:
        return " ".join(text for _, _, text in self.lines(waveform, _RATE))


class Whisper(OtherRecogniser):
    """A model that faster-whisper loads from a directory. Never tried, for lack of a model."""

    def __init__(self, model: str | None, language: str):
        if not model or not os.path.isdir(model):
            raise UserError(
                f"--recogniser=whisper needs --recogniser_model=DIR, a model for faster-whisper; "
                f"got {model!r}"
            )
        super().__init__(language)
        self._model = _needed("faster_whisper").WhisperModel(model, device="cpu")

    def _heard(self, waveform: np.ndarray) -> str:
        pieces, _ = self._model.transcribe(waveform, language=base_language(self.language))
        return " ".join(piece.text.strip() for piece in pieces)


def _needed(module: str):
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        name = module.replace("_", "-")
        how = "pip install '.[evaluation]' (moonshine-voice is for Linux on x86-64 only)"
        if name == "faster-whisper":
            how = "pip install faster-whisper"
        raise UserError(f"{name} is not there ({error}): {how}") from None
