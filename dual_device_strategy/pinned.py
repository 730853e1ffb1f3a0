"""Batches in pinned host memory, from which a GPU copies them by itself.

tf.data's tensors are in ordinary (pageable) memory, whether they come from `batch`, `padded_batch`,
`map`, parsed records or Python's arrays.  A GPU cannot read that memory.  TensorFlow first copies a
tensor to a pinned buffer, on the thread that then asks for the transfer; it leaves NumPy's arrays
to the driver, which may also wait for the GPU meanwhile.  One of tf.data's ops, MapAndBatch, makes
its result in pinned memory if the host has a GPU.  So a "batch of one batch" is made, one ahead and
on a thread of its own, and taken apart again without a copy.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop_functions import trace


class Pinning:
    """Adds the pinning step to a host pipeline whose elements are of `spec`.

    `pinned(dataset)` has elements with one more dimension; `get_next_of(get_next)` removes it.
    """

    def __init__(self, spec):
        types, shapes = compat.flat_types(spec), compat.flat_shapes(spec)
        self._types = types
        self._shapes = [_of_one(shape) for shape in shapes]
        self.spec = tuple(map(tf.TensorSpec, self._shapes, types))
        # The map itself copies nothing; MapAndBatch copies its result.
        self._unchanged = trace(lambda *flat: flat, *map(tf.TensorSpec, shapes, types))

    def pinned(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        variant = tf.raw_ops.MapAndBatchDataset(
            input_dataset=compat.variant_of(dataset),
            other_arguments=[],
            batch_size=tf.constant(1, tf.int64),
            num_parallel_calls=tf.constant(1, tf.int64),
            drop_remainder=tf.constant(False),
            f=self._unchanged,
            output_types=self._types,
            output_shapes=self._shapes,
            preserve_cardinality=True,
        )
        return compat.dataset_of(variant, self.spec)

    @staticmethod
    def get_next_of(get_next: Callable) -> Callable:
        """`get_next`, from an iterator over a pinned dataset."""

        def get_next_pinned(iterator, types, shapes):
            flat = get_next(iterator, types, [_of_one(shape) for shape in shapes])
            return [tf.squeeze(tensor, axis=[0]) for tensor in flat]

        return get_next_pinned


def _of_one(shape: tf.TensorShape) -> tf.TensorShape:
    return tf.TensorShape([1]).concatenate(shape)
