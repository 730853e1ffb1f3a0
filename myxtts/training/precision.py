"""The number format networks compute in, and the scaling of losses that float16 needs."""

import functools

import tensorflow as tf
from absl import logging

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
_START, _GROW_AFTER = 2.0**15, 2000


@functools.cache  # said once
def chosen_precision(asked: str) -> str:
    """The precision for "auto": what the GPUs of this machine compute fast, else float32."""
    if asked != "auto":
        return asked
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability")
        for gpu in tf.config.get_visible_devices("GPU")
    ]
    if not capabilities or None in capabilities:
        chosen, why = "float32", "no GPU reports its compute capability"
    elif min(capabilities) >= (8, 0):
        chosen, why = "bfloat16", f"compute capability {min(capabilities)} has it"
    elif min(capabilities) >= (7, 0):
        chosen, why = "float16", f"compute capability {min(capabilities)} is fast at it"
    else:
        chosen, why = "float32", f"compute capability {min(capabilities)} is no faster with less"
    logging.info("precision: %s (%s)", chosen, why)
    return chosen


def policy_of(precision: str) -> str:
    """Keras's name for it."""
    return _POLICIES[precision]


class LossScale:
    """Gradients in float16 vanish below 6e-8, so the loss is multiplied first: twice as much after
    2,000 steps that went well, half as much after one that did not. 1 in other precisions."""

    def __init__(self, precision: str):
        self.active = precision == "float16"
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        start = _START if self.active else 1.0
        self.scale = tf.Variable(start, trainable=False, aggregation=first)
        self.well = tf.Variable(0.0, trainable=False, aggregation=first)

    def variables(self) -> list[tf.Variable]:
        return [self.scale, self.well]

    def follow(self, counts: tf.Tensor) -> None:
        """After a step; `counts` is 0.0 where its gradients were not finite."""
        if not self.active:
            return
        well = (self.well + 1.0) * counts
        grown = tf.cast(well >= _GROW_AFTER, tf.float32)
        self.scale.assign(tf.maximum(self.scale * (0.5 + 0.5 * counts) * (1.0 + grown), 1.0))
        self.well.assign(well * (1.0 - grown))
