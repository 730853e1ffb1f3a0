"""A fourth stage, as small as a stage can be: it guesses how loud a clip is from its codes."""

from types import MappingProxyType

import keras
import pytest
import tensorflow as tf

from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.stages import STAGES, ClipMemory, Stage


def _line(model, text_tokens):
    network = keras.layers.Dense(1)
    network.build((None, 1))
    return network


class LoudnessStage(Stage):
    name = "loudness"
    needs = ("tokenizer",)
    makes = MappingProxyType({"loudness": _line})
    learning = StageConfig(learning_rate=0.01, share=0.5)
    parts = ("loss",)
    held_out = ("error",)

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.learners = {"line": Learner([*self.networks.values()], at.config.stage(self.name))}
        self.tokenizer = needed["tokenizer"]["tokenizer"]

    @classmethod
    def width(cls, model):
        return model.gpt.width

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        return ClipMemory(kept=longest.frames, batch=2)

    @classmethod
    def report_lines(cls, result):
        return [f"{result['clips_judged']} clips were judged."]

    def front_end(self, batch):
        codes, _ = self.tokenizer.encode(batch["mel"], batch["mel_lengths"])
        return {
            "key": batch["key"],
            "code": tf.cast(codes[:, :1], tf.float32),
            "loudness": tf.reduce_mean(batch["mel"], [1, 2]),
        }

    def _error(self, batch):
        guess = self.networks["loudness"](batch["code"])[:, 0]
        return tf.reduce_mean(tf.abs(guess - batch["loudness"]))

    def losses(self, batch, seed, phase):
        loss = self._error(batch)
        return {"line": loss}, {"loss": loss}

    def evaluate(self, batch):
        return {"error": self._error(batch)}

    def judge(self, batches):
        return {"clips_judged": sum(len(batch["key"]) for batch in batches)}


@pytest.fixture
def fourth_stage(monkeypatch):
    """It is registered behind the others until the test is over."""
    monkeypatch.setitem(STAGES, LoudnessStage.name, LoudnessStage)
    return LoudnessStage
