"""The host's part of a dataset, from which the first hop gets its batches."""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.devices import usable_cores
from dual_device_strategy.hop import component_specs, get_next
from dual_device_strategy.out_of_memory import bytes_of
from dual_device_strategy.pinned import Pinning

# The host copies a smaller batch in 10 us, which is less than a detour through another thread.
WORTH_PINNING = 64 * 1024


class HostPart:
    """Host pipelines whose elements are of `spec`; the first hop takes them with `get_next`.

    `first` is the device that reads the batches, and `slots` the number of them that may wait on
    the host.  `options` are the user's, which a dataset inside a tf.function no longer knows.
    """

    def __init__(
        self,
        spec,
        device: str,
        first: str,
        *,
        slots: int = 0,
        counts: BatchCounts | None = None,
        options: tf.data.Options | None = None,
    ):
        self.spec, self.device, self.slots = spec, device, slots
        self._options = _options(options or tf.data.Options())
        self._pinning = Pinning(spec) if _is_worth_pinning(spec, first) else None
        self.made_spec = self._pinning.spec if self._pinning else spec  # of what `of` returns
        self.get_next: Callable = counts.get_next_counted if counts else get_next
        if self._pinning:
            self.get_next = self._pinning.get_next_of(self.get_next)

    def of(self, host: tf.data.Dataset) -> tf.data.Dataset:
        """`host` on the host's device, with counting and pinning added."""
        if compat.variant_of(host).device != self.device:
            # A function's arguments and results are on the default device.
            host = compat.moved(host, self.device)
        with tf.device(self.device):
            if self._pinning:
                host = self._pinning.pinned(host)
            if self.slots:
                host = host.prefetch(self.slots)
            return host.with_options(self._options)


def _is_worth_pinning(spec, device: str) -> bool:
    """Whether batches are large enough for pinned memory, and a GPU reads them.

    Ragged and sparse tensors travel as variants, whose contents no op of tf.data copies.
    """
    size = bytes_of(component_specs(spec))
    if "device:GPU" not in device or tf.variant in compat.flat_types(spec):
        return False
    return size is None or size >= WORTH_PINNING


def _options(given: tf.data.Options) -> tf.data.Options:
    """Gives the host pipeline threads of its own, so that it never waits for a hop's threads."""
    options = tf.data.Options()
    if not given.threading.private_threadpool_size:
        options.threading.private_threadpool_size = usable_cores()
    return options
