"""The vocoder's steps on two replicas, each from the weights that one replica has come to.

Left to themselves they part: so do two runs on one device whose batches have their clips in another
order, because each step makes a rounding error many times larger.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy
from myxtts.features import make_log_mel
from myxtts.training import networks
from myxtts.training.loop import Loop
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings
from myxtts.training.stages.vocoder import VocoderStage
from tests.myxtts.training.conftest import CONFIG, MODEL

STEPS, CLIPS = 3, 4
AUDIO, TOKENS = MODEL.audio, 40
VOCODER = dataclasses.replace(MODEL.vocoder, adversarial_from_step=0)
SETTINGS = dataclasses.replace(
    CONFIG, model=dataclasses.replace(MODEL, vocoder=VOCODER), log_steps=STEPS
)


def batches(order=range(CLIPS)):
    """Voices with harmonics and some noise, as they come from the front end."""
    draws = np.random.default_rng(0)
    count, samples = STEPS * CLIPS, VOCODER.segment_frames * AUDIO.hop_length
    seconds = np.arange(samples) / AUDIO.sample_rate
    pitches = draws.uniform(80, 300, [count, 1])
    sound = sum(
        np.sin(2 * np.pi * k * pitches * seconds + draws.uniform(0, 6, [count, 1])) / k
        for k in range(1, 9)
    )
    sound = (0.1 * sound + 0.01 * draws.standard_normal(sound.shape)).astype(np.float32)
    mel, _ = make_log_mel(AUDIO)(tf.constant(sound), tf.fill([count], samples))
    number = np.arange(count)
    key = np.stack([0 * number, 0 * number, number // CLIPS, number % CLIPS], 1).astype(np.int32)
    speaker = draws.standard_normal([count, MODEL.speaker.size]).astype(np.float32)
    made = {"mel": mel.numpy()[:, : VOCODER.segment_frames], "waveform": sound, "speaker": speaker}
    made = {name: value.reshape(STEPS, CLIPS, *value.shape[1:]) for name, value in made.items()}
    made = {name: value[:, list(order)] for name, value in made.items()}
    return tf.data.Dataset.from_tensor_slices({**made, "key": key.reshape(STEPS, CLIPS, 4)})


class Run:
    """A vocoder with its optimizers and batches under a strategy."""

    def __init__(self, strategy, **order):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            at = Surroundings(SETTINGS, RunDirectory("nowhere"), TOKENS)
            stage = VocoderStage(at, {"tokenizer": networks.make("tokenizer", MODEL, TOKENS)})
            self.loop = Loop(strategy, stage, SETTINGS, "float32")
        self.loop.planned.assign(STEPS)
        self.stage = stage
        self.iterator = iter(strategy.experimental_distribute_dataset(batches(**order)))

    def variables(self):
        made = [*self.stage.networks.values(), *self.stage.helpers.values()]
        optimizers = [learner.optimizer for learner in self.stage.learners.values()]
        return [variable for each in (*made, *optimizers) for variable in each.variables]

    def follow(self, other):
        for variable, value in zip(self.variables(), other.variables(), strict=True):
            variable.assign(value.numpy())

    def step(self, number) -> dict:
        self.loop.run(self.iterator, 1, self.stage.phase_of(number))
        (record,) = self.loop.records(number, number + 1)
        return record


@pytest.mark.slow
def test_each_step_of_two_replicas_is_that_of_one():
    shared = MirroredDataModelSplitStrategy(["CPU:3"], ["CPU:1", "CPU:2"], shares=(0.75, 0.25))
    one, two = Run(tf.distribute.OneDeviceStrategy("CPU:0")), Run(shared)
    for number in range(STEPS):
        two.follow(one)
        wanted, found = one.step(number), two.step(number)
        for name in (*one.stage.parts, "vocoder_norm", "discriminators_norm"):
            rel = 1e-4 if name.endswith("norm") else 1e-5
            assert found[name] == pytest.approx(wanted[name], rel=rel, abs=1e-7), (number, name)
        assert wanted["critics"] > 0
