"""Shares: checks those that were asked for, and makes row weights for Keras' `fit`."""

import contextlib
import math
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.hop import components
from dual_device_strategy.hop_functions import trace
from dual_device_strategy.replicas.pieces import Cut

AUTO = "auto"


def checked(shares: Sequence[float] | str, replicas: int) -> tuple[float, ...] | str:
    """The shares for `replicas` model devices, or "auto"."""
    if isinstance(shares, str) and shares == AUTO:
        return AUTO
    if (
        isinstance(shares, str)
        or not isinstance(shares, Sequence)
        or not all(isinstance(share, (int, float)) for share in shares)
    ):
        raise ValueError(
            f"shares={shares!r} must be numbers, one for each model device, such as "
            'shares=(0.7, 0.3), or "auto"'
        )
    shares = tuple(float(share) for share in shares)
    if len(shares) != replicas:
        raise ValueError(
            f"shares={shares} has {len(shares)} shares for {replicas} model devices; give one for "
            "each, in their order"
        )
    if not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1, abs_tol=1e-3):
        raise ValueError(
            f"shares={shares} must be positive and add up to 1; leave a device that should get no "
            "rows out of model_devices"
        )
    return shares


def warn_of_means(shares: tuple[float, ...] | str) -> None:
    """Says what differs from one device if replicas have different numbers of rows."""
    if shares == AUTO or len(set(shares)) > 1:
        logging.warning(
            "shares=%s: replicas have different numbers of rows, so a mean over a replica's rows "
            "(reduce_mean, compute_average_loss without global_batch_size, Keras without "
            "row_weights) and BatchNormalization differ from training on one device",
            shares,
        )


def refuse_too_few_rows(asked: str, rows: int, pieces: Sequence[int]) -> None:
    """Refuses batches that leave a replica without a row."""
    if 0 in pieces:
        raise ValueError(
            f"{asked} of a batch of {rows} rows are {list(pieces)} rows: a replica without rows "
            "cannot train; use larger batches, or shares that leave each replica a row"
        )


class RowWeights:
    """Adds row weights to datasets, and replaces the weights when shares change."""

    def __init__(self):
        self._of = {}  # from the traced function of each map to the spec of its elements
        self._of_piece: float | None = None

    def applied(self, dataset: tf.data.Dataset, cut: Cut) -> tf.data.Dataset:
        weighted = dataset.map(self._weighting(cut))
        self._of[compat.traced_map_function(weighted)] = dataset.element_spec
        return weighted

    def anew(self, front_end: FrontEnd | None, cut: Cut) -> FrontEnd | None:
        """`front_end` with the weights for `cut` instead of its present ones."""
        if front_end is None:
            return None
        return FrontEnd(tuple(self._traced(each, cut) for each in front_end.functions))

    def _traced(self, function, cut):
        if function not in self._of:
            return function
        spec = self._of[function]

        def weighted(*flat):
            element = compat.from_flat(spec, list(flat))
            return components(self._weighting(cut)(*element))

        return trace(weighted, *tf.nest.flatten(spec, expand_composites=True))

    @contextlib.contextmanager
    def of_piece(self, rows: int, replicas: int, of: int):
        """In this block, front ends are traced for a piece of `rows` rows of a batch of `of`."""
        self._of_piece = rows * replicas / of
        try:
            yield
        finally:
            self._of_piece = None

    def are_in(self, front_end: FrontEnd) -> bool:
        return any(function in self._of for function in front_end.functions)

    def _weighting(self, cut: Cut):
        @tf.autograph.experimental.do_not_convert
        def weighted(x, y, weights=None):
            rows = tf.nest.flatten(y)[0]
            if self._of_piece is None:
                of_rows = cut.row_weights(rows)
            else:
                of_rows = tf.fill(tf.shape(rows)[:1], self._of_piece)
            return x, y, of_rows if weights is None else of_rows * weights

        return weighted
