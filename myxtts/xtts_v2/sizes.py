"""The sizes of published networks that config.json does not have, and the settings of training."""

import dataclasses
import re

import numpy as np

from myxtts.config import need
from myxtts.xtts_v2.config import ModelArgs

CODE_SAMPLES, CODE_RATE = 1024, 22050  # a code lasts 1,024 samples at this rate
MELS = 80  # bands
UPSAMPLING_STAGES = 4  # of the HiFi-GAN
CROPS = ("same_clip", "other_clip")
LEFT_OUT = ("last_row", "every_row", "nothing")
PADDINGS = ("zeros", "mirrored")


@dataclasses.dataclass(frozen=True)
class SpeakerSizes:
    """The sizes of the speaker encoder."""

    filters: tuple[int, ...] = (32, 64, 128, 256)
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    size: int = 512

    @classmethod
    def of(cls, tensors: dict[str, np.ndarray]) -> "SpeakerSizes":
        """From the shapes in a model.pth; the published sizes if it lacks these tensors."""
        prefix, filters, blocks = "hifigan_decoder.speaker_encoder.", [], []
        for stage in (1, 2, 3, 4):
            number = 0
            while f"{prefix}layer{stage}.{number}.conv1.weight" in tensors:
                number += 1
            if not number:
                return cls()
            blocks.append(number)
            filters.append(tensors[f"{prefix}layer{stage}.0.conv1.weight"].shape[0])
        bias = tensors.get(f"{prefix}fc.bias", np.empty([512]))
        return cls(tuple(filters), tuple(blocks), bias.shape[0])


@dataclasses.dataclass(frozen=True)
class ConditioningSizes:
    """The numbers of layers of the conditioning. The published code reads only the defaults."""

    blocks: int = 6  # of the encoder
    layers: int = 2  # of the Perceiver

    @classmethod
    def of(cls, tensors: dict[str, np.ndarray]) -> "ConditioningSizes":
        """From the names in a model.pth."""
        blocks = _numbered(tensors, "gpt.conditioning_encoder.attn.#.")
        layers = _numbered(tensors, "gpt.conditioning_perceiver.layers.#.")
        return cls(blocks or cls.blocks, layers or cls.layers)


@dataclasses.dataclass(frozen=True)
class HifiGanSizes:
    """The sizes of the HiFi-GAN. The published code reads only the default kernels and pairs."""

    inputs: int = 1024
    width: int = 512  # of the first layer; every upsampling stage halves it
    speaker: int = 512
    kernels: tuple[int, ...] = (3, 7, 11)  # one for each stack of residual convolutions of a stage
    pairs: int = 3  # of convolutions in a stack; the first one of a pair is dilated by 1, 3, 5, ...

    @classmethod
    def of(cls, tensors: dict[str, np.ndarray]) -> "HifiGanSizes":
        """From the shapes in a model.pth; the published sizes if it lacks these tensors."""
        prefix = "hifigan_decoder.waveform_decoder."
        first = tensors.get(f"{prefix}conv_pre.weight", np.empty([512, 1024, 7])).shape
        speaker = tensors.get(f"{prefix}cond_layer.weight", np.empty([512, 512, 1])).shape
        stacks = -(-_numbered(tensors, f"{prefix}resblocks.#.") // UPSAMPLING_STAGES)
        kernels = []
        for stack in range(stacks):
            name = f"{prefix}resblocks.{stack}.convs1.0.parametrizations.weight.original1"
            usual = cls.kernels[stack] if stack < len(cls.kernels) else 3
            kernels.append(tensors.get(name, np.empty([0, 0, usual])).shape[2])
        pairs = _numbered(tensors, f"{prefix}resblocks.0.convs1.#.")
        return cls(
            inputs=first[1],
            width=first[0],
            speaker=speaker[1],
            kernels=tuple(kernels) or cls.kernels,
            pairs=pairs or cls.pairs,
        )


@dataclasses.dataclass(frozen=True)
class DvaeSizes:
    """The sizes of the DVAE."""

    mels: int = 80
    width: int = 512  # of the outer layers; the inner ones are twice as wide
    code_size: int = 512
    codes: int = 1024

    @classmethod
    def of(cls, tensors: dict[str, np.ndarray]) -> "DvaeSizes":
        """From the shapes in a dvae.pth; the published sizes if it lacks these tensors."""
        first = tensors.get("encoder.0.0.weight", np.empty([512, 80, 3])).shape
        book = tensors.get("codebook.embed", np.empty([512, 1024])).shape
        return cls(mels=first[1], width=first[0], code_size=book[0], codes=book[1])


@dataclasses.dataclass(frozen=True)
class Objective:
    """How the GPT is trained. The defaults are the published trainer's choices, with its quirks."""

    text_weight: float = 0.01
    audio_weight: float = 1.0
    stop_targets: int = 4  # stops that must be predicted after the last code
    text_stop_seen: bool = False  # whether the audio attends to the text's stop, as in synthesis
    dropout: float = 0.1
    # Where the voice comes from: a crop of the same clip, or of another clip of the speaker.
    crop: str = "same_clip"
    # Which codes are not targets because the crop contains them. The published trainer leaves out a
    # stretch of only the last row of a batch, and counts as if a code had 256 samples.
    left_out: str = "last_row"
    # What follows a clip in a batch, and a crop: unmasked silence, or the mirrored sound.
    padding: str = "zeros"

    def __post_init__(self):
        need(self.stop_targets >= 1, "stop_targets", self.stop_targets, "1 or more")
        need(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and below 1")
        for name, known in (("crop", CROPS), ("left_out", LEFT_OUT), ("padding", PADDINGS)):
            need(getattr(self, name) in known, name, getattr(self, name), f"one of {known}")


PUBLISHED_OBJECTIVE = Objective()


@dataclasses.dataclass(frozen=True)
class SoundObjective:
    """How the HiFi-GAN is trained. XTTS v2 was published without its training code; the weights of
    the losses are those of the code that people fine-tune it with."""

    segment_hops: int = 32  # the length of a segment of a clip, in hops of 256 samples
    critic_width: int = 32  # of the discriminators, see there
    critic_periods: tuple[int, ...] = (2, 3, 5, 7, 11)
    critics_from_step: int = 0  # until then they learn, but the HiFi-GAN's loss leaves them out
    mel_weight: float = 45.0
    feature_weight: float = 108.0

    def __post_init__(self):
        need(self.segment_hops >= 16, "segment_hops", self.segment_hops, "16 or more")
        need(self.critic_width >= 1, "critic_width", self.critic_width, "1 or more")
        shortest = min(self.critic_periods, default=2)
        need(shortest >= 2, "critic_periods", self.critic_periods, "numbers of 2 or more")
        need(self.critics_from_step >= 0, "critics_from_step", self.critics_from_step, "0 or more")


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """The settings of a published model: those that decide its variables, and those of training."""

    args: ModelArgs = ModelArgs()
    start_text: int = 261
    stop_text: int = 0
    conditioning: ConditioningSizes = ConditioningSizes()
    speaker: SpeakerSizes = SpeakerSizes()
    hifigan: HifiGanSizes = HifiGanSizes()
    dvae: DvaeSizes = DvaeSizes()
    objective: Objective = Objective()
    sound: SoundObjective = SoundObjective()
    # Whether it begins with random weights: the DVAE's codebook is then placed where its encoder
    # is, and the speaker encoder is trained as well.
    from_random: bool = False
    added_tokens: bool = False  # whether a language was added; its rows are trained with adapters
    adapter_rank: int = 0  # 0 trains all weights; a rank trains low-rank changes of matrices

    def __post_init__(self):
        need(self.adapter_rank >= 0, "adapter_rank", self.adapter_rank, "0 or more")
        if not self.from_random:  # else the sizes are those of tensors that fit together
            return
        need(self.adapter_rank == 0, "adapter_rank", self.adapter_rank, "0 with random weights")
        for name, found, needed in (
            ("hifigan.inputs", self.hifigan.inputs, self.args.gpt_n_model_channels),
            ("hifigan.speaker", self.hifigan.speaker, self.speaker.size),
            ("args.d_vector_dim", self.args.d_vector_dim, self.speaker.size),
            ("dvae.codes", self.dvae.codes, self.args.codes),
            ("dvae.mels", self.dvae.mels, MELS),
            ("hifigan.width % 16", self.hifigan.width % 16, 0),
        ):
            need(found == needed, name, found, f"{needed}, as the other sizes have it")
        for name, found in (
            ("conditioning.blocks", self.conditioning.blocks),
            ("conditioning.layers", self.conditioning.layers),
            ("hifigan.pairs", self.hifigan.pairs),
        ):
            need(found >= 1, name, found, "1 or more")
        kernels = self.hifigan.kernels
        odd = bool(kernels) and all(size > 0 and size % 2 for size in kernels)
        need(odd, "hifigan.kernels", kernels, "one or more odd numbers")
        for name, least in (("filters", 8), ("blocks", 1)):
            found = getattr(self.speaker, name)
            fits = len(found) == 4 and min(found) >= least
            need(fits, f"speaker.{name}", found, f"four numbers of {least} or more")

    @property
    def unknown_layers(self) -> list[str]:
        """The numbers of layers that the published code does not read, in words."""
        used, usual = (self.conditioning, self.hifigan), (ConditioningSizes(), HifiGanSizes())
        return [
            f"{part}.{name}={getattr(mine, name)}"
            for part, mine, theirs in zip(("conditioning", "hifigan"), used, usual, strict=True)
            for name in ("blocks", "layers", "kernels", "pairs")
            if getattr(mine, name, None) != getattr(theirs, name, None)
        ]


def _numbered(tensors: dict[str, np.ndarray], pattern: str) -> int:
    """How many layers have tensors of this name, "#" being the layer's number from 0 on."""
    before, after = pattern.split("#")
    found = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
    return 1 + max((int(m[1]) for m in map(found.match, tensors) if m), default=-1)
