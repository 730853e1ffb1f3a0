"""How a batch travels: host -> data device -> model device, one slot at a time.

    dataset            a tf.data pipeline on the data device's host
    pinning            to memory that a GPU reads by itself, see `pinned.py`
    hop, data device   PREPARING: copied to the data device and through the front end
    copies             READY: copied to the model device, or on the way there, two at once
    iterator           TRAINING: what the step holds

             batch 0    batch 1    batch 2    batch 3
    time 0   preparing
    time 1   ready      preparing
    time 2   ready      ready      preparing
    time 3   training   ready      ready      preparing
    time 4              training   ready      ready

`copies.py` says why there are two READY batches.  With three slots there is one, and one copy at a
time.
"""

import itertools
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.checkpoints.front_end_state import FrontEndState
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord, IteratorRecorder
from dual_device_strategy.copies import Copies
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.hop import Hop, component_specs, components, get_next
from dual_device_strategy.host_part import HostPart
from dual_device_strategy.out_of_memory import PREPARING, READY, bytes_of, scope_name
from dual_device_strategy.slot_tuning import MOST

# A smaller batch is copied in less than 0.2 ms over a link of 5 GB/s. Two copies cost a loop with
# empty steps as much, because their handles go through the host.
WORTH_TWO_COPIES = 1_000_000
_numbers = itertools.count()


class Staging:
    """The slots between a host dataset and a step."""

    def __init__(
        self,
        *,
        host_spec,
        front_end: Callable | None,
        front_end_spec,
        devices: tuple[str, str],
        slots: tuple[int, int],
        counts: BatchCounts | None = None,
        warm_up: bool = False,
        slots_change: bool = False,
        host_options: tf.data.Options | None = None,
        captured: Callable | None = None,
    ):
        """Traces every function that the hops need.

        `slots` are the numbers of batches that may wait on the first and the second of `devices`.
        With `slots_change`, `ready_slots` may be set anew between two iterators.  `host_options`
        are the user's; a dataset inside a tf.function no longer has them.  `captured` is passed to
        the hop to the data device.
        """
        (data_device, target_device), (prepared_slots, ready_slots) = devices, slots
        self.number = next_number()
        self.host_spec = host_spec
        host_device = compat.host_of(data_device)
        specs = component_specs(front_end_spec)
        prepares = data_device != host_device or warm_up
        self.host = HostPart(
            host_spec,
            host_device,
            target_device if data_device == host_device else data_device,
            slots=0 if prepares else prepared_slots,
            counts=counts,
            options=host_options,
        )
        places = 1 + sum(slots) + (MOST if slots_change else 0)  # one more than can be waiting
        self._prepare = self._front_end_state = begin = None
        # What `captured` puts in another's place belongs to several replicas: it is not saved.
        written = front_end.written if isinstance(front_end, FrontEnd) and not captured else []
        if prepares and written:
            self._front_end_state = FrontEndState(written, data_device, places)
            begin = self._front_end_state.begin
            front_end = self._front_end_state.recorded(front_end)
        if prepares:
            self._prepare = Hop(
                host_spec,
                host_device,
                data_device,
                scope=scope_name(PREPARING, specs),
                slots=prepared_slots,
                transform=front_end,
                element_spec=front_end_spec,
                get_next=self.host.get_next,
                failed=counts.note_end if warm_up else None,
                warm_up=warm_up,
                captured=captured,
                begin=begin,
            )
        self.recorder = IteratorRecorder(
            self.host.made_spec,
            host_device,
            places,
            options=host_options,
            front_end=self._front_end_state,
        )
        self.ready_slots, self._warm_up = ready_slots, warm_up
        ready = {
            "scope": scope_name(READY, specs),
            "get_next": get_next if self._prepare else self.host.get_next,
            "warm_up": warm_up,
        }
        size = bytes_of(specs)
        apart = _are_apart(data_device, target_device)
        two_copies = apart and (size is None or size >= WORTH_TWO_COPIES)
        self._one_copy = self._two_copies = None
        if slots_change or ready_slots < 2 or not two_copies:
            self._one_copy = Hop(
                front_end_spec,
                data_device,
                target_device,
                at_source=lambda flat: components(compat.from_flat(front_end_spec, flat)),
                moved_spec=specs,
                arrived=counts.count_arrival_of if counts else None,
                **ready,
            )
        if two_copies and (slots_change or ready_slots > 1):
            self._two_copies = Copies(
                front_end_spec,
                data_device,
                target_device,
                arrived=counts.count_arrival if counts else None,
                **ready,
            )

    def iterator_over(
        self,
        host: tf.data.Dataset,
        record: IteratorRecord | None = None,
        again: tf.data.Iterator | None = None,
    ) -> tf.data.Iterator:
        """An iterator over `host`'s batches after the front end, on the target device.

        `record` collects what a checkpoint of the iterator needs.  If `again` is an iterator of
        this staging, it begins anew over `host`, and no other is made.
        """
        with tf.device(self.host.device):
            return self.iterator_from(iter(self.host.of(host)), record, again)

    def iterator_from(
        self,
        iterator: tf.data.Iterator,
        record: IteratorRecord | None = None,
        again: tf.data.Iterator | None = None,
    ) -> tf.data.Iterator:
        """As `iterator_over`, from an iterator over what `host.of` returned."""
        notes = []
        if self._front_end_state:
            notes = [self._front_end_state.new_shelf(record.given_values() if record else None)]
        if record:
            iterator = record.followed(iterator, *notes)
        warm_up = self._warm_up and again is None  # a restore may not be over
        if self._prepare:
            self._prepare.warm_up = warm_up
            iterator = self._prepare.iterator_over(iterator, *notes)
        way = self._two_copies if self._two_copies and self.ready_slots > 1 else self._one_copy
        way.slots, way.warm_up = self.ready_slots, warm_up
        return way.iterator_over(iterator, again=again)


def next_number() -> int:
    """A new number for each staging; an id() would be used again after the object is gone."""
    return next(_numbers)


def _are_apart(one: str, other: str) -> bool:
    """Whether there is anything to copy: logical CPUs share their memory."""
    return one != other and not ("device:CPU" in one and "device:CPU" in other)
