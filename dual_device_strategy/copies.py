"""The READY slots: batches are copied to the model device, two at a time.

TensorFlow's copy between devices waits for the work that is queued on both devices' compute streams
when it is issued.  A loop that runs ahead queues a step as soon as its batch has arrived.  A copy
issued after that waits for this step and arrives when the model device has nothing left to do, so
the loop waits for all of it.  A second copy, issued while the first was still waiting, waits for
one step fewer and arrives while the newest step runs.

    iterator on the data device        names of the lanes in which prepared batches wait
    Hop                                the next name
    ParallelMap                        two copies at once: what is in the lane of that name
    Prefetch                           READY slots beyond two

All but the first are one iterator on the model device.  tf.data's parallel map keeps the order of
batches, brings errors and the end at their places, and stops everything when the iterator is gone.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop import Hop, hop_options
from dual_device_strategy.hop_functions import name_tensor, trace
from dual_device_strategy.lanes import NAME, Lanes
from dual_device_strategy.out_of_memory import bytes_of

AT_ONCE = 2  # a third copy gained nothing
# A smaller batch is copied in less than 0.2 ms over a link of 5 GB/s; a second copy at once costs
# some 0.1 ms of processor time.
WORTH_TWO_COPIES = 1_000_000


def is_large(specs) -> bool:
    """Whether batches are worth two copies at once; they may be if their size is open."""
    size = bytes_of(specs)
    return size is None or size >= WORTH_TWO_COPIES


def copying_slots(slots: int) -> int:
    """How many of so many slots are for large batches on their way from the host.

    One PREPARING, two READY and one TRAINING come first; with two READY slots, the copies to the
    model device are hidden.  See `host_copies.py`.
    """
    return AT_ONCE if slots >= 4 + AT_ONCE else 0


class Copies:
    """Brings batches out of `lanes` on `source` to `device`, where up to `slots` may wait."""

    def __init__(
        self,
        lanes: Lanes,
        source: str,
        device: str,
        *,
        scope: str,
        slots: int = 0,
        arrived: Callable | None = None,
        warm_up: bool = False,
    ):
        self.slots, self.warm_up = slots, warm_up
        self._device, self._host, self._specs = device, compat.host_of(device), lanes.specs
        self._names = Hop(NAME, source, self._host, scope=scope)
        source_name = name_tensor(source)

        def copy(name):
            with tf.name_scope(scope):
                moved = tf.raw_ops.RemoteCall(
                    target=source_name,
                    args=[name],
                    Tout=[each.dtype for each in lanes.specs],
                    f=lanes.contents,
                )
                if arrived:
                    arrived(moved)
                return moved

        on_device = {"experimental_ints_on_device": True}
        self._copy = trace(copy, NAME, experimental_attributes=on_device)

    def iterator_over(
        self, prepared: tf.data.Iterator, again: tf.data.Iterator | None = None
    ) -> tf.data.Iterator:
        """An iterator on the device; up to `slots` batches are there, or on their way."""
        copies = min(AT_ONCE, self.slots)
        with tf.device(self._host):
            names = self._names.dataset_over(prepared)
            variant = tf.raw_ops.ParallelMapDatasetV2(
                input_dataset=names,
                other_arguments=self._copy.captured_inputs,
                num_parallel_calls=tf.constant(copies, tf.int64),
                f=self._copy,
                output_types=[each.dtype for each in self._specs],
                output_shapes=[each.shape for each in self._specs],
                deterministic="true",
            )
            batches = compat.dataset_of(variant, self._specs)
            if self.slots > copies:
                batches = batches.prefetch(self.slots - copies)
            batches = batches.with_options(hop_options(self.warm_up))
        return compat.iterator_on(self._device, batches, again)
