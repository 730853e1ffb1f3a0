"""Memory that a stage needs on each device, estimated before anything is made.

What is counted: weights, the optimizer's two moments and the average; the tensors that the backward
pass needs again, or, if that is more, the gradients, which come while those go; the batches in the
slots. Tensors are so many numbers per frame, token or sample, with factors fitted to measurements
on emulated GPUs (`tests/benchmarks/memory.py` prints both). What a GPU's libraries take beside
(`LIBRARIES`) is a guess: no hardware GPU was there to ask.
"""

import dataclasses
import math

import keras

from myxtts.model.discriminators import Discriminators
from myxtts.training import networks
from myxtts.training.config import TrainConfig

LIBRARIES = 1 << 30  # CUDA's context, cuDNN's workspaces
_FLOAT = 4


@dataclasses.dataclass(frozen=True)
class Longest:
    """The largest batch element: mel frames of the clip, tokens of its text."""

    frames: int
    tokens: int


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Bytes a stage needs: what is there anyway, and what every clip of a batch adds.

    Attributes:
      least: what the optimizer's step needs, when the batch's tensors are gone already.
      parameters: by network, as trained.
      checkpoint_bytes: of one checkpoint to continue from.
      host_batch_bytes: of a batch that waits in host memory.
    """

    stage: str
    batch_size: int
    parameters: dict[str, int]
    fixed: dict[str, int]
    per_clip: dict[str, int]
    least: dict[str, int]
    checkpoint_bytes: int
    host_batch_bytes: int

    def on(self, role: str, batch_size: int | None = None) -> int:
        """On the "data" or the "model" device, with the stage's own batch size or another."""
        clips = batch_size or self.batch_size
        return max(self.least[role], self.fixed[role] + clips * self.per_clip[role])

    def largest_batch(self, role: str, room: float) -> int:
        """The largest batch that fits; 0 where none does."""
        if room < self.least[role]:
            return 0
        return max(0, int((room - self.fixed[role]) // self.per_clip[role]))


def estimate(
    config: TrainConfig,
    stage: str,
    longest: Longest,
    text_tokens: int,
    precision: str = "float32",
    slots: int = 3,
    libraries: int = 0,
) -> Estimate:
    """`libraries`: what to add on each device, `LIBRARIES` for real GPUs."""
    model, audio = config.model, config.model.audio
    with keras.StatelessScope(initialize_variables=False):  # shapes without memory
        made = networks.make(stage, model, text_tokens)
        helpers = {}
        if stage == "vocoder" and model.vocoder.adversarial_from_step is not None:
            helpers = {"discriminators": Discriminators(model.vocoder)}
        frozen = {} if stage == "tokenizer" else networks.make("tokenizer", model, text_tokens)
    parameters = {name: networks.parameters(network) for name, network in made.items()}
    trained = sum(parameters.values())
    helping = sum(networks.parameters(network) for network in helpers.values())
    averaged = 1 if config.stage(stage).ema else 0
    states = _FLOAT * (trained * (3 + averaged) + 3 * helping)
    gradients = _FLOAT * (trained + helping) * (2 if config.grad_accum > 1 else 1)
    longest = dataclasses.replace(
        longest,
        frames=min(longest.frames, model.gpt.max_audio_tokens * model.tokenizer.stride),
        tokens=min(longest.tokens, model.text.max_tokens),
    )
    reference = math.ceil(
        config.batches.conditioning_seconds[1] * audio.sample_rate / audio.hop_length
    )
    kept, batch = _KEPT[stage](config, longest, reference, text_tokens)
    if precision != "float32":
        kept = int(_HALF * kept)
    prepared = _FEATURES * (longest.frames + reference)
    if frozen:
        prepared += _ENCODING * _FLOAT * model.tokenizer.width * longest.frames
    samples = (longest.frames + reference) * audio.hop_length
    size = config.batch_size(stage)
    fixed = {
        "data": libraries + _ALWAYS + _FLOAT * sum(map(networks.parameters, frozen.values())),
        "model": libraries + _ALWAYS + states,
    }
    return Estimate(
        stage,
        size,
        {**parameters, **{name: networks.parameters(n) for name, n in helpers.items()}},
        fixed,
        {"data": prepared + batch, "model": kept + (slots - 1) * batch},
        {"data": fixed["data"], "model": fixed["model"] + 2 * gradients},
        states + _FLOAT * trained,
        size * (2 * samples + 4 * longest.tokens),
    )


# Fitted: tensors of the named width that are alive at the fullest moment of a step.
_HALF = 0.6  # of them in 16-bit precision; some stay in 32 bits
_ALWAYS = 16 << 20  # bytes, on each device, whatever the batch
_FEATURES = 2_400  # bytes a mel frame, on the data device
_ENCODING = 8.0  # by frame and tokenizer.width, on the data device
_CONVOLUTION = 10.0  # by frame and tokenizer.width
_SPEAKER = 10.0  # by frame, block and speaker.width
_LAYER = 16.0  # by position and width, in a layer of attention and feed-forward
_SCORES = 2.0  # by head and pair of positions
_LOGITS = 4.0
_CONVNEXT = 14.0  # by frame, block and vocoder.width
_SPECTRA = 55.0  # by sample of a segment
_CRITICS = 62.0  # by sample and discriminator_width


def _tokenizer(config, longest, reference, text_tokens) -> tuple[int, int]:
    """(bytes a clip keeps for the backward pass, bytes it has in a batch on the device)"""
    tokenizer, speaker = config.model.tokenizer, config.model.speaker
    frames = config.tokenizer_frames
    numbers = _CONVOLUTION * frames * tokenizer.width
    numbers += _LOGITS * frames / tokenizer.stride * tokenizer.codes
    numbers += _SPEAKER * 2 * config.speaker_frames * speaker.blocks * speaker.width
    batch = (frames + 2 * config.speaker_frames) * config.model.audio.n_mels
    return int(_FLOAT * numbers), _FLOAT * batch


def _gpt(config, longest, reference, text_tokens) -> tuple[int, int]:
    gpt, conditioning = config.model.gpt, config.model.conditioning
    codes = math.ceil(longest.frames / config.model.tokenizer.stride)
    positions = conditioning.latents + longest.tokens + 2 + codes + 1
    patches = math.ceil(reference / conditioning.patch)
    numbers = gpt.layers * _layer(positions, gpt.width, gpt.heads)
    numbers += conditioning.encoder_layers * _layer(patches, gpt.width, conditioning.heads)
    numbers += conditioning.layers * _layer(conditioning.latents, gpt.width, conditioning.heads)
    numbers += _LOGITS * (codes * config.model.tokenizer.codes + longest.tokens * text_tokens)
    batch = reference * config.model.audio.n_mels + longest.tokens + codes
    return int(_FLOAT * numbers), _FLOAT * batch


def _layer(positions: int, width: int, heads: int) -> float:
    return _LAYER * positions * width + _SCORES * heads * positions**2


def _vocoder(config, longest, reference, text_tokens) -> tuple[int, int]:
    vocoder, audio = config.model.vocoder, config.model.audio
    samples = vocoder.segment_frames * audio.hop_length
    numbers = _CONVNEXT * (vocoder.segment_frames + 3) * vocoder.blocks * vocoder.width
    numbers += _SPECTRA * samples
    if vocoder.adversarial_from_step is not None:
        numbers += _CRITICS * samples * vocoder.discriminator_width
    batch = vocoder.segment_frames * audio.n_mels + samples + config.model.speaker.size
    return int(_FLOAT * numbers), _FLOAT * batch


_KEPT = {"tokenizer": _tokenizer, "gpt": _gpt, "vocoder": _vocoder}
