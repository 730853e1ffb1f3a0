"""Watches a dataset that comes from elsewhere: fails if batches stop coming or elements are
missing.

TensorFlow's data service waits forever for a worker that died.  So a clock runs as well, and both
are merged as they come:

    batches   an Optional each         \\
                                        interleaved, whichever is ready -> counted -> batches
    clock     20 empty ones per second /

All of it is tf.data in C++: no Python runs while batches flow.
"""

import math

import tensorflow as tf

from dual_device_strategy import compat

_BATCH, _TICK, _END = 0, 1, 2
# At the end TensorFlow waits for the clock: some three ticks.
_TICK_SECONDS = 0.05


def watched(
    dataset: tf.data.Dataset,
    *,
    patience_seconds: float,
    silence: str,
    expected: tuple[bool, int] | None = None,
    must_be_all: bool = False,
    shared: bool = False,
) -> tf.data.Dataset:
    """`dataset`, failing with an InvalidArgumentError `silence` if it stalls for
    `patience_seconds`.

    Args:
      expected: (whether to count rows instead of elements, how many there must be).
      must_be_all: whether another number at the end is an error; if not, it is printed.
      shared: whether other programs get elements as well; then the number is always printed.
    """
    spec = dataset.element_spec
    empty = tf.experimental.Optional.empty(spec)
    code = lambda value: tf.constant(value, tf.int64)  # noqa: E731
    batches = dataset.map(lambda *e: (tf.experimental.Optional.from_value(_one(e)), code(_BATCH)))
    end = tf.data.Dataset.from_tensors((empty, code(_END)))
    clock = _slowed(tf.data.Dataset.from_tensors((empty, code(_TICK))).repeat(), _TICK_SECONDS)
    both = tf.data.Dataset.from_tensors(batches.concatenate(end)).concatenate(
        tf.data.Dataset.from_tensors(clock)
    )
    merged = both.interleave(
        lambda stream: stream, cycle_length=2, num_parallel_calls=2, deterministic=False
    )
    ticks_allowed = math.ceil(patience_seconds / _TICK_SECONDS)
    counts_rows, wanted = expected or (False, None)

    def count(state, element):
        ticks, total = state
        optional, what = element
        ticks = tf.where(what == _TICK, ticks + 1, code(0))
        tf.debugging.Assert(ticks <= ticks_allowed, [silence])
        if wanted is not None:
            total += tf.cond(
                what == _BATCH,
                lambda: _rows(optional.get_value()) if counts_rows else code(1),
                lambda: code(0),
            )
            _compare(what == _END, total, wanted, must_be_all=must_be_all, shared=shared)
        return (ticks, total), (optional, what)

    counted = merged.scan((code(0), code(0)), count)
    counted = counted.take_while(lambda _, what: what != _END)
    return counted.filter(lambda _, what: what == _BATCH).map(lambda o, _: o.get_value())


def _slowed(dataset: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """`dataset` with a pause before each element."""
    variant = tf.raw_ops.SleepDataset(
        input_dataset=compat.variant_of(dataset),
        sleep_microseconds=tf.constant(int(1e6 * seconds), tf.int64),
        output_types=compat.flat_types(dataset.element_spec),
        output_shapes=compat.flat_shapes(dataset.element_spec),
    )
    return compat.dataset_of(variant, dataset.element_spec)


def _one(element):
    return element[0] if len(element) == 1 else element


def _rows(element):
    first = tf.nest.flatten(element)[0]
    if isinstance(first, tf.RaggedTensor):
        return first.nrows(tf.int64)
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    return tf.shape(first, tf.int64)[0]


def _compare(at_end, total, wanted, *, must_be_all, shared) -> None:
    said = ["the data service gave", total, "of", wanted]
    if must_be_all:
        why = (
            "elements: a worker died and what it had taken was lost, or the pipeline has take or "
            "skip, which every worker applies to its own part; begin the epoch again"
        )
        tf.debugging.Assert(tf.logical_not(at_end) | (total == wanted), [*said, why])
        return
    why = "elements: the others were lost with a worker that died"
    if shared:
        why = "elements: others are with the programs that share the job, or lost with a worker"
    tf.cond(
        at_end & (shared | (total != wanted)),
        lambda: tf.group(tf.print(*said, why)),
        lambda: tf.group(),
    )
