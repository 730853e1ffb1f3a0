"""A stage that is traced within a second, for what is around the steps of a stage."""

from types import MappingProxyType

import keras
import tensorflow as tf

from myxtts.model.layers import mask_of, masked_mean
from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.stages import Stage
from myxtts.training.stages.base import ClipMemory


def mean_of_mels():
    network = keras.layers.Dense(80)
    network.build((None, 1))
    return network


class Toy(Stage):
    """Learns the mean mel of speech; what is in `spoil` makes a step's loss infinite."""

    name = "tokenizer"
    makes = MappingProxyType({"tokenizer": lambda model, tokens: mean_of_mels()})
    learning = StageConfig(learning_rate=1e-3, share=1.0)
    fixed = ("tokenizer_frames",)
    parts = ("loss",)
    held_out = ("loss",)
    spoil: tuple = ()

    def __init__(self, at, needed):
        super().__init__(at, needed)
        learning = at.config.stage(self.name)
        self.learners = {"toy": Learner([*self.networks.values()], learning)}

    @classmethod
    def width(cls, model):
        return 128  # that of `tiny`

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        return ClipMemory(kept=80 * longest.frames, batch=80 * longest.frames)

    def front_end(self, batch):
        return {name: batch[name] for name in ("mel", "mel_lengths", "key")}

    def _loss(self, batch):
        guess = tf.cast(self.networks["tokenizer"](tf.ones([1, 1])), tf.float32)
        error = tf.reduce_mean(tf.abs(batch["mel"] * 0.25 - guess[:, None]), -1)
        return masked_mean(error, mask_of(batch["mel_lengths"], tf.shape(error)[1]))

    def losses(self, batch, seed, phase):
        loss = self._loss(batch)
        if self.spoil:
            number = batch["key"][0, 1] * 3 + batch["key"][0, 2]
            spoilt = tf.reduce_any(number == tf.constant([*self.spoil]))
            loss *= tf.where(spoilt, float("inf"), 1.0)
        return {"toy": loss}, {"loss": loss}

    def evaluate(self, batch):
        return {"loss": self._loss(batch)}
