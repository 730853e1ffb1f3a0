"""A trained run for use: clone a voice from recordings, and let it speak.

    voice = Voice.load("RUN")
    cloned = voice.clone(["a.wav", "b.wav"])
    waveform = voice.speak("Good morning. How are you?", "en", cloned)
    for chunk in voice.stream("Good morning. How are you?", "en", cloned): ...

Waveforms are float32 at `voice.sample_rate`. The same arguments give the same samples; the joined
chunks of `stream` equal what `speak` returns, up to rounding.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from myxtts import UserError
from myxtts.config import Speaking
from myxtts.features import make_log_mel
from myxtts.model import sampling
from myxtts.model.griffin_lim import griffin_lim
from myxtts.reference import check_reference, pieces_of, read_reference
from myxtts.speaking import ClonedVoice, SpeakingVoice
from myxtts.text.sentences import split_text
from myxtts.training.networks import Networks, load_networks
from myxtts.training.run_directory import RunDirectory

SPEAKING_STAGES = ("tokenizer", "gpt")  # without these there is no voice
VOCODERS = ("network", "griffin_lim")
# New mel frames in the first chunk of a stream, and codes generated for each later one.
_FIRST_FRAMES, _EVERY = 16, 40


class Voice(SpeakingVoice):
    """A trained voice; the module's docstring shows its use. `vocoder` is "network" or
    "griffin_lim", which needs all of a sentence: then a chunk of `stream` is one."""

    def __init__(self, networks: Networks, vocoder: str = "network"):
        if vocoder not in VOCODERS:
            raise UserError(f"vocoder must be one of {', '.join(VOCODERS)}, got {vocoder!r}")
        self.networks, self.vocoder = networks, vocoder
        self.vocabulary, self.audio = networks.vocabulary, networks.config.model.audio
        self.stride = networks.config.model.tokenizer.stride
        # Codes to either side that change what a code decodes to: one for each convolution at
        # their rate, and less than one for all of those above it.
        self.context_codes = networks.config.model.tokenizer.residual_blocks + 3
        self._log_mel = make_log_mel(self.audio)
        self._pieces_cloned = tf.function(
            self.pieces_cloned, reduce_retracing=True, autograph=False
        )
        self._samples = tf.function(self._sound, reduce_retracing=True, autograph=False)

    @classmethod
    def load(cls, path: str | os.PathLike, vocoder: str | None = None) -> "Voice":
        """A voice from a run directory (with its best weights), or from a checkpoint inside one.

        Without `vocoder`, the one that was nearer to held-out recordings at the end of training.
        """
        run = RunDirectory.holding(path)
        networks = load_networks(path)
        for stage in SPEAKING_STAGES:
            if run.weights(stage) is None:
                raise UserError(
                    f"{run.path} holds no trained {stage} yet; go on with the training first"
                )
        if vocoder is None:
            vocoder = run.default_vocoder() if networks.vocoder else "griffin_lim"
            logging.info("waveforms by %s (%s)", vocoder, _reason(run, networks))
        elif vocoder == "network" and networks.vocoder is None:
            raise UserError(f"{run.path} holds no trained vocoder; leave --vocoder out")
        return cls(networks, vocoder)

    @property
    def sample_rate(self) -> int:
        return self.audio.sample_rate

    @property
    def languages(self) -> tuple[str, ...]:
        return self.vocabulary.languages

    def clone(self, references: Sequence[str | os.PathLike | np.ndarray]) -> ClonedVoice:
        """A voice from recordings of one speaker: files, or float waveforms at `sample_rate`."""
        if not references:
            raise UserError("no reference was given; name at least one recording of the voice")
        latents, speakers = [], []
        for number, reference in enumerate(references):
            if isinstance(reference, np.ndarray):
                check_reference(reference, self.sample_rate, f"number {number + 1}")
                waveform = reference.astype(np.float32)
            else:
                waveform = read_reference(reference, self.audio)
            found = self._pieces_cloned(tf.constant(waveform))
            latents.append(found[0])
            speakers.append(found[1])
        return ClonedVoice(*averaged(tf.concat(latents, 0), tf.concat(speakers, 0)))

    def sentences(self, text: str, language: str) -> list[list[int]]:
        self.vocabulary.language_tag(language)
        pieces = split_text(
            text,
            language,
            lambda part: len(self.vocabulary.encode(part, language)),
            self.networks.gpt.max_text_tokens,
        )
        return [self.vocabulary.encode(piece, language) for piece in pieces]

    def warm_up(self) -> None:
        """Traces every function for all shapes, so that the first sentence is as fast as later
        ones. Two of each are made, because only a second shape makes a trace general."""
        chance = np.random.default_rng(0)
        for seconds, tokens in ((3.0, 12), (7.0, 31)):
            noise = 0.1 * chance.standard_normal(int(seconds * self.sample_rate))
            cloned = self.clone([noise.astype(np.float32)])
            next(self.sentence([3] * tokens, cloned, self.speaking, streamed=True))
            self.sound(np.zeros([1, 3 * tokens], np.int32), cloned.speaker, 0, 12 * tokens)

    def traced(self) -> list:
        """The functions that `warm_up` traces."""
        return [self._pieces_cloned, self._samples, *sampling.traced(self.networks.gpt)]

    def sentence(
        self, ids: list[int], cloned: ClonedVoice, speaking: Speaking, *, streamed: bool = False
    ) -> Iterator[np.ndarray]:
        streamed = streamed and self.vocoder == "network"
        gpt, stride = self.networks.gpt, self.stride
        most = int(sampling.most_codes(gpt, len(ids)))
        ahead = self.networks.vocoder.context_frames if streamed else 0
        first = self.context_codes + -(-(ahead + _FIRST_FRAMES) // stride)
        codes, given = np.zeros([1, 0], np.int32), 0
        for new, _, _ in sampling.stream(
            gpt,
            cloned.latents,
            tf.constant([ids], tf.int32),
            tf.constant([len(ids)]),
            every=_EVERY if streamed else most,
            first=min(first, most) if streamed else most,
            max_tokens=most,
            **speaking.sampling(),
        ):
            codes = np.concatenate([codes, new.numpy()], 1)
            until = (codes.shape[1] - self.context_codes) * stride - ahead
            if streamed and until > given:
                yield self.sound(codes, cloned.speaker, given, until)
                given = until
        if codes.shape[1] * stride > given:
            yield self.sound(codes, cloned.speaker, given, codes.shape[1] * stride)
        if codes.shape[1] == most:
            logging.warning("a sentence of %d tokens did not end and was cut off", len(ids))

    def sound(self, codes: np.ndarray, speaker: tf.Tensor, begin: int, end: int) -> np.ndarray:
        """The samples of the mel frames from `begin` to `end` of codes [1, N], as they are in the
        waveform of all the codes."""
        stride, whole = self.stride, codes.shape[1] * self.stride
        around = self.networks.vocoder.context_frames if self.vocoder == "network" else whole
        low, high = max(0, begin - around), min(whole, end + around)
        first = max(0, low // stride - self.context_codes)
        last = min(codes.shape[1], -(-high // stride) + self.context_codes)
        places = [low - first * stride, high - first * stride, begin - low, end - low]
        samples = self._samples(tf.constant(codes[:, first:last]), speaker, tf.constant(places))
        return samples.numpy()

    def pieces_cloned(self, waveform):
        """Latents and speaker vectors of the pieces of one reference [S]."""
        mel, mel_lengths = self._log_mel(*pieces_of(waveform, self.audio))
        latents = self.networks.conditioning(mel, mel_lengths)
        return tf.cast(latents, tf.float32), self.networks.speaker(mel, mel_lengths)

    def waveform_of(self, codes, speaker):
        """The waveform [B, N * stride * hop] of codes [B, N], all of them real."""
        return self._vocoded(self._mel_of(codes), speaker)

    def _sound(self, codes, speaker, places):
        waveform = self._vocoded(self._mel_of(codes)[:, places[0] : places[1]], speaker)
        hop = self.audio.hop_length
        return waveform[0, places[2] * hop : places[3] * hop]

    def _mel_of(self, codes):
        clips, size = tf.unstack(tf.shape(codes))
        return self.networks.tokenizer.decode(codes, tf.fill([clips], size))

    def _vocoded(self, mel, speaker):
        if self.vocoder == "network":
            return self.networks.vocoder(mel, speaker)
        return griffin_lim(mel, self.audio)


def averaged(latents: tf.Tensor, speakers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """One voice of what several pieces gave: `(latents [1, ...], speaker [1, size])`."""
    mean = tf.reduce_mean(speakers, 0, keepdims=True)
    return tf.reduce_mean(latents, 0, keepdims=True), tf.math.l2_normalize(mean, -1)


def _reason(run: RunDirectory, networks: Networks) -> str:
    if networks.vocoder is None:
        return "no vocoder is trained yet"
    judged = (run.result("vocoder") or {}).get("comparison")
    if not judged:
        return "the vocoder's training is not finished"
    distances = ", ".join(f"{name} {judged[name]:.3f}" for name in VOCODERS)
    return f"mel distance to held-out recordings: {distances}"
