"""The GPT and conditioning of a published XTTS v2, fine-tuned as its publisher does."""

from types import MappingProxyType

from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.stages.base import ClipMemory
from myxtts.training.stages.gpt import GptSteps
from myxtts.training.stages.published import ClipSizes, PublishedStage, maker
from myxtts.xtts_v2.networks import make_conditioning, make_gpt

# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_LAYER = 20.0  # by position and width, in a layer
_SCORES = 2.1  # by head and pair of positions
_LOGITS = 4.0  # by position and token
_ENCODER = 6.0  # by mel frame and width, in a layer of the conditioning encoder
_ENCODER_LAYERS = 6

# Of adapters, for which only one width was tried (`tests/benchmarks/xtts_v2_fine_tuning.py`). How
# fast they change what a matrix gives does not depend on its width.
_ADAPTER_RATE = 2e-4


class PublishedGptStage(GptSteps, PublishedStage):
    """On the data device the clips become mels and the frozen DVAE makes their codes, a batch
    ahead."""

    uses = ("tokenizer",)
    makes = MappingProxyType({"conditioning": maker(make_conditioning), "gpt": maker(make_gpt)})
    # The published trainer's, whose rate is for 1,024 channels and 252 clips a step.
    learning = StageConfig(
        learning_rate=5e-6,
        share=0.6,
        schedule="constant",
        warm_up_steps=0,
        weight_decay=0.01,
        beta_2=0.96,
        clip_norm=0.0,
        ema=0.0,
    )

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.conditioning, self.gpt = self.networks.values()
        self.gpt.recompute = at.config.recompute
        self.dvae = needed["tokenizer"]["dvae"]
        learner = Learner(
            [self.conditioning, self.gpt],
            at.config.stage(self.name),
            not_decaying=[
                variable
                for network in self.networks.values()
                for variable in network.published_names.not_decaying
            ],
            as_torch=True,
        )
        self.learners = {"gpt": learner}

    @property
    def states(self):
        return []

    @classmethod
    def width(cls, model):
        return 1024 if model.xtts_v2 is None else model.xtts_v2.args.gpt_n_model_channels

    @classmethod
    def usual_rate(cls, model):
        adapted = model.xtts_v2 is not None and model.xtts_v2.adapter_rank
        return _ADAPTER_RATE if adapted else super().usual_rate(model)

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        args = config.model.xtts_v2.args
        width, heads = args.gpt_n_model_channels, args.gpt_n_heads
        sizes = ClipSizes(config, longest)
        codes, frames, positions = sizes.codes, sizes.reference_frames, sizes.positions
        layer = _LAYER * positions * width + _SCORES * heads * positions**2
        if config.recompute:
            kept = layer + args.gpt_layers * positions * width
        else:
            kept = args.gpt_layers * layer
        kept += _ENCODER_LAYERS * (_ENCODER * frames * width + _SCORES * heads * frames**2)
        kept += _LOGITS * (codes * args.gpt_num_audio_tokens + longest.text_tokens * text_tokens)
        batch = int(frames * 80 + longest.text_tokens + codes)
        return ClipMemory(kept, batch, sizes.codes_made)

    def front_end(self, batch):
        return self.for_gpt(batch, self.dvae)

    def _latents(self, batch, seed, training):
        return self.conditioning(batch["conditioning_mel"])

    def _outputs(self, batch, seed=None, training=False):
        left_out = batch["left_out"] if training else None
        return super()._outputs(batch, seed, training, left_out=left_out)

    def show(self, exhibits):
        self.speak(exhibits, self.networks, other=("vocoder",))
