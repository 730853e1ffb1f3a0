"""Times the front end by itself, between two epochs, and tests whether a batch may be cut first.

Both use the host's newest full batch, which is kept by reference.
"""

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.front_end import FrontEnd, changes_state
from dual_device_strategy.hop import component_specs
from dual_device_strategy.hop_functions import trace

_ROUNDS = 4  # the shortest counts, because disturbances only add time


class FrontEndAlone:
    """The front end of one dataset, to be run outside the loop.

    Its full batches have `rows` rows.  `get_next_of` keeps the newest one; `milliseconds` and
    `of_pieces` run the front end over it.
    """

    def __init__(
        self, front_end: FrontEnd | None, host_spec, *, rows: int, host: str, data_device: str
    ):
        self._rows = rows
        self._specs, self._host, self._device = component_specs(host_spec), host, data_device
        self._front_end = front_end
        with tf.init_scope(), tf.device(host):
            self._newest = compat.anonymous_variable(tf.variant)
            nothing = tf.raw_ops.OptionalNone()
            tf.raw_ops.AssignVariableOp(resource=self._newest, value=nothing)

    def get_next_of(self, get_next):
        """`get_next`, which also keeps each full batch that it gets."""

        def noted(iterator, types, shapes):
            flat = get_next(iterator, types, shapes)

            def keep():
                batch = tf.raw_ops.OptionalFromValue(components=flat)
                tf.raw_ops.AssignVariableOp(resource=self._newest, value=batch)
                return True

            if not shapes[0].rank or shapes[0][0] is not None:
                keep()
            else:
                tf.cond(tf.shape(flat[0])[0] >= self._rows, keep, lambda: False)
            return flat

        return noted

    def milliseconds(self) -> float | None:
        """How long the front end takes; None if there was no batch or running it changes state."""
        if self._front_end is None:
            return 0.0
        batch = self._batch()
        return None if batch is None else self._timed(self._front_end, batch)[1]

    def of_pieces(self, functions: Sequence, edges: Sequence[int]) -> float | None:
        """How long the first piece takes; None if the joined pieces differ from the whole batch.

        `functions` are the front end traced for each piece; `edges` are the rows where pieces
        begin and end.
        """
        batch = self._batch()
        if batch is None:
            return None
        whole, _ = self._timed(self._front_end, batch)
        made = [
            self._timed(function, [tensor[begin:end] for tensor in batch])
            for function, begin, end in zip(functions, edges[:-1], edges[1:], strict=True)
        ]
        joined = [np.concatenate(each) for each in zip(*(flat for flat, _ in made), strict=True)]
        return made[0][1] if _same(joined, whole) else None

    def _batch(self) -> list[tf.Tensor] | None:
        if has_state(self._front_end):
            return None
        with tf.device(self._host):
            kept = tf.raw_ops.ReadVariableOp(resource=self._newest, dtype=tf.variant)
            if not tf.raw_ops.OptionalHasValue(optional=kept):
                return None
            return tf.raw_ops.OptionalGetValue(
                optional=kept,
                output_types=[spec.dtype for spec in self._specs],
                output_shapes=[spec.shape for spec in self._specs],
            )

    def _timed(self, function, batch) -> tuple[list[np.ndarray], float]:
        with tf.device(self._device):
            there = [tf.identity(tensor) for tensor in batch]
            run = trace(
                lambda *flat: function(list(flat)),
                *(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in there),
            )
            times = []
            for _ in range(1 + _ROUNDS):
                tf.test.experimental.sync_devices()
                begin = time.perf_counter()
                made = run(*there)
                tf.test.experimental.sync_devices()
                times.append(1e3 * (time.perf_counter() - begin))
        return [tensor.numpy() for tensor in made], min(times[1:])


def has_state(front_end: FrontEnd) -> bool:
    """Whether running the front end once more would change anything."""
    ops = (op for function in front_end.functions for op in compat.ops_of(function))
    return any(changes_state(op) for op in ops)


def _same(joined: Sequence[np.ndarray], whole: Sequence[np.ndarray]) -> bool:
    """Whether both are equal: integers and strings exactly, floats up to rounding."""
    for one, other in zip(joined, whole, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not np.issubdtype(one.dtype, np.inexact):
            same = np.array_equal(one, other)
        else:
            scale = np.max(np.abs(other), initial=0.0)
            same = np.allclose(one, other, rtol=1e-3, atol=1e-5 * scale, equal_nan=True)
        if not same:
            return False
    return True
