"""The names of devices: short ones for people, and the GPU that a logical name stands for."""

import tensorflow as tf


def short_name(device: str) -> str:
    """Such as "GPU:1", from any of the forms that TensorFlow writes."""
    return device.rsplit("device:", 1)[-1].lstrip("/")


def kind_and_index(device: str) -> tuple[str, int]:
    """Such as ("GPU", 1)."""
    kind, index = short_name(device).split(":")
    return kind.upper(), int(index)


def physical_gpu(logical: int) -> int:
    """The physical index of a logical GPU; logical GPUs are the visible ones in physical order."""
    visible = tf.config.get_visible_devices("GPU")
    return tf.config.list_physical_devices("GPU").index(visible[logical])
