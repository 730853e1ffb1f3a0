"""Speaks with a published model, in a voice cloned from recordings.

    voice = PublishedVoice.load("XTTS-v2")
    cloned = voice.clone(["a.wav", "b.wav"])       # or voice.speaker("Ana Florence")
    waveform = voice.speak("Good morning. How are you?", "en", cloned)
    for chunk in voice.stream("Good morning. How are you?", "en", cloned): ...

The same calls as `myxtts.voice.Voice`. Waveforms are float32 at 24,000 Hz. The chunks of `stream`
joined are what `speak` returns, up to rounding.
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np
import soundfile
import tensorflow as tf
from absl import logging

from myxtts import UserError
from myxtts.config import Speaking
from myxtts.reference import check_reference, unreadable
from myxtts.speaking import ClonedVoice, SpeakingVoice
from myxtts.xtts_v2 import hifigan, mels, sampling
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.resampling import interpolated, resampled
from myxtts.xtts_v2.text import Tokens

_SHORTEST_CHUNK = 0.33  # seconds; the published code drops shorter ones
# Codes before the first chunk of a stream, and for each later one.
_FIRST, _EVERY = 8, 20
_HOPS_OF_A_CODE = 4 * 24000 / 22050
_UNKNOWN = 10**6  # codes of a sentence that has not ended


class PublishedVoice(SpeakingVoice):
    """A published model that speaks; the module's docstring shows its use."""

    vocoder = "network"  # as it is called in our own runs

    def __init__(self, networks: Published):
        self.networks, self.config = networks, networks.source.config
        self.tokens = Tokens(networks.source.vocabulary, networks.source.normaliser)
        waveform = [tf.TensorSpec([1, None], tf.float32)]
        self._conditioned = tf.function(self._condition, input_signature=waveform)
        self._recognised = tf.function(self._recognise, input_signature=waveform)
        width, size = self.config.model_args.gpt_n_model_channels, networks.hifigan.speaker_size
        place = tf.TensorSpec([], tf.int32)
        vectors = [
            tf.TensorSpec([1, None, width], tf.float32),
            tf.TensorSpec([1, size], tf.float32),
        ]
        self._samples = tf.function(networks.hifigan.part, input_signature=[*vectors, *[place] * 4])

    @classmethod
    def load(cls, path: str | os.PathLike) -> "PublishedVoice":
        """A voice from a directory in the published layout."""
        return cls.of(PublishedDirectory.open(path))

    @classmethod
    def of(cls, source: PublishedDirectory) -> "PublishedVoice":
        """A voice from the contents of a directory or a run."""
        if source.ignored:
            logging.info("%s: ignored %s", source.path, ", ".join(source.ignored[:5]))
        # Speaking does not need the DVAE.
        voice = cls(Published.load(dataclasses.replace(source, dvae=None)))
        logging.info("%s: %s", source.path, source.licence)
        return voice

    @property
    def sample_rate(self) -> int:
        return hifigan.SAMPLE_RATE

    @property
    def languages(self) -> tuple[str, ...]:
        return self.tokens.languages

    @property
    def speaking(self) -> Speaking:
        """How codes are drawn by default, from config.json."""
        config = self.config
        return Speaking(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            repetition_penalty=config.repetition_penalty,
        )

    @property
    def speakers(self) -> tuple[str, ...]:
        """The voices that came with the model."""
        return tuple(self.networks.source.speakers)

    def speaker(self, name: str) -> ClonedVoice:
        """One of the voices that came with the model."""
        found = self.networks.source.speakers.get(name)
        if found is None:
            known = ", ".join(self.speakers) or "none: there is no speakers_xtts.pth"
            raise UserError(f"the model has no speaker {name!r}; it has {known}")
        latents, vector = found
        return ClonedVoice(tf.constant(latents), tf.constant(vector[..., 0]))

    def clone(self, references: Sequence[str | os.PathLike | np.ndarray]) -> ClonedVoice:
        """A voice from recordings of one speaker: files, or float waveforms at 24,000 Hz.

        As published, of each recording only the first `max_ref_len` seconds count; the latents are
        the mean over pieces of the first `gpt_cond_len` seconds of all recordings together.
        """
        if not references:
            raise UserError("no reference was given; name at least one recording of the voice")
        config, rate = self.config, mels.RATE
        waveforms, vectors = [], []
        for number, reference in enumerate(references):
            waveform = self._waveform(reference, f"number {number + 1}")
            waveform = waveform[:, : rate * config.max_ref_len]
            if config.sound_norm_refs:
                waveform = waveform / tf.reduce_max(tf.abs(waveform)) * 0.75
            waveforms.append(waveform)
            vectors.append(self._recognised(waveform))
        whole = tf.concat(waveforms, 1)
        whole = whole[:, : rate * config.gpt_cond_len] if config.gpt_cond_len > 0 else whole
        size = rate * config.gpt_cond_chunk_len
        pieces = [whole[:, start : start + size] for start in range(0, whole.shape[1], size)]
        latents = [
            self._conditioned(piece) for piece in pieces if piece.shape[1] >= _SHORTEST_CHUNK * rate
        ]
        # The mean of unit vectors is not normalised again, as published.
        return ClonedVoice(tf.add_n(latents) / len(latents), tf.add_n(vectors) / len(vectors))

    def sentences(self, text: str, language: str) -> list[list[int]]:
        most = self.config.model_args.gpt_max_text_tokens - 1
        return self.tokens.pieces(text, language, most)

    def warm_up(self) -> None:
        """Traces all functions, so that the first sentence is as fast as later ones."""
        noise = 0.1 * np.random.default_rng(0).standard_normal(2 * self.sample_rate)
        cloned = self.clone([noise.astype(np.float32)])
        ids = self.tokens.encode("a", self.languages[0])
        _, latents, _ = next(self.codes(ids, cloned, self.speaking, first=3, every=1))
        count = latents.shape[1]
        self.sound(
            latents, cloned.speaker, total=count, begin=0, end=int(hifigan.HifiGan.hops(count))
        )

    def codes(
        self, ids: list[int], cloned: ClonedVoice, speaking: Speaking, *, first: int, every: int
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor, bool]]:
        """The codes of one sentence, as from `sampling.stream`."""
        text = tf.constant([ids], tf.int32)
        return sampling.stream(
            self.networks.gpt, cloned.latents, text, first=first, every=every, **speaking.sampling()
        )

    def sentence(
        self,
        ids: list[int],
        cloned: ClonedVoice,
        speaking: Speaking,
        *,
        streamed: bool = False,
        speed: float = 1.0,
    ) -> Iterator[np.ndarray]:
        """As `SpeakingVoice.sentence`, the first chunk after 8 codes; or `speed` times as fast,
        which cannot be streamed."""
        if not 0.05 <= speed <= 20:
            raise UserError(f"speed must be between 0.05 and 20, got {speed}")
        most = self.networks.gpt.max_codes
        first, every = (_FIRST, _EVERY) if streamed else (most, most)
        held, yielded = [], 0
        for codes, latents, done in self.codes(
            ids, cloned=cloned, speaking=speaking, first=first, every=every
        ):
            held.append(latents)
            latents = tf.concat(held, 1)
            if done and speed != 1.0:
                latents = interpolated(latents, 1.0 / speed)
            count = latents.shape[1]
            if done:
                total, until = count, int(hifigan.HifiGan.hops(count))
            else:
                ready = count - hifigan.CONTEXT_CODES
                total, until = _UNKNOWN, int(ready * _HOPS_OF_A_CODE)
            if until > yielded:
                yield self.sound(latents, cloned.speaker, total=total, begin=yielded, end=until)
                yielded = until
            if done and int(codes[-1]) != self.networks.gpt.stop_code:
                logging.warning("a sentence of %d tokens did not end and was cut off", len(ids))

    def sound(
        self, latents: tf.Tensor, speaker: tf.Tensor, *, total: int, begin: int, end: int
    ) -> np.ndarray:
        """The samples of the hops from `begin` to `end`, as they are in the waveform of the
        complete sentence. `latents` [1, N, W] are the first of its `total` codes."""
        around = hifigan.CONTEXT_CODES
        first = max(0, int(begin / _HOPS_OF_A_CODE) - around)
        last = min(latents.shape[1], int(np.ceil(end / _HOPS_OF_A_CODE)) + around)
        places = [tf.constant(place) for place in (first, total, begin, end)]
        return self._samples(latents[:, first:last], speaker, *places)[0].numpy()

    def _waveform(self, reference, name) -> tf.Tensor:
        """float32 [1, T] at 22,050 Hz; UserError if the recording is unfit."""
        if isinstance(reference, np.ndarray):
            waveform, rate = reference.astype(np.float32), self.sample_rate
        else:
            name = os.fspath(reference)
            try:
                waveform, rate = soundfile.read(name, dtype="float32", always_2d=True)
            except (OSError, soundfile.SoundFileError) as error:
                raise unreadable(name, error) from None
            waveform = waveform.mean(1)
        if not np.isfinite(waveform).all():
            raise UserError(f"the reference {name} holds samples that are no numbers")
        check_reference(waveform, rate, name)
        made = resampled(tf.constant(waveform[None]), rate, mels.RATE)
        return tf.clip_by_value(made, -1.0, 1.0)

    def _condition(self, waveform):
        mel = mels.log_mel(waveform, self.networks.mel_stats, mels.CONDITIONING_FFT)
        return self.networks.conditioning(mel)

    def _recognise(self, waveform):
        return self.networks.speaker(resampled(waveform, mels.RATE, mels.SPEAKER_RATE))
