"""Makes TensorFlow and Keras choose what runs on emulated GPUs.

They see a GPU and would choose what needs a real one. Steered, the same program runs unmodified.
"""

import importlib
import os

import tensorflow as tf
from absl import logging

from dual_device_strategy.emulation import compat

# The number that may wait for a device at a time: branches of functions, hops of pipelines.
_THREADS_PER_GPU = 8


def steer(gpus: int) -> None:
    # Graph optimizers run, but for two. The first puts cuDNN's implementation of a Keras 2 layer
    # for another. The second makes convolutions channels-first, which CPU kernels cannot do; in a
    # build for CUDA it asks CUDA about the devices, gets no answer and leaves the layout alone.
    options = {"implementation_selector": False}
    if not tf.test.is_built_with_cuda():
        options["layout_optimizer"] = False
    tf.config.optimizer.set_experimental_options(options)
    # A kernel that computes holds its thread until the device's earlier work is done. TensorFlow
    # has one thread per core for all kernels: on two cores, two such would stop the host's work.
    if tf.config.threading.get_inter_op_parallelism_threads() == 0:
        tf.config.threading.set_inter_op_parallelism_threads(
            (os.cpu_count() or 1) + gpus * _THREADS_PER_GPU
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
