"""The sizes of the networks, as frozen dataclasses saved with every checkpoint."""

import dataclasses

from myxtts.config import AudioConfig, TextConfig, need
from myxtts.xtts_v2.sizes import CODE_RATE, CODE_SAMPLES, PublishedModel


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """Sizes of the VQ-VAE that turns log-mels into codes, one for every `stride` frames."""

    width: int = 512
    codes: int = 1024
    code_size: int = 512
    residual_blocks: int = 3
    stride: int = 4
    decay: float = 0.99
    commitment: float = 0.25
    revive_after: int = 50  # a code that was not used for this many steps is placed anew

    def __post_init__(self):
        need(self.stride in (2, 4, 8), "tokenizer.stride", self.stride, "2, 4 or 8")
        need(self.codes >= 2, "tokenizer.codes", self.codes, "2 or more")
        need(0 < self.decay < 1, "tokenizer.decay", self.decay, "between 0 and 1")


@dataclasses.dataclass(frozen=True)
class ConditioningConfig:
    """Sizes of the Perceiver that resamples a reference mel to a fixed number of latents."""

    latents: int = 32
    layers: int = 2
    heads: int = 8
    encoder_layers: int = 4
    patch: int = 4  # mel frames that the encoder sees as one step


@dataclasses.dataclass(frozen=True)
class GptConfig:
    """Sizes of the decoder over [latents; text; audio codes]."""

    layers: int = 16
    width: int = 768
    heads: int = 12
    dropout: float = 0.1  # of the conditioning as well
    code_noise: float = 0.0  # share of the input codes that training replaces by others
    max_audio_tokens: int = 605
    # Above 0: rotary positions, in which a code counts for this many text tokens at the start of
    # training. One code lasts about as long as 0.85 characters or 0.3 BPE tokens. 0: no rotary
    # positions.
    tokens_per_code: float = 0.3
    # Vectors of tokens and codes are the rows of their tables times this. Adam moves every weight
    # alike, so they also learn that many times faster than all else.
    table_scale: float = 1.0
    text_sees_all: bool = False  # text positions see later text, and there is no text loss
    text_weight: float = 0.01
    audio_weight: float = 1.0

    def __post_init__(self):
        need(
            self.width % self.heads == 0,
            "gpt.width",
            self.width,
            f"a multiple of gpt.heads={self.heads}",
        )
        need(self.table_scale > 0, "gpt.table_scale", self.table_scale, "above 0")
        need(0 <= self.dropout < 1, "gpt.dropout", self.dropout, "at least 0 and below 1")
        need(0 <= self.code_noise < 1, "gpt.code_noise", self.code_noise, "at least 0 and below 1")
        need(
            not (self.text_sees_all and self.text_weight),
            "gpt.text_weight",
            self.text_weight,
            "0 with gpt.text_sees_all: a text that sees itself has nothing to predict",
        )


@dataclasses.dataclass(frozen=True)
class SpeakerConfig:
    """Sizes of the encoder that turns a reference into a unit vector."""

    width: int = 256
    blocks: int = 4
    size: int = 256


@dataclasses.dataclass(frozen=True)
class VocoderConfig:
    """Sizes of the network that turns a mel and a speaker vector into a waveform."""

    width: int = 512
    blocks: int = 8
    corrections: int = 16  # rounds that bring the mel of the samples closer to the given one
    segment_frames: int = 64  # length of the segments that training cuts out of clips
    discriminator_width: int = 32
    discriminator_periods: tuple[int, ...] = (2, 3, 5, 7, 11)
    discriminator_frames: tuple[int, ...] = (512, 1024, 2048)  # samples in a frame of a spectrogram
    adversarial_from_step: int | None = 20_000  # None: never

    def __post_init__(self):
        need(self.blocks >= 1, "vocoder.blocks", self.blocks, "1 or more")
        need(self.corrections >= 0, "vocoder.corrections", self.corrections, "0 or more")
        need(self.segment_frames >= 16, "vocoder.segment_frames", self.segment_frames, "16 or more")
        shortest = min(self.discriminator_periods, default=2)
        need(
            shortest >= 2,
            "vocoder.discriminator_periods",
            self.discriminator_periods,
            "numbers of 2 or more",
        )
        shortest = min(self.discriminator_frames, default=16)
        need(
            shortest >= 16,
            "vocoder.discriminator_frames",
            self.discriminator_frames,
            "numbers of 16 or more",
        )
        start = self.adversarial_from_step
        need(
            start is None or start >= 0,
            "vocoder.adversarial_from_step",
            start,
            "0 or more, or null for never",
        )


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The sizes of all networks; they decide which weights there are.

    With `xtts_v2` the networks are the published ones, of the sizes it holds; the fields of our own
    networks, from `tokenizer` on, are then unused.
    """

    audio: AudioConfig = AudioConfig()
    text: TextConfig = TextConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    conditioning: ConditioningConfig = ConditioningConfig()
    gpt: GptConfig = GptConfig()
    speaker: SpeakerConfig = SpeakerConfig()
    vocoder: VocoderConfig = VocoderConfig()
    xtts_v2: PublishedModel | None = None

    @property
    def form(self) -> str:
        """Which networks these are: "own"; "xtts_v2" from published weights; or "new_xtts_v2", the
        same networks from random ones."""
        if self.xtts_v2 is None:
            return "own"
        return "new_xtts_v2" if self.xtts_v2.from_random else "xtts_v2"

    @property
    def longest_codes(self) -> int:
        """The most codes that a clip may have."""
        published = self.xtts_v2
        if published is None:
            return self.gpt.max_audio_tokens
        return published.args.gpt_max_audio_tokens - 3

    @property
    def longest_frames(self) -> int:
        """`longest_codes` in mel frames of `audio`."""
        if self.xtts_v2 is None:
            return self.longest_codes * self.tokenizer.stride
        seconds = self.longest_codes * CODE_SAMPLES / CODE_RATE
        return int(seconds * self.audio.sample_rate / self.audio.hop_length)


def new_xtts_v2(model: ModelConfig) -> ModelConfig:
    """The published networks of these sizes, to begin with random weights. BadSetting where the
    sizes do not fit together."""
    sizes = dataclasses.replace(model.xtts_v2, from_random=True, added_tokens=False, adapter_rank=0)
    text = dataclasses.replace(
        model.text, phonemes=False, max_tokens=sizes.args.gpt_max_text_tokens - 1
    )
    audio = AudioConfig(sample_rate=sizes.args.output_sample_rate)
    return dataclasses.replace(model, audio=audio, text=text, xtts_v2=sizes)


def was_big(model: ModelConfig) -> bool:
    """Whether these are the sizes of the former --model_size=big, which `xtts_v2` replaced."""
    gpt = model.gpt.layers, model.gpt.width, model.gpt.heads
    other = model.conditioning.encoder_layers, model.speaker.width
    return model.form == "own" and (*gpt, *other) == (30, 1024, 16, 6, 512)


SIZES = {
    "tiny": ModelConfig(
        text=TextConfig(vocabulary="characters"),
        tokenizer=TokenizerConfig(width=192, codes=512, code_size=48),
        conditioning=ConditioningConfig(latents=8, layers=2, heads=4, encoder_layers=1, patch=8),
        gpt=GptConfig(
            layers=4,
            width=256,
            heads=4,
            dropout=0.0,
            code_noise=0.1,
            tokens_per_code=0.85,
            table_scale=10.0,
        ),
        speaker=SpeakerConfig(width=96, blocks=3, size=96),
        vocoder=VocoderConfig(width=256, blocks=5),
    ),
    "small": ModelConfig(
        tokenizer=TokenizerConfig(width=256, codes=512, code_size=128),
        conditioning=ConditioningConfig(layers=2, heads=8, encoder_layers=3),
        gpt=GptConfig(layers=8, width=512, heads=8),
        speaker=SpeakerConfig(width=192, blocks=4, size=192),
        vocoder=VocoderConfig(width=384, blocks=8),
    ),
    "normal": ModelConfig(),
    "xtts_v2": new_xtts_v2(ModelConfig(xtts_v2=PublishedModel())),
}
