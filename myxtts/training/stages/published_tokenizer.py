"""The DVAE of a published XTTS v2, fine-tuned: other codes, which the GPT has to learn anew."""

from types import MappingProxyType

import tensorflow as tf

from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.stages.base import ClipMemory
from myxtts.training.stages.published import ClipSizes, PublishedStage, maker
from myxtts.training.stages.tokenizer import collapsed
from myxtts.xtts_v2.networks import make_dvae

_FRAMES_OF_A_CODE = 4
# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_LAYERS = 30.0  # by code and inner width
_DISTANCES = 3.0  # by code and entry of the codebook


class PublishedTokenizerStage(PublishedStage):
    """Trains on whole clips, as published: nothing is masked, so the silence behind shorter clips
    counts (`--padding=mirrored` puts speech there). The codebook follows averages of its own."""

    name = "tokenizer"
    makes = MappingProxyType({"dvae": maker(make_dvae)})
    # Nothing was published; the rate and the norm are those that people fine-tune with.
    learning = StageConfig(
        learning_rate=5e-6,
        share=0.1,
        schedule="constant",
        warm_up_steps=0,
        weight_decay=0.0,
        beta_2=0.999,
        clip_norm=0.5,
        ema=0.0,
    )
    parts = ("loss", "reconstruction", "commitment", "perplexity")
    held_out = ("reconstruction", "commitment", "perplexity")

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.dvae = self.networks["dvae"]
        learning = at.config.stage(self.name)
        self.learners = {"dvae": Learner([self.dvae], learning, as_torch=True)}

    @classmethod
    def width(cls, model):
        return 512 if model.xtts_v2 is None else model.xtts_v2.dvae.width

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        sizes, dvae = ClipSizes(config, longest), config.model.xtts_v2.dvae
        kept = _LAYERS * sizes.codes * 2 * dvae.width + _DISTANCES * sizes.codes * dvae.codes
        return ClipMemory(kept, int(sizes.frames * dvae.mels), sizes.mels_made)

    @classmethod
    def complaints(cls, config, figures):
        return collapsed(cls.name, config, figures, config.model.xtts_v2.dvae.codes)

    def front_end(self, batch):
        mel, _, _ = self.dvae_mel(batch)
        whole = tf.shape(mel)[1] // _FRAMES_OF_A_CODE * _FRAMES_OF_A_CODE
        return {"key": batch["key"], "mel": mel[:, :whole]}

    def losses(self, batch, seed, phase):
        made = self.dvae(batch["mel"], training=True)
        return {"dvae": made["loss"]}, {**self._figures(made), "loss": made["loss"]}

    def evaluate(self, batch):
        return self._figures(self.dvae(batch["mel"]))

    def show(self, exhibits):
        mel, _, lengths = self.dvae_mel(exhibits.clips)
        rebuilt = self.dvae.mel_of(self.dvae.codes_of(mel)) * self.mel_stats
        for i, samples in enumerate(lengths.numpy()):
            frames = 1 + samples // 256
            exhibits.mel(f"clip{i}/target", mel[i, :frames] * self.mel_stats)
            exhibits.mel(f"clip{i}/reconstructed", rebuilt[i, :frames])

    def _figures(self, made):
        return {**made["losses"], "perplexity": self.dvae.codebook.perplexity(made["codes"])}
