"""The base of the stages of a published XTTS v2: they start from the run's `init/`, and frozen
networks run on the data device."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dual_device_strategy import data_scope
from myxtts.model.config import ModelConfig
from myxtts.training.stages.base import LongestClip, Maker, Stage, float32, stage_named
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate, left_out_codes, mirrored
from myxtts.xtts_v2.conditioning import LATENTS
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.networks import Published, read_published
from myxtts.xtts_v2.sizes import CODE_RATE, CODE_SAMPLES
from myxtts.xtts_v2.voice import PublishedVoice

# Fitted: numbers that are alive on the data device at once (`tests/benchmarks/memory.py`).
_MELS = 13.0  # by sample at 22,050 Hz, where only mels for the DVAE are made
_SOUND = 6.0  # by sample, where codes and references are made as well
_SPECTRUM = 3.8  # by sample and 256 / hop of a spectrogram's frames, in float64
_DVAE = 12.0  # by code and inner width


def maker(make) -> Maker:
    """A maker of `xtts_v2.networks` as a stage declares it; the weights are read afterwards."""
    return lambda model, _: make(model.xtts_v2, Names(drawn=False))


class PublishedStage(Stage):
    """A subclass also declares

    frozen: what it works with beside the networks of the stages in `uses`, by name.
    most_times_the_rate: how many times larger the rate of narrow networks may be.
    """

    form = "xtts_v2"
    makes_features = True
    frozen: ClassVar[Mapping[str, Maker]] = MappingProxyType({})
    most_times_the_rate: ClassVar[float] = float("inf")
    _voice = None  # made when something is to be heard

    @classmethod
    def restored(cls, at):
        source = PublishedDirectory.open(at.run.init)
        found = {name: at.trained(name, data_scope()) for name in cls.uses}
        # Adapters are of what this run trains, not of what it started from.
        model = dataclasses.replace(
            at.config.model, xtts_v2=dataclasses.replace(at.config.model.xtts_v2, adapter_rank=0)
        )
        with data_scope(), float32():
            for name in cls.uses:
                if found[name] is None:
                    declared = stage_named(name, cls.form)
                    found[name] = declared.make_networks(model, at.text_tokens)
                    cls.read(found[name], source)
            frozen = cls.frozen.items()
            found["frozen"] = {name: make(model, at.text_tokens) for name, make in frozen}
            cls.read(found["frozen"], source)
        made = cls(at, found)
        made.source, made.mel_stats = source, tf.constant(source.mel_stats).numpy()
        cls.read(made.networks, source)
        made.restart_averages()
        return made

    @staticmethod
    def read(networks: Mapping, source: PublishedDirectory) -> None:
        """Gives networks by name the weights in a published directory."""
        for network in networks.values():
            read_published(network, source)

    @classmethod
    def make_frozen(cls, model, text_tokens):
        made = {name: make(model, text_tokens) for name, make in cls.frozen.items()}
        for used in cls.uses:
            made |= stage_named(used, cls.form).make_networks(model, text_tokens)
        return made

    @classmethod
    def usual_rate(cls, model):
        """Larger in proportion where the networks are narrower than the published ones."""
        times = cls.width(ModelConfig()) / cls.width(model)
        return cls.learning.learning_rate * min(cls.most_times_the_rate, times)

    @classmethod
    def crop(cls, config):
        return config.model.xtts_v2.objective.crop

    @property
    def objective(self):
        return self.config.model.xtts_v2.objective

    @property
    def rate(self) -> int:
        """Of the clips in batches."""
        return self.config.model.audio.sample_rate

    def dvae_mel(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The mels of a batch's clips for the DVAE, and samples and lengths at 22,050 Hz."""
        waveform, lengths = at_mel_rate(batch["waveform"], batch["waveform_lengths"], self.rate)
        mel = mels.log_mel(self._continued(waveform, lengths), self.mel_stats, mels.DVAE_FFT)
        return mel, waveform, lengths

    def for_gpt(self, batch: dict, dvae) -> dict:
        """What the GPT is trained on: the clips' codes and what is heard of the voice."""
        mel, waveform, lengths = self.dvae_mel(batch)
        most = -(-tf.shape(waveform)[1] // CODE_SAMPLES)
        crop, crop_lengths = self.crops(batch)
        crop = self._continued(crop, crop_lengths)
        start = tf.cast(
            tf.cast(batch["conditioning_starts"], tf.int64) * mels.RATE // self.rate, tf.int32
        )
        return {
            "key": batch["key"],
            "text": batch["text"],
            "text_lengths": batch["text_lengths"],
            "codes": dvae.codes_of(mel)[:, :most],
            "code_lengths": -(-lengths // CODE_SAMPLES),
            "conditioning_mel": mels.log_mel(crop, self.mel_stats, mels.CONDITIONING_FFT),
            "left_out": left_out_codes(self.objective, start, crop_lengths),
        }

    def crops(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
        """The references of a batch at 22,050 Hz, and their lengths."""
        return at_mel_rate(batch["conditioning"], batch["conditioning_lengths"], self.rate)

    def speak(self, exhibits, networks: Mapping, other: Sequence[str] = ()) -> None:
        """Shows the texts as these networks say them, with those of the `other` stages where the
        run has trained them."""
        for name, ids, cloned, speaking in self.said(exhibits, networks, other):
            chunks = self._voice.sentence(ids, cloned, speaking)
            exhibits.sound(name, tf.concat(list(chunks), 0))

    def said(self, exhibits, networks: Mapping, other: Sequence[str] = ()) -> Iterator[tuple]:
        """What each text is said with: its name, its ids, a cloned voice, and how codes are drawn.
        Makes `_voice` of the networks, see `speak`."""
        if self._voice is None:
            networks = dict(networks)
            for stage in other:
                networks |= self.surroundings.trained(stage, data_scope()) or {}
            with data_scope(), float32():
                self._voice = PublishedVoice(Published.around(self.source, **networks))
        clips = exhibits.clips
        for number, (ids, clip) in enumerate(exhibits.texts):
            length = int(clips["waveform_lengths"][clip])
            waveform = clips["waveform"][clip, :length].numpy().astype("float32") / 32768.0
            # A reference has at least a second; a shorter clip is said again.
            cloned = self._voice.clone([np.resize(waveform, max(length, self.rate))])
            speaking = dataclasses.replace(self._voice.speaking, seed=number + 1)
            yield f"text{number}", ids, cloned, speaking

    def _continued(self, waveform, lengths):
        if self.objective.padding == "zeros":
            return waveform
        return mirrored(waveform, lengths)


class ClipSizes:
    """A longest clip in the units of the published networks, for estimates of memory."""

    def __init__(self, config, longest: LongestClip):
        audio, published = config.model.audio, config.model.xtts_v2
        self._published = published
        at_mels = CODE_RATE / audio.sample_rate
        self.samples = longest.frames * audio.hop_length * at_mels
        self.reference_samples = longest.reference_frames * audio.hop_length * at_mels
        self.codes = self.samples / CODE_SAMPLES
        self.frames = self.samples / mels.HOP
        self.reference_frames = self.reference_samples / mels.HOP
        self.positions = LATENTS + longest.text_tokens + 2 + self.codes + 5

    @property
    def mels_made(self) -> float:
        """Numbers that making the DVAE's mels keeps on the data device at its fullest moment."""
        return _MELS * self.samples

    @property
    def codes_made(self) -> float:
        """The same of mels, codes and references."""
        spectra = _SPECTRUM * 4 * max(self.samples, 2 * self.reference_samples)
        dvae = _DVAE * self.codes * 2 * self._published.dvae.width
        return _SOUND * (self.samples + self.reference_samples) + max(spectra, dvae)
