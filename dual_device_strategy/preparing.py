"""The PREPARING slot: from the host to the data devices, and through the front end there.

    dataset            a tf.data pipeline on the data devices' host
    pinning            to memory that a GPU reads by itself, see `pinned.py`
    record             what a checkpoint of the iterator needs
    copies             ahead of the front end, with six slots or more: see `host_copies.py`
    hop, data device   copied to the data device, if it is not there, and through the front end
    lanes              where the batch waits for its copy, see `lanes.py`
"""

import functools
import itertools
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.checkpoints.front_end_state import FrontEndState
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord, IteratorRecorder
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.hop import Hop, get_next
from dual_device_strategy.host_copies import HostCopies
from dual_device_strategy.host_part import HostPart
from dual_device_strategy.lanes import NAME, Lanes
from dual_device_strategy.out_of_memory import PREPARING, scope_name
from dual_device_strategy.preparing_times import CopyTimes, PreparingTimes

_numbers = itertools.count()


class Preparing:
    """Prepares the batches of one distributed dataset; several data devices take them in turns.

    What it traces is used for every iterator.  Its iterators hand out what `front_end` makes, of
    `made_spec`.  With `lanes`, one object for each data device, they hand out the names of lanes
    in which is what `apart` makes of that.  Without, batches of a data device that is the host
    itself are left in the host's iterator, which only `get_next` may draw from.

    Args:
      reader: the device that reads the batches of a data device that is the host itself.
      slots: how many batches may wait on each data device.
      copies_ahead: whether batches are copied from the host ahead of the front end, two at once;
        they count beside `slots`, and no `times` are noted.  The attribute may be set between two
        iterators.
      places: how many batches a checkpoint may have to keep.
      cut: what comes after the front end in the same function.
      captured_by: what says what the front end on a data device uses in the place of a tensor
        that it captured.
      noted: makes what gets the host's batches, of what would.
      times: what notes when each data device asked for a batch and had prepared it, or nothing.
      copy_times: what notes when each data device asked for a batch ahead and had it, or nothing.
      saves_front_end: whether variables that the front end writes to are in checkpoints.
    """

    def __init__(
        self,
        host_spec,
        front_end: Callable | None,
        *,
        made_spec,
        specs: Sequence[tf.TensorSpec],
        devices: Sequence[str],
        reader: str,
        slots: int,
        places: int,
        copies_ahead: bool = False,
        lanes: Sequence[Lanes] = (),
        apart: Callable | None = None,
        cut: Callable | None = None,
        counts: BatchCounts | None = None,
        warm_up: bool = False,
        host_options: tf.data.Options | None = None,
        captured_by: Callable[[str], Callable | None] = lambda device: None,
        noted: Callable | None = None,
        times: Sequence[PreparingTimes] = (),
        copy_times: Sequence[CopyTimes] = (),
        saves_front_end: bool = True,
    ):
        self.number = next(_numbers)  # an id() comes back after the object is gone
        self.warm_up = warm_up
        host = compat.host_of(devices[0])
        on_host = devices[0] == host
        hops = not on_host or warm_up or bool(lanes)
        self.host = HostPart(
            host_spec,
            host,
            reader if on_host else devices[0],
            slots=0 if hops else slots,
            counts=counts,
            options=host_options,
        )
        self._lanes, self._states = lanes, []
        self._restored: list[tf.Tensor] = []  # the shelves of the newest iterator, if it was
        self.get_next = noted(self.host.get_next) if noted else self.host.get_next
        can_be_kept = hops and saves_front_end and isinstance(front_end, FrontEnd)
        written = front_end.written if can_be_kept else []
        of_each = []
        for device in devices:
            captured = captured_by(device)
            of_each.append([captured(each) for each in written] if captured else written)
        # One that all devices write to has no value as of a batch.
        shared = len(devices) > 1 and any(
            len({id(handle) for handle in handles}) < len(devices)
            for handles in zip(*of_each, strict=True)
        )
        if written and not shared:
            self._states = [
                FrontEndState(handles, device, places)
                for handles, device in zip(of_each, devices, strict=True)
            ]
        self.recorder = IteratorRecorder(
            self.host.made_spec,
            host,
            places=places,
            options=host_options,
            front_ends=self._states,
            turns=len(devices),
            writes_are_shared=shared,
        )
        shelves = 1 if self._states else 0  # a note of the iterator, before that of its lanes

        def transform(state, flat, *notes):
            made = flat
            if front_end:
                recorded = state.recorded(front_end) if state else front_end
                made = recorded(flat, *notes[:shelves])
            return cut(made) if cut else made

        def finish(lanes, times, flat, *notes):
            made = lanes.put(notes[-1], apart(flat) if apart else flat) if lanes else flat
            if times:
                times.note_made(made)
            return made

        def made_hops(copies: Sequence[HostCopies]) -> list[Hop]:
            found = []
            for place, device in enumerate(devices if hops else []):
                source, get_batch = (device, get_next) if copies else (host, self.get_next)
                its_lanes, state = (each[place] if each else None for each in (lanes, self._states))
                its_times = times[place] if times and not copies else None
                found.append(
                    Hop(
                        host_spec,
                        source,
                        device,
                        scope=scope_name(PREPARING, specs),
                        slots=slots,
                        transform=functools.partial(transform, state) if front_end or cut else None,
                        element_spec=(NAME,) * its_lanes.takers if lanes else made_spec,
                        get_next=its_times.noting_asked(get_batch) if its_times else get_batch,
                        failed=counts.note_end if warm_up else None,
                        warm_up=warm_up,
                        captured=captured_by(device) if front_end else None,
                        begin=functools.partial(_begin, state) if state else None,
                        finish=functools.partial(finish, its_lanes, its_times),
                        notes=shelves + (1 if lanes else 0),
                    )
                )
            return found

        def made_copies() -> list[HostCopies]:
            return [
                HostCopies(host_spec, self.get_next, host=host, device=each, times=its_times)
                for each, its_times in itertools.zip_longest(devices, copy_times)
            ]

        self._made_copies, self._made_hops = made_copies, made_hops
        self._ways = {}  # whether copies are ahead -> those copies, and the hops; traced when used
        self.copies_ahead = copies_ahead
        self._hops = self._way()[1]

    def _way(self) -> tuple[list[HostCopies], list[Hop]]:
        """The copies ahead of the front end, if there are any now, and the hops."""
        if self.copies_ahead not in self._ways:
            copies = self._made_copies() if self.copies_ahead else []
            self._ways[self.copies_ahead] = copies, self._made_hops(copies)
        return self._ways[self.copies_ahead]

    @property
    def makes(self) -> bool:
        """Whether its iterators are its own, and not the host's."""
        return bool(self._hops)

    def iterators_over(
        self, hosts: Sequence[tf.data.Iterator], record: IteratorRecord | None, warm_up: bool
    ) -> list[tf.data.Iterator]:
        """An iterator on each data device, from iterators over what `host.of` returned.

        `record` is told what a checkpoint of the iterator needs.  With several data devices it
        stands before `hosts` already.
        """
        if tf.executing_eagerly():
            for state, shelf in zip(self._states, self._restored, strict=False):
                state.begin_if_not_begun(shelf)
        shelves = record.new_shelves() if record else [s.new_shelf(None) for s in self._states]
        self._restored = shelves if record and record.is_restored else []
        if record and len(hosts) == 1:
            hosts = [record.followed(hosts[0])]
        if not self._hops:
            return list(hosts)
        iterators, (copies, hops) = [], self._way()
        for place, (hop, host) in enumerate(zip(hops, hosts, strict=True)):
            hop.warm_up = warm_up
            if copies:
                host = copies[place].iterator_over(host)
            new_lanes = [self._lanes[place].new()] if self._lanes else []
            iterators.append(hop.iterator_over(host, *shelves[place : place + 1], *new_lanes))
        return iterators


def _begin(state: FrontEndState, shelf, *others):
    state.begin(shelf)
