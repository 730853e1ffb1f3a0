"""The optimizer of fine-tuning takes the steps of the published trainer's."""

import numpy as np
import tensorflow as tf

from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.xtts_v2.networks import Published
from tests.myxtts.xtts_v2 import formula

CONFIG = StageConfig(
    learning_rate=formula.RATE_OF_STEPS,
    share=1.0,
    schedule="constant",
    warm_up_steps=0,
    weight_decay=formula.WEIGHT_DECAY,
    beta_2=formula.BETAS[1],
    clip_norm=0.0,
    ema=0.0,
)


def changes(source, **options) -> np.ndarray:
    """Of each weight of the GPT by published name: the length of its change in a few steps, and the
    change along a direction."""
    networks = Published.load(source)
    names = networks.names
    options.setdefault("not_decaying", names.not_decaying)
    options.setdefault("as_torch", True)
    learner = Learner([networks.conditioning, networks.gpt], CONFIG, **options)
    of_path = {variable.path: name for name, variable in names.variables.items()}
    entries = names._entries
    for step in range(formula.STEPS):
        gradients = []
        for variable in learner.variables:
            name = of_path[variable.path]
            shape = names.shapes()[name]
            gradients.append(
                tf.constant(entries[name].to_ours(formula.gradient(name, shape, step)))
            )
        norm = tf.linalg.global_norm(gradients)
        one = tf.constant(1.0)
        learner.learn(gradients, norm=norm, counts=one, step=tf.constant(step), planned=0)
    made = []
    after = names.tensors()
    for name in sorted(n for n in names.variables if n.startswith("gpt.")):
        change = after[name].astype(np.float64) - source.model[name].astype(np.float64)
        along = formula.uniform(f"along {name}", change.shape)
        made.append([np.linalg.norm(change), (change * along).sum()])
    return np.array(made)


def errors(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """In units of the change's length; a direction has about 0.58 of the root of its places."""
    return np.abs(found - wanted) / wanted[:, :1]


def test_steps_are_those_of_the_published_trainer(small_source, reference):
    wanted = reference["adamw/changes"].astype(np.float64)
    assert errors(changes(small_source), wanted).max() < 1e-5


def test_the_comparison_tells_kerass_epsilon_and_another_choice_of_what_decays(
    small_source, reference
):
    wanted = reference["adamw/changes"].astype(np.float64)
    for options in ({"as_torch": False}, {"not_decaying": None}):
        assert errors(changes(small_source, **options), wanted).max() > 1e-4
