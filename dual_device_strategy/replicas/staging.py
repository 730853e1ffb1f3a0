"""How a batch reaches several replicas: prepared whole, cut, then copied piece by piece.

    dataset                     a tf.data pipeline on the host
    Dealer on the host          several data devices take whole batches in turns
    Hop to a data device        PREPARING: the front end over the whole batch, and the cut
    Hop to the host             the handles of a box for each piece
    in turns, on the host       the data devices' batches in their order again
    ParallelMap on the host     READY: two batches at once, each piece to its replica's device
    iterator on the host        sealed handles; each replica's device opens its own box

There is one pipeline of whole batches, so order, errors, the end and the number of slots are as
for one replica.  A batch is cut in the function that prepares it.  A later cut would queue on the
device behind the front end of the next batch.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.batch_counts import BatchCounts
from dual_device_strategy.boxes import HANDLE, boxed, sealed
from dual_device_strategy.checkpoints.front_end_state import FrontEndState
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord, IteratorRecorder
from dual_device_strategy.copies import AT_ONCE, copier
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.hop import (
    Hop,
    component_specs,
    get_next,
    hop_options,
    name_tensor,
    trace,
)
from dual_device_strategy.host_part import HostPart
from dual_device_strategy.out_of_memory import PREPARING, READY, scope_name
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.pieces import Cut
from dual_device_strategy.slot_tuning import MOST
from dual_device_strategy.staging import next_number

_SEAL = tf.TensorSpec([], tf.variant)


class ReplicaStaging:
    """The slots between a host dataset and the steps of several replicas."""

    def __init__(
        self,
        host_spec,
        front_end: FrontEnd | None,
        front_end_spec,
        *,
        data_devices: Sequence[str],
        targets: Sequence[str],
        cut: Cut,
        slots: tuple[int, int],
        slots_change: bool = False,
        counts: BatchCounts | None = None,
        warm_up: bool = False,
        host_options: tf.data.Options | None = None,
        captured_by: Callable[[str], Callable | None],
        noted: Callable | None = None,
        at_targets: Sequence[Callable] | None = None,
    ):
        """Traces every function that the hops need.

        `captured_by(data_device)` returns a function that replaces a captured tensor in the front
        end on that device.  `noted` wraps the function that gets the host's batches.  With
        `at_targets` the data device is the host, and each replica's device prepares its piece with
        its own function; `front_end_spec` is then the type of the host's batches.
        """
        self.number = next_number()
        self.host_spec = host_spec
        self._host = compat.host_of(data_devices[0])
        self.warm_up = warm_up
        prepared_slots, self.ready_slots = slots
        places = 1 + sum(slots) + (MOST if slots_change else 0)  # one more than can be waiting
        self._front_end_state = begin = None
        written = front_end.written if front_end and len(data_devices) == 1 else []
        if written:
            self._front_end_state = FrontEndState(written, data_devices[0], places)
            begin = self._front_end_state.begin
            front_end = self._front_end_state.recorded(front_end)
        specs = component_specs(front_end_spec)
        pieces = component_specs(tf.nest.map_structure(compat.of_any_batch_size, front_end_spec))

        def cut_up(flat):
            return [tensor for piece in cut.pieces(flat, front_end_spec) for tensor in piece]

        def box(flat):
            flat = cut_up(flat) if on_host else flat
            return [boxed(flat[at : at + len(pieces)]) for at in range(0, len(flat), len(pieces))]

        on_host = data_devices[0] == self._host
        self.host = HostPart(
            host_spec,
            self._host,
            (targets if on_host else data_devices)[0],
            slots=prepared_slots if on_host else 0,
            counts=counts,
            options=host_options,
        )
        self.recorder = IteratorRecorder(
            self.host.made_spec,
            self._host,
            places,
            options=host_options,
            front_end=self._front_end_state,
        )
        get_host_next = noted(self.host.get_next) if noted else self.host.get_next
        self._prepare = [
            Hop(
                host_spec,
                self._host,
                device,
                scope=scope_name(PREPARING, specs),
                slots=prepared_slots,
                transform=lambda flat, *notes: cut_up(
                    front_end(flat, *notes) if front_end else flat
                ),
                element_spec=pieces * len(targets),
                get_next=get_host_next,
                failed=counts.note_end if warm_up else None,
                warm_up=warm_up,
                captured=captured_by(device),
                begin=begin,
            )
            for device in data_devices
            if not on_host
        ]
        scope = scope_name(READY, specs)
        self._handles, self._seals = (HANDLE,) * len(targets), (_SEAL,) * len(targets)
        self._boxes = [
            Hop(
                front_end_spec if on_host else pieces * len(targets),
                device,
                self._host,
                scope=scope,
                at_source=box,
                moved_spec=self._handles,
                get_next=get_host_next if on_host else get_next,
            )
            for device in data_devices
        ]
        self._copy = self._traced_copy(data_devices, targets, at_targets, pieces, scope, counts)

    def _traced_copy(self, data_devices, targets, at_targets, specs, scope, counts):
        copiers = [
            copier(device, specs, scope, transform=transform)
            for device, transform in zip(targets, at_targets or [None] * len(targets), strict=True)
        ]

        def copy(source_name, *handles):
            moved = [
                copy(handle, source_name) for copy, handle in zip(copiers, handles, strict=True)
            ]
            if counts:
                with tf.control_dependencies(moved):
                    counts.count_arrival()
            return [sealed(handle) for handle in moved]

        if len(data_devices) == 1:
            name = name_tensor(data_devices[0])
            return trace(lambda *handles: copy(name, *handles), *self._handles)
        # Each batch carries the name of the device that prepared it, where the copy is called.
        self._tags = [self._traced_tag(name_tensor(device)) for device in data_devices]
        return trace(copy, tf.TensorSpec([], tf.string), *self._handles)

    def _traced_tag(self, name):
        return trace(lambda *handles: [tf.identity(name), *handles], *self._handles)

    @property
    def can_be_saved(self) -> bool:
        """Whether it is known which batches the loop has consumed; only with one data device."""
        return len(self._boxes) == 1

    def iterator_over(
        self,
        host: tf.data.Dataset,
        record: IteratorRecord | None = None,
        again: tf.data.Iterator | None = None,
    ) -> tf.data.Iterator:
        """An iterator over `host`'s batches, as sealed handles for all replicas in one element.

        `record` collects what a checkpoint of the iterator needs.  If `again` is an iterator of
        this staging, it begins anew over `host`, and no other is made.
        """
        prepared = replica_compat.dealt(self.host.of(host), len(self._boxes), self._host)
        notes = []
        if self._front_end_state:
            notes = [self._front_end_state.new_shelf(record.given_values() if record else None)]
        if record:
            prepared = [record.followed(prepared[0], *notes)]
        warm_up = self.warm_up and again is None  # a restore may not be over
        for hop in self._prepare:
            hop.warm_up = warm_up
        if self._prepare:
            prepared = [
                hop.iterator_over(each, *notes)
                for hop, each in zip(self._prepare, prepared, strict=True)
            ]
        with tf.device(self._host):
            boxes = [
                hop.dataset_over(each) for hop, each in zip(self._boxes, prepared, strict=True)
            ]
            seals = self._copied(boxes[0] if len(boxes) == 1 else self._in_turns(boxes))
            seals = seals.with_options(hop_options(warm_up))
            return compat.made_again(again, seals) if again else iter(seals)

    def _copied(self, boxes: tf.Tensor) -> tf.data.Dataset:
        """The dataset that holds the READY batches, copied or on their way."""
        settings = {
            "input_dataset": boxes,
            "other_arguments": self._copy.captured_inputs,
            "f": self._copy,
            "output_types": [tf.variant] * len(self._seals),
            "output_shapes": [[]] * len(self._seals),
        }
        if not self.ready_slots:  # a batch is copied when it is asked for
            return compat.dataset_of(tf.raw_ops.MapDataset(**settings), self._seals)
        copies = min(AT_ONCE, self.ready_slots)
        variant = tf.raw_ops.ParallelMapDatasetV2(
            num_parallel_calls=tf.constant(copies, tf.int64), deterministic="true", **settings
        )
        seals = compat.dataset_of(variant, self._seals)
        return seals.prefetch(self.ready_slots - copies) if self.ready_slots > copies else seals

    def _in_turns(self, boxes: list[tf.Tensor]) -> tf.Tensor:
        """The data devices' batches in the order in which the host dealt them out."""
        types = [tf.string, *[tf.resource] * len(self._handles)]
        kinds = {"output_types": types, "output_shapes": [[]] * len(types)}
        tagged = [
            tf.raw_ops.MapDataset(
                input_dataset=each, other_arguments=tag.captured_inputs, f=tag, **kinds
            )
            for each, tag in zip(boxes, self._tags, strict=True)
        ]
        turns = tf.data.Dataset.range(len(boxes)).repeat()
        return tf.raw_ops.DirectedInterleaveDataset(
            selector_input_dataset=compat.variant_of(turns),
            data_input_datasets=tagged,
            stop_on_empty_dataset=True,
            **kinds,
        )
