"""The way of a batch: host -> data device -> model device, one slot at a time.

    dataset            a tf.data pipeline on the data device's host
    hop, data device   PREPARING: copied to the data device and through the front end
    hop, model device  READY: copied to the model device
    iterator           TRAINING: what the step holds

             batch 0    batch 1    batch 2    batch 3
    time 0   preparing
    time 1   ready      preparing
    time 2   training   ready      preparing
    time 3              training   ready      preparing

Why three slots: TensorFlow's device-to-device copy waits for the work already queued on the
receiving device's compute stream, so a copy runs beside a step only if a READY batch already
feeds the step.
"""

import itertools
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.devices import usable_cores
from dual_device_strategy.hop import Hop, get_next
from dual_device_strategy.out_of_memory import PREPARING, READY
from dual_device_strategy.progress import Progress

_numbers = itertools.count()  # one for each `Staging`; an id() comes back after the object is gone


class Staging:
    """The slots between a host dataset and a step."""

    def __init__(
        self,
        host_spec,
        front_end: Callable | None,
        front_end_spec,
        devices: tuple[str, str],
        slots: tuple[int, int],
        progress: Progress | None = None,
        warm_up: bool = False,
    ):
        """`slots`: how many batches may wait on the first and on the second of the `devices`."""
        (data_device, target_device), (prepared_slots, ready_slots) = devices, slots
        self.number = next(_numbers)
        self.host_spec = host_spec
        self._host_device = compat.host_of(data_device)
        self._host_slots, self._hops = 0, []
        if data_device != self._host_device or warm_up:
            self._hops.append(
                Hop(
                    host_spec,
                    self._host_device,
                    data_device,
                    name=PREPARING,
                    slots=prepared_slots,
                    transform=front_end,
                    element_spec=front_end_spec,
                    get_next=progress.get_next_counted if progress else get_next,
                    failed=progress.note_end if warm_up else None,
                    warm_up=warm_up,
                )
            )
        else:
            self._host_slots = prepared_slots
        self._hops.append(
            Hop(
                front_end_spec,
                data_device,
                target_device,
                name=READY,
                slots=ready_slots,
                unpack=True,
                get_next=progress.get_next_counted if progress and not self._hops else get_next,
                arrived=progress.count_arrival if progress else None,
                warm_up=warm_up,
            )
        )

    @property
    def ready_slots(self) -> int:
        """How many batches of iterators made from now on may wait on the second device."""
        return self._hops[-1].slots

    @ready_slots.setter
    def ready_slots(self, count: int) -> None:
        self._hops[-1].slots = count

    def iterator_over(self, host: tf.data.Dataset) -> tf.data.Iterator:
        """`host`'s batches, through the front end, as components on the target device."""
        if compat.variant_of(host).device != self._host_device:
            # A function's arguments and results are on the default device.
            host = compat.moved(host, self._host_device)
        with tf.device(self._host_device):
            if self._host_slots:
                host = host.prefetch(self._host_slots)
            iterator = iter(host.with_options(_host_options(host.options())))
        for hop in self._hops:
            iterator = hop.iterator_over(iterator)
        return iterator


def _host_options(given: tf.data.Options) -> tf.data.Options:
    """Threads of its own for the host pipeline, so that it never waits for those of a hop."""
    options = tf.data.Options()
    if not given.threading.private_threadpool_size:
        options.threading.private_threadpool_size = usable_cores()
    return options
