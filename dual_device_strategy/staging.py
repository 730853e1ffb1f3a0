"""How a batch travels: host -> data device -> model device, one slot at a time.

    dataset            a tf.data pipeline on the data device's host
    pinning            to memory that a GPU reads by itself, see `pinned.py`
    copies             COPYING, with six slots or more: see `host_copies.py`
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

from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord
from dual_device_strategy.copies import AT_ONCE, Copies, is_large
from dual_device_strategy.hop import Hop, component_specs, components, get_next
from dual_device_strategy.host_copies import copied_ahead
from dual_device_strategy.lanes import NAME, Lanes
from dual_device_strategy.out_of_memory import READY, scope_name
from dual_device_strategy.preparing import Preparing
from dual_device_strategy.preparing_times import CopyTimes, PreparingTimes
from dual_device_strategy.slot_tuning import MOST


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
        copying: int = 0,
        counts: BatchCounts | None = None,
        warm_up: bool = False,
        times: Sequence[PreparingTimes] = (),
        copy_times: Sequence[CopyTimes] = (),
        host_options: tf.data.Options | None = None,
        captured: Callable | None = None,
    ):
        """Traces every function that the hops need.

        `slots` are the numbers of batches that may wait on the first and the second of `devices`.
        `copying` of the latter are for batches on their way from the host, if these are large.
        With `times`, one for the data device, `change_slots` may be called between two iterators,
        and at first none is for those.
        `copy_times`, one for the data device, notes how `copying` ones are copied.
        `host_options` are the user's; a dataset inside a tf.function no longer has them.
        `captured` is passed to the hop to the data device.
        """
        slots_change = bool(times)
        (data_device, target_device), (prepared_slots, ready_slots) = devices, slots
        ahead = not slots_change and copied_ahead(host_spec, data_device)
        self.copying = copying if ahead else 0
        self.ready_slots = ready_slots - self.copying
        specs = component_specs(front_end_spec)
        two_copies = (
            _are_apart(data_device, target_device)
            and is_large(specs)
            and (slots_change or self.ready_slots > 1)
        )

        def apart(flat):
            return components(compat.from_flat(front_end_spec, flat))

        lanes = Lanes(specs, data_device, AT_ONCE + prepared_slots) if two_copies else None
        self._preparing = Preparing(
            host_spec,
            front_end,
            made_spec=front_end_spec,
            specs=specs,
            devices=[data_device],
            reader=target_device,
            slots=prepared_slots,
            copies_ahead=self.copying > 0,
            places=places_for(slots, slots_change),
            lanes=[lanes] if lanes else [],
            apart=apart,
            counts=counts,
            warm_up=warm_up,
            host_options=host_options,
            times=times,
            copy_times=copy_times,
            captured_by=lambda device: captured,
            # What `captured` puts in another's place belongs to several replicas.
            saves_front_end=captured is None,
        )
        self.number, self.recorder = self._preparing.number, self._preparing.recorder
        self.host_spec, self.host = host_spec, self._preparing.host
        ready = {
            "scope": scope_name(READY, specs),
            "arrived": counts.count_arrival_of if counts else None,
            "warm_up": warm_up,
        }
        self._one_copy = self._two_copies = None
        if lanes:
            self._two_copies = Copies(lanes, data_device, target_device, **ready)
            # Of names, each of which leads to a batch.
            one = {"get_next": lanes.get_next}
        else:
            get_prepared = get_next if self._preparing.makes else self._preparing.get_next
            one = {"get_next": get_prepared, "at_source": apart}
        if slots_change or not lanes:
            self._one_copy = Hop(
                NAME if lanes else front_end_spec,
                data_device,
                target_device,
                moved_spec=specs,
                **one,
                **ready,
            )

    def change_slots(self, ready: int, copying: int) -> None:
        """For iterators from now on; `ready` is without those that are `copying`."""
        self.ready_slots, self.copying = ready, copying
        self._preparing.copies_ahead = copying > 0

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
        warm_up = self._preparing.warm_up and again is None  # a restore may not be over
        (prepared,) = self._preparing.iterators_over([iterator], record, warm_up)
        two_copies = self._two_copies and self.ready_slots > 1
        way = self._two_copies if two_copies else self._one_copy
        way.slots, way.warm_up = self.ready_slots, warm_up
        return way.iterator_over(prepared, again=again)


def places_for(slots: tuple[int, int], slots_change: bool, data_devices: int = 1) -> int:
    """How many batches a checkpoint may have to keep: one more than can be waiting."""
    # Of several data devices each may hold one that it was dealt and one that it prepares.
    dealt = data_devices * (2 + slots[0]) if data_devices > 1 else 0
    return 1 + sum(slots) + dealt + (MOST if slots_change else 0)


def _are_apart(one: str, other: str) -> bool:
    """Whether there is anything to copy: logical CPUs share their memory."""
    return one != other and not ("device:CPU" in one and "device:CPU" in other)
