"""The COPYING slots: batches are copied to the data device ahead of the front end, two at a time.

A copy from the host waits for what is queued on the data device when it is issued.  If it is issued
in the function that prepares its batch, that is the front end of the batch before; the two run in
turns.  A copy issued before that front end was queued runs beside it.  So two are under way: the
second is issued when the front end takes the batch before the first.

    iterator on the host               names of the lanes, on the host, in which batches wait
    Copies, to the data device         two at once: what is in the lane of that name
    Hop on the data device             PREPARING, from there
"""

import tensorflow as tf

from dual_device_strategy import compat, copies
from dual_device_strategy.copies import AT_ONCE, Copies
from dual_device_strategy.hop import Hop, component_specs
from dual_device_strategy.lanes import NAME, Lanes
from dual_device_strategy.out_of_memory import COPYING, scope_name
from dual_device_strategy.preparing_times import CopyTimes


class HostCopies:
    """Brings the host's batches to `device`, where up to two are, or are on their way."""

    def __init__(self, spec, get_next, *, host: str, device: str, times: CopyTimes | None = None):
        """`times` notes when each batch was asked of the host, and when it had arrived."""
        flat = list(map(tf.TensorSpec, compat.flat_shapes(spec), compat.flat_types(spec)))
        scope = scope_name(COPYING, flat)
        self._lanes = Lanes(flat, host, AT_ONCE)
        self._named = Hop(
            spec,
            host,
            host,
            scope=scope,
            element_spec=(NAME,),
            get_next=times.noting_asked(get_next) if times else get_next,
            finish=lambda batch, lanes: self._lanes.put(lanes, batch),
            notes=1,
        )
        self._copies = Copies(
            self._lanes,
            host,
            device,
            scope=scope,
            slots=AT_ONCE,
            arrived=times.note_made if times else None,
        )

    def iterator_over(self, host: tf.data.Iterator) -> tf.data.Iterator:
        return self._copies.iterator_over(self._named.iterator_over(host, self._lanes.new()))


def copied_ahead(spec, device: str) -> bool:
    """Whether there is a GPU to copy to, and batches are tensors and worth two copies at once.

    Ragged and sparse tensors travel as variants, which do not fit into a lane.
    """
    return (
        "device:CPU" not in device
        and tf.variant not in compat.flat_types(spec)
        and copies.is_large(component_specs(spec))
    )
