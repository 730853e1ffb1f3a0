"""The HiFi-GAN of a published XTTS v2, fine-tuned on what its GPT makes of the clips."""

import dataclasses
from types import MappingProxyType

import tensorflow as tf

from myxtts.config import AudioConfig
from myxtts.model import vocoder_losses
from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.segments import random_segment, segment_at
from myxtts.training.stages.base import ClipMemory
from myxtts.training.stages.published import ClipSizes, PublishedStage, maker
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import mirrored
from myxtts.xtts_v2.discriminators import Discriminators
from myxtts.xtts_v2.hifigan import HOP, SAMPLE_RATE, HifiGan
from myxtts.xtts_v2.networks import make_hifigan, make_speaker
from myxtts.xtts_v2.resampling import resampled

_SEGMENT = 2005  # salt of the random cut, see `tokenizer`
_BETA_1 = 0.8
# Whose distance is a loss: magnitudes up to the highest frequency there is.
_HEARD = AudioConfig(sample_rate=SAMPLE_RATE, f_max=SAMPLE_RATE / 2, power=1.0)
# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_CONVOLUTIONS = 7.0 / 9  # by sample of a segment, width and pair of convolutions
_SPECTRA = 20.0  # by sample of a segment
_CRITICS = 176.0 / 6  # by sample, discriminator and critic_width
_READING = 8.0  # by position and width, on the data device
_SCORES = 2.0  # by head and pair of positions, on the data device
_HOPS = 3.0  # by hop and width, on the data device


class PublishedVocoderStage(PublishedStage):
    """On the data device the DVAE makes codes of the clips, the whole GPT reads them, and segments
    are cut out of its latents, on the grid of the waveform's hops; the speaker encoder makes
    vectors of the references. The discriminators begin with random weights: none are published."""

    name = "vocoder"
    uses = ("tokenizer", "gpt")
    makes = MappingProxyType({"hifigan": maker(make_hifigan)})
    frozen = MappingProxyType({"speaker": maker(make_speaker)})
    learning = StageConfig(
        learning_rate=1e-4,
        share=0.3,
        schedule="constant",
        warm_up_steps=0,
        weight_decay=0.01,
        beta_2=0.99,
        clip_norm=0.0,
        ema=0.0,
    )
    parts = ("loss", "mel", "adversarial", "features", "critics")
    held_out = ("mel",)

    def __init__(self, at, needed):
        super().__init__(at, needed)
        learning = at.config.stage(self.name)
        self.hifigan, self.critics = self.networks["hifigan"], self.helpers["discriminators"]
        self.hifigan.prepare_training()
        as_published = {"not_decaying": [], "as_torch": True, "beta_1": _BETA_1}
        self.learners = {
            "hifigan": Learner([self.hifigan], learning, **as_published),
            "discriminators": Learner(
                [self.critics], dataclasses.replace(learning, ema=0.0), **as_published
            ),
        }
        self.dvae = needed["tokenizer"]["dvae"]
        self.conditioning, self.gpt = (needed["gpt"][name] for name in ("conditioning", "gpt"))
        self.speaker = needed["frozen"]["speaker"]
        self.distance = vocoder_losses.ReconstructionLoss(_HEARD)

    @property
    def sound(self):
        return self.config.model.xtts_v2.sound

    @classmethod
    def make_helpers(cls, model):
        sound = model.xtts_v2.sound
        return {"discriminators": Discriminators(sound.critic_width, sound.critic_periods)}

    @classmethod
    def width(cls, model):
        return 512 if model.xtts_v2 is None else model.xtts_v2.hifigan.width

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        published, sizes = config.model.xtts_v2, ClipSizes(config, longest)
        args, sound, hifigan = published.args, published.sound, published.hifigan
        samples = sound.segment_hops * HOP
        critics = _CRITICS * (1 + len(sound.critic_periods)) * sound.critic_width
        convolutions = _CONVOLUTIONS * hifigan.width * len(hifigan.kernels) * hifigan.pairs
        kept = samples * (convolutions + _SPECTRA + critics)
        batch = sound.segment_hops * hifigan.inputs + samples + hifigan.speaker
        width, positions = args.gpt_n_model_channels, sizes.positions
        reading = _READING * positions * width + _SCORES * args.gpt_n_heads * positions**2
        hops = _HOPS * longest.frames * width
        frames = sizes.reference_frames
        encoding = _READING * frames * width + _SCORES * args.gpt_n_heads * frames**2
        return ClipMemory(kept, batch, max(sizes.codes_made, reading + hops, encoding))

    @property
    def phases(self):
        start = self.sound.critics_from_step
        return (0, start) if start else (0,)

    def front_end(self, batch):
        heard = self.for_gpt(batch, self.dvae)
        latents = self.gpt.latents_of(
            self.conditioning(heard["conditioning_mel"]),
            text=heard["text"],
            text_lengths=heard["text_lengths"],
            codes=heard["codes"],
            code_lengths=heard["code_lengths"],
        )
        # As if every clip were alone: interpolated, its last latent goes on to its end.
        place = tf.minimum(tf.range(tf.shape(latents)[1])[None], heard["code_lengths"][:, None] - 1)
        hops = HifiGan.hops_of(tf.gather(latents, place, batch_dims=1))
        size = self.sound.segment_hops
        segment, _, start = random_segment(
            hops,
            lengths=HifiGan.hops(heard["code_lengths"]),
            size=size,
            key=batch["key"],
            salt=_SEGMENT,
            padding=0.0,
        )
        waveform = tf.cast(batch["waveform"], tf.float32) / 32768.0
        waveform = tf.reshape(waveform, [tf.shape(hops)[0], -1, HOP])
        # The speaker encoder hears a recording without silence behind it, as in synthesis.
        crop = mirrored(*self.crops(batch))
        return {
            "key": batch["key"],
            "latents": segment,
            "waveform": tf.reshape(segment_at(waveform, start, size), [-1, size * HOP]),
            "speaker": self.speaker(resampled(crop, mels.RATE, mels.SPEAKER_RATE)),
        }

    def losses(self, batch, seed, phase):
        made = self.hifigan.waveform_of(batch["latents"], batch["speaker"])
        figures = vocoder_losses.judged(self.critics, batch["waveform"], made, squared=True)
        figures["mel"] = self.distance.mel(batch["waveform"], made)
        figures["loss"] = self.sound.mel_weight * figures["mel"]
        if phase == len(self.phases) - 1:
            figures["loss"] += figures["adversarial"]
            figures["loss"] += self.sound.feature_weight * figures["features"]
        return {"hifigan": figures["loss"], "discriminators": figures["critics"]}, figures

    def evaluate(self, batch):
        made = self.hifigan.waveform_of(batch["latents"], batch["speaker"])
        return {"mel": self.distance.mel(batch["waveform"], made)}

    def show(self, exhibits):
        speaking = {name: getattr(self, name) for name in ("conditioning", "gpt", "speaker")}
        self.speak(exhibits, {**speaking, **self.networks})
