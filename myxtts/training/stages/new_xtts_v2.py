"""The stages of the published XTTS v2 from random weights, one after the other.

They train the same networks as the stages of published weights do, and begin with the random ones
in the run's `init/`. What is different: each needs the ones before it, the speaker encoder is
trained, and the settings are those of training from nothing.
"""

from types import MappingProxyType

import numpy as np
import tensorflow as tf

from myxtts.model.speaker import speaker_loss
from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.segments import random_segment
from myxtts.training.stages.base import ClipMemory
from myxtts.training.stages.published import ClipSizes, maker
from myxtts.training.stages.published_gpt import PublishedGptStage
from myxtts.training.stages.published_tokenizer import PublishedTokenizerStage
from myxtts.training.stages.published_vocoder import PublishedVocoderStage
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import mirrored
from myxtts.xtts_v2.networks import make_dvae, make_speaker
from myxtts.xtts_v2.resampling import resampled
from myxtts.xtts_v2.sizes import CODE_SAMPLES

_VOICE, _REFERENCE = 2006, 2007  # salts of the random cuts, see `tokenizer`
_SPEAKER_MELS, _SPEAKER_HOP = 64, 160
# So the rate of a GPT is never above the one measured with `tiny`, whose width is a quarter.
_MOST_TIMES = 4.0
# Tensors that are alive at the fullest moment of a step, counted in the code, not measured.
_RESNET = 9.0  # by place, channel and block


class NewTokenizerStage(PublishedTokenizerStage):
    """The DVAE, and with it the speaker encoder, which has to tell the corpus's voices apart: two
    stretches of a voice, from two clips where there are two, are to have like vectors."""

    form = "new_xtts_v2"
    most_times_the_rate = _MOST_TIMES
    makes = MappingProxyType({"dvae": maker(make_dvae), "speaker": maker(make_speaker)})
    fixed = ("speaker_frames",)
    # No averages: those of weights would not fit the batch norms' moving statistics.
    learning = StageConfig(learning_rate=5e-4, share=0.2, ema=0.0)
    parts = (*PublishedTokenizerStage.parts, "speaker")
    held_out = (*PublishedTokenizerStage.held_out, "speaker")

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.speaker = self.networks["speaker"]
        # One for each, so that neither's gradients shrink the other's when they are clipped.
        learning = at.config.stage(self.name)
        self.learners["speaker"] = Learner([self.speaker], learning, as_torch=True)

    @classmethod
    def crop(cls, config):
        return "other_clip"

    @classmethod
    def reference_seconds(cls, config):
        """As much as the speaker encoder looks at."""
        audio = config.model.audio
        seconds = config.speaker_frames * audio.hop_length / audio.sample_rate
        return seconds, seconds

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        memory = super().clip_memory(config, longest, text_tokens)
        speaker, audio = config.model.xtts_v2.speaker, config.model.audio
        seconds = config.speaker_frames * audio.hop_length / audio.sample_rate
        frames = seconds * mels.SPEAKER_RATE / _SPEAKER_HOP
        places = frames * _SPEAKER_MELS
        kept = places * speaker.filters[0]
        for stage, (filters, blocks) in enumerate(
            zip(speaker.filters, speaker.blocks, strict=True)
        ):
            kept += blocks * filters * places / 4**stage
        batch = memory.batch + int(2 * frames * _SPEAKER_MELS)
        prepared = ClipSizes(config, longest).codes_made
        return ClipMemory(memory.kept + 2 * _RESNET * kept, batch, prepared)

    def front_end(self, batch):
        mel, waveform, lengths = self.dvae_mel(batch)
        codes = tf.shape(mel)[1] // 4
        there = tf.sequence_mask(-(-lengths // CODE_SAMPLES), codes, tf.float32)
        return {
            "key": batch["key"],
            "mel": mel[:, : 4 * codes],
            "there": there,
            "voice": self._voice_mel(waveform, lengths, key=batch["key"], salt=_VOICE),
            "reference": self._voice_mel(*self.crops(batch), key=batch["key"], salt=_REFERENCE),
            "speaker": batch["speaker"],
        }

    def losses(self, batch, seed, phase):
        made = self.dvae(batch["mel"], training=True, there=batch["there"], seed=seed)
        speaker = self._speaker_loss(batch, True)
        figures = {**self._figures(made), "speaker": speaker, "loss": made["loss"] + speaker}
        return {"dvae": made["loss"], "speaker": speaker}, figures

    def evaluate(self, batch):
        made = self.dvae(batch["mel"])
        return {**self._figures(made), "speaker": self._speaker_loss(batch, False)}

    def _voice_mel(self, waveform, lengths, *, key, salt):
        """The speaker encoder's mels of a stretch; a shorter clip is mirrored at its end."""
        audio = self.config.model.audio
        seconds = self.config.speaker_frames * audio.hop_length / audio.sample_rate
        size = int(seconds * mels.RATE)
        waveform = tf.pad(waveform, [[0, 0], [0, tf.maximum(size - tf.shape(waveform)[1], 0)]])
        cut, _, _ = random_segment(
            mirrored(waveform, lengths),
            lengths=tf.maximum(lengths, size),
            size=size,
            key=key,
            salt=salt,
            padding=0.0,
        )
        return mels.speaker_mel(resampled(cut, mels.RATE, mels.SPEAKER_RATE))

    def _speaker_loss(self, batch, training):
        # Together: the batch norms measure both at once.
        both = tf.concat([batch["voice"], batch["reference"]], 0)
        voice, reference = tf.split(self.speaker.unit_vectors_of(both, training), 2)
        return speaker_loss(voice, reference, batch["speaker"])


class NewGptStage(PublishedGptStage):
    """The GPT and its conditioning. Until the HiFi-GAN is trained, its codes are shown as mels."""

    form = "new_xtts_v2"
    most_times_the_rate = _MOST_TIMES
    needs = ("tokenizer",)
    learning = StageConfig(learning_rate=3e-4, share=0.55, beta_2=0.96)

    def show(self, exhibits):
        if self.surroundings.run.weights("vocoder") is not None:
            return self.speak(exhibits, self.networks, other=("tokenizer", "vocoder"))
        for name, ids, cloned, speaking in self.said(exhibits, self.networks, ("tokenizer",)):
            most = self.gpt.max_codes
            drawn = self._voice.codes(ids, cloned, speaking, first=most, every=most)
            codes = np.concatenate([np.ravel(codes) for codes, _, _ in drawn])
            codes = codes[codes < self.gpt.start_code]
            if len(codes):
                mel = self.dvae.mel_of(tf.constant(codes[None], tf.int32))[0]
                exhibits.mel(f"{name}/generated", mel * self.mel_stats)
        return None


class NewVocoderStage(PublishedVocoderStage):
    """The HiFi-GAN; the speaker encoder is the one that was trained with the DVAE."""

    form = "new_xtts_v2"
    most_times_the_rate = _MOST_TIMES
    needs = ("tokenizer", "gpt")
    frozen = MappingProxyType({})
    learning = StageConfig(learning_rate=2e-4, share=0.25)

    def __init__(self, at, needed):
        super().__init__(at, {**needed, "frozen": {"speaker": needed["tokenizer"]["speaker"]}})
