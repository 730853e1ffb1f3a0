"""Keeps other libraries from choosing what needs a real GPU.

They choose it because they see a GPU; the same program then runs unmodified.
"""

import importlib

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat


def steer() -> None:
    # Graph optimizers that rewrite for GPUs: the first makes convolutions channels-first, which
    # CPU kernels cannot do, the second puts cuDNN's implementation of a function for another.
    tf.config.optimizer.set_experimental_options(
        {"layout_optimizer": False, "implementation_selector": False}
    )
    compat.mirror_without_nccl()
    _steer_keras()


def _steer_keras() -> None:
    import keras  # here, because it takes a second and not every user of timed() has it loaded

    if keras.backend.backend() != "tensorflow":
        return
    # LSTM and GRU would choose cuDNN's kernels, compile() XLA, which has no such platform.
    for path, name in (
        ("keras.src.backend.tensorflow.rnn", "_is_gpu_available"),
        ("keras.src.trainers.trainer", "model_supports_jit"),
    ):
        module = importlib.import_module(path)
        if hasattr(module, name):
            setattr(module, name, lambda *_: False)
        else:
            logging.warning(
                "Keras %s has no %s.%s: pass use_cudnn=False to LSTM and GRU, jit_compile=False "
                "to compile().",
                keras.__version__,
                path,
                name,
            )
