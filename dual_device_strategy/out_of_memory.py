"""Explains a device that has run out of memory; every other exhausted resource is left alone.

TensorFlow raises `ResourceExhaustedError` for a device's memory, but also for a `MemoryError` in
the user's Python, for too many open files, and for a full disk.  Only its message tells them apart.
"""

import re

import tensorflow as tf

from dual_device_strategy.devices import short_name

# Scopes of the ops that make a batch and that hand it out.  TensorFlow's messages name the op
# that failed.
COPYING = "COPYING_to_data_device"
PREPARING = "PREPARING_on_data_device"
READY = "READY_on_model_device"
_REMEDY = {
    COPYING: "make_the_batch_smaller_or_use_fewer_slots",
    PREPARING: "make_the_batch_smaller_or_the_front_end_lighter",
    READY: "make_the_batch_smaller_or_use_fewer_slots",
}

UNNAMED = "unnamed"
# The messages of TensorFlow 2.18 to 2.21 about an exhausted allocator that name the device: from a
# kernel, and from a copy between devices (source;incarnation;target;...).
_WITH_DEVICE = (
    re.compile(r"OOM when allocating (?:temporary )?tensor.* on (/job:\S+)"),
    re.compile(r"SameWorkerRecvDone unable to allocate output tensor\. Key: [^;]*;[^;]*;([^;]*)"),
)
# Those that do not name it: from XLA, from cuDNN, and from a copy from the host.
_WITHOUT_DEVICE = re.compile(
    r"Out of memory (?:while trying to allocate|allocating) \d|Failed to allocate request for "
    r"|(?i:cudnn) failed to allocate the scratch space|Dst tensor is not initialized"
)


def exhausted_device(error: Exception) -> str | None:
    """The device whose memory ran out, UNNAMED if the message does not name it.

    None for any other error, whatever else was exhausted.
    """
    if not isinstance(error, tf.errors.OpError):
        return None
    for pattern in _WITH_DEVICE:
        if found := pattern.search(error.message):
            return found[1]
    return UNNAMED if _WITHOUT_DEVICE.search(error.message) else None


def scope_name(slot: str, specs) -> str:
    """A scope's name that gives the same explanation as `explained`.

    An error raised inside a tf.function, as in Keras, reaches the user without passing through
    Python code of ours; but its message contains the names of its scopes.
    """
    size = size_of(specs).replace(",", "").replace(" ", "_")
    return f"{slot}.{size}.if_the_device_is_out_of_memory.{_REMEDY[slot]}"


def explained(
    error: tf.errors.ResourceExhaustedError,
    strategy: tf.distribute.Strategy,
    batch: str,
    in_step: bool,
) -> tf.errors.ResourceExhaustedError:
    """`error`, preceded by its device and slot, the size of the batch and what to change.

    Returns `error` unchanged if none of the strategy's devices ran out of memory.

    Args:
      in_step: whether a step failed; false if getting a batch failed.
    """
    extended = strategy.extended
    data_devices, model_devices = extended.data_devices, extended.worker_devices
    failed, waiting = exhausted_device(error), f"slots={extended.running_input.slots}"
    copying, preparing = (slot in error.message for slot in (COPYING, PREPARING))
    if failed == UNNAMED:
        failed = (data_devices if copying or preparing else model_devices)[0]
    if failed in data_devices and copying:
        doing = "COPYING a batch from the host to the data device"
        remedy = f"make the batch smaller or use fewer slots (now {waiting})"
    elif failed in data_devices and (preparing or not in_step):
        doing = "PREPARING a batch on the data device"
        remedy = "make the batch smaller or the front end lighter"
        if extended.running_input.copying:  # those batches are there, too
            remedy += f", or use fewer slots (now {waiting})"
    elif failed not in model_devices:
        return error
    elif READY in error.message or not in_step:
        doing = "copying a READY batch to the model device"
        remedy = f"make the batch smaller or use fewer slots (now {waiting})"
    else:
        doing = "TRAINING on the model device"
        remedy = f"make the batch or the model smaller, or use fewer slots (now {waiting})"
    message = (
        f"Out of memory while {doing}, {short_name(failed)}; {batch}; to fit into "
        f"the memory there is, {remedy}.\n{error.message}"
    )
    return tf.errors.ResourceExhaustedError(error.node_def, error.op, message)


def size_of(tensors) -> str:
    """The bytes of a batch, in words, from its tensors or from their specs."""
    size = bytes_of(tensors)
    return "a batch has no fixed size" if size is None else f"a batch has {size:,} bytes"


def bytes_of(tensors) -> int | None:
    """The bytes of a batch, or of its specs; None if the specs leave a shape open."""
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    if None in sizes:
        return None
    return sum(size * tensor.dtype.size for size, tensor in zip(sizes, tensors, strict=True))
