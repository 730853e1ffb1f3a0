"""Stage two: the GPT with its conditioning, on the codes of the trained tokenizer."""

import math
from types import MappingProxyType

from myxtts.model.conditioning import Conditioning
from myxtts.model.config import ModelConfig
from myxtts.model.gpt import Gpt
from myxtts.model.griffin_lim import griffin_lim
from myxtts.model.whole_batch import for_this_replica
from myxtts.training.config import StageConfig
from myxtts.training.exhibits import traced_once
from myxtts.training.optimizer import Learner
from myxtts.training.stages.base import ClipMemory, Stage

_IN_THE_STEP = ("conditioning_mel", "conditioning_mel_lengths", "text", "text_lengths", "key")
# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_LAYER = 16.0  # by position and width, in a layer of attention and feed-forward
_SCORES = 2.0  # by head and pair of positions
_LOGITS = 4.0  # by position and token


def _conditioning(model: ModelConfig, _) -> Conditioning:
    gpt = model.gpt
    return Conditioning(model.conditioning, gpt.width, model.audio.n_mels, gpt.dropout)


def _gpt(model: ModelConfig, text_tokens: int) -> Gpt:
    return Gpt(model.gpt, text_tokens, model.text.max_tokens, model.tokenizer.codes)


class GptSteps:
    """Steps and evaluations of a GPT's stage, ours or the published one: a base class before
    `Stage`'s. A subclass has `conditioning` and `gpt`, and declares `_latents`."""

    name = "gpt"
    parts = ("loss", "audio_loss", "text_loss", "audio_accuracy")
    held_out = ("audio_loss", "text_loss", "audio_accuracy")

    def _latents(self, batch, seed, training):
        """What the conditioning makes of the references."""
        raise NotImplementedError(f"{type(self).__name__} declares no _latents")

    def _outputs(self, batch, seed=None, training=False, **options):
        return self.gpt(
            self._latents(batch, seed, training),
            text=batch["text"],
            text_lengths=batch["text_lengths"],
            codes=batch["codes"],
            code_lengths=batch["code_lengths"],
            seed=seed,
            training=training,
            **options,
        )

    def losses(self, batch, seed, phase):
        made = self._outputs(batch, for_this_replica(seed), True)
        return {"gpt": made["loss"]}, {name: made[name] for name in self.parts}

    def evaluate(self, batch):
        made = self._outputs(batch)
        return {name: made[name] for name in self.held_out}


class GptStage(GptSteps, Stage):
    """The GPT's stage; the tokenizer is on the data device and makes the codes a batch ahead."""

    needs = ("tokenizer",)
    makes = MappingProxyType({"conditioning": _conditioning, "gpt": _gpt})
    learning = StageConfig(learning_rate=1.2e-3, share=0.66)

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.conditioning, self.gpt = self.networks.values()
        self.tokenizer = needed["tokenizer"]["tokenizer"]
        self.gpt.start_from(self.tokenizer.codebook.vectors.numpy())
        self.learners = {"gpt": Learner([self.conditioning, self.gpt], at.config.stage(self.name))}
        self._attention = traced_once(
            lambda clips: self._outputs(clips, return_attention=True)["attention"]
        )

    @classmethod
    def width(cls, model):
        return model.gpt.width

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        gpt, conditioning = config.model.gpt, config.model.conditioning
        codes = math.ceil(longest.frames / config.model.tokenizer.stride)
        positions = conditioning.latents + longest.text_tokens + 2 + codes + 1
        patches = math.ceil(longest.reference_frames / conditioning.patch)
        kept = gpt.layers * _layer(positions, gpt.width, gpt.heads)
        kept += conditioning.encoder_layers * _layer(patches, gpt.width, conditioning.heads)
        kept += conditioning.layers * _layer(conditioning.latents, gpt.width, conditioning.heads)
        kept += _LOGITS * codes * config.model.tokenizer.codes
        kept += _LOGITS * longest.text_tokens * text_tokens
        batch = longest.reference_frames * config.model.audio.n_mels + longest.text_tokens + codes
        return ClipMemory(kept, batch)

    def front_end(self, batch):
        codes, code_lengths = self.tokenizer.encode(batch["mel"], batch["mel_lengths"])
        needed = {name: batch[name] for name in _IN_THE_STEP}
        return {**needed, "codes": codes, "code_lengths": code_lengths}

    def _latents(self, batch, seed, training):
        mel, lengths = batch["conditioning_mel"], batch["conditioning_mel_lengths"]
        return self.conditioning(mel, lengths, seed=seed, training=training)

    def show(self, exhibits):
        clips = self.front_end(exhibits.clips)
        looked = exhibits.run(self._attention, clips)
        rows = zip(
            looked, clips["code_lengths"].numpy(), clips["text_lengths"].numpy(), strict=True
        )
        for i, (weights, codes, tokens) in enumerate(rows):
            exhibits.attention(f"clip{i}/attention", weights[: codes + 1, : tokens + 2], i)
        mels = exhibits.spoken(self.tokenizer, self.conditioning, self.gpt)
        for name, mel in mels.items():
            exhibits.mel(f"{name}/generated", mel)
            exhibits.sound(name, griffin_lim(mel, self.config.model.audio))


def _layer(positions: int, width: int, heads: int) -> float:
    return _LAYER * positions * width + _SCORES * heads * positions**2
