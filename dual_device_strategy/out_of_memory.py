"""What to do when a device has no room for a batch, said where TensorFlow's error is passed on."""

import tensorflow as tf

# Scopes of the ops of the two stages; TensorFlow's messages name the op that failed.
PREPARING = "PREPARING_on_data_device"
READY = "READY_on_model_device"
_REMEDY = {
    PREPARING: "make_the_batch_smaller_or_the_front_end_lighter",
    READY: "make_the_batch_smaller_or_use_fewer_slots",
}


def scope_name(stage: str, specs) -> str:
    """The scope with what `explained` would say, because no Python sees an error that is raised
    inside a tf.function, as in Keras, before the user does."""
    size = size_of(specs).replace(",", "").replace(" ", "_")
    return f"{stage}.{size}.{_REMEDY[stage]}"


def explained(
    error: tf.errors.ResourceExhaustedError,
    strategy: tf.distribute.Strategy,
    batch: str,
    in_step: bool,
) -> tf.errors.ResourceExhaustedError:
    """`error` with its device, its stage, the batch's size and what to change, in front.

    `in_step` is false where a batch was asked for.
    """
    extended = strategy.extended
    (model_device,) = extended.worker_devices
    waiting = f"slots={extended.slots}"
    if PREPARING in error.message:
        device, stage = extended.data_device, "PREPARING a batch on the data device"
        remedy = "make the batch smaller or the front end lighter"
    elif READY in error.message or not in_step:
        device, stage = model_device, "copying a READY batch to the model device"
        remedy = f"make the batch smaller or use fewer slots (now {waiting})"
    else:
        device, stage = model_device, "TRAINING on the model device"
        remedy = f"make the batch or the model smaller, or use fewer slots (now {waiting})"
    message = (
        f"Out of memory while {stage}, {device.rsplit('device:', 1)[-1]}; {batch}; to get by with "
        f"what it has, {remedy}.\n{error.message}"
    )
    return tf.errors.ResourceExhaustedError(error.node_def, error.op, message)


def size_of(tensors) -> str:
    """The bytes of a batch, or of the specs of one as far as they say."""
    sizes = [t.shape.num_elements() for t in tensors]
    if any(size is None for size in sizes):
        return "a batch has no fixed size"
    total = sum(size * t.dtype.size for size, t in zip(sizes, tensors, strict=True))
    return f"a batch has {total:,} bytes"
