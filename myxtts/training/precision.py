"""The number format networks compute in, and the scaling of losses that float16 needs."""

import functools
import os
from pathlib import Path

import tensorflow as tf
from absl import logging

from myxtts.training.run_directory import RunDirectory

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
# Flags of x86 processors. There a GPT step takes two thirds of its time in float32, and the
# tokenizer's, mostly small convolutions, as long (`tests/benchmarks/number_types.py`).
_BFLOAT16 = ("amx_bf16", "avx512_bf16")
_PROCESSOR = Path("/proc/cpuinfo")
_START, _GROW_AFTER = 2.0**15, 2000


def precision_for(asked: str, run: RunDirectory, stage: str | None = None) -> str:
    """The precision to train a stage of the run in.

    What was asked for. For "auto" the one that the stage, or else the run, was begun with, on
    whichever machine that was; for a new run `fastest_precision`.
    """
    return asked if asked != "auto" else _kept(run, stage) or fastest_precision()


def _kept(run: RunDirectory, stage: str | None) -> str | None:
    record = run.record(stage) if stage else None
    kept = record["identity"]["precision"] if record else run.identity().get("precision")
    return kept if kept in _POLICIES else None


@functools.cache  # said once
def fastest_precision() -> str:
    """The precision in which this machine trains fastest, by what its devices say they have."""
    gpus = tf.config.get_visible_devices("GPU")
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus
    ]
    if not gpus:
        chosen, why = ("bfloat16" if bfloat16_on_cpu() else "float32"), _about_processor()
    elif None in capabilities:
        chosen, why = "float32", "a GPU does not report its compute capability"
    elif min(capabilities) >= (8, 0):
        chosen, why = "bfloat16", f"compute capability {min(capabilities)} has it"
    elif min(capabilities) >= (7, 0):
        chosen, why = "float16", f"compute capability {min(capabilities)} is fast at it"
    else:
        chosen, why = "float32", f"compute capability {min(capabilities)} is no faster with less"
    logging.info("precision: %s (%s)", chosen, why)
    return chosen


def bfloat16_on_cpu() -> bool:
    """Whether the processor multiplies bfloat16, and TensorFlow makes use of it (oneDNN)."""
    return bool(_instructions()) and not _without_onednn()


def _instructions() -> list[str]:
    """Those for bfloat16, as Linux names them; other systems are not asked."""
    flags = _PROCESSOR.read_text(errors="replace").split() if _PROCESSOR.exists() else []
    return [name for name in _BFLOAT16 if name in flags]


def _without_onednn() -> bool:
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false")


def _about_processor() -> str:
    if not _instructions():
        return "the processor has no instructions for bfloat16"
    if _without_onednn():
        return "TF_ENABLE_ONEDNN_OPTS switches oneDNN off, without which bfloat16 is slow"
    return f"the processor has {', '.join(_instructions())}"


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
