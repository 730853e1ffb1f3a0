"""Tensors for batches, and how much of a device they take."""

import tensorflow as tf


def of_every_type(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
    """The whole numbers as tensors of types that devices treat differently."""
    return {
        "int32": tf.cast(numbers, tf.int32),
        "bool": numbers > 2,
        "half": tf.cast(numbers, tf.float16),
        "words": tf.strings.as_string(numbers),
    }


def live(device: str) -> int:
    """The bytes of all tensors on an emulated GPU now."""
    return tf.config.experimental.get_memory_info(device)["current"]
