"""How a batch reaches several replicas: prepared whole, cut, then copied piece by piece.

    dataset                     a tf.data pipeline on the host
    Dealer on the host          several data devices take whole batches in turns
    copies to a data device     COPYING, with six slots or more: see `host_copies.py`
    Hop to a data device        PREPARING: the front end over the whole batch, and the cut
    Hop to the host             the names of the lanes in which its pieces wait
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
from dual_device_strategy.checkpoints.iterator_record import IteratorRecord
from dual_device_strategy.copies import AT_ONCE
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.hop import Hop, component_specs, hop_options
from dual_device_strategy.hop_functions import name_tensor, trace
from dual_device_strategy.host_copies import copied_ahead
from dual_device_strategy.lanes import NAME, Lanes
from dual_device_strategy.out_of_memory import READY, scope_name
from dual_device_strategy.preparing import Preparing
from dual_device_strategy.preparing_times import CopyTimes, PreparingTimes
from dual_device_strategy.replicas import compat as replica_compat
from dual_device_strategy.replicas.boxes import boxed, sealed
from dual_device_strategy.replicas.pieces import Cut
from dual_device_strategy.staging import places_for

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
        copying: int = 0,
        times: Sequence[PreparingTimes] = (),
        copy_times: Sequence[CopyTimes] = (),
        counts: BatchCounts | None = None,
        warm_up: bool = False,
        host_options: tf.data.Options | None = None,
        captured_by: Callable[[str], Callable | None],
        noted: Callable | None = None,
        at_targets: Sequence[Callable] | None = None,
    ):
        """Traces every function that the hops need.

        `copying` of the slots are for batches on their way to each data device, as in `Staging`.
        `captured_by(data_device)` returns a function that replaces a captured tensor in the front
        end on that device.  With `times`, one for each data device, `change_slots` may be called
        between two iterators.  `noted` wraps the function that gets the host's batches.  With
        `at_targets` the data device is the host, and each replica's device prepares its piece with
        its own function; `front_end_spec` is then the type of the host's batches.
        """
        self._host = compat.host_of(data_devices[0])
        prepared_slots, ready_slots = slots
        ahead = not times and copied_ahead(host_spec, data_devices[0])
        self.copying = copying if ahead else 0
        self.ready_slots = ready_slots - self.copying
        specs = component_specs(front_end_spec)
        pieces = component_specs(tf.nest.map_structure(compat.of_any_batch_size, front_end_spec))

        def cut_up(flat):
            return [tensor for piece in cut.pieces(flat, front_end_spec) for tensor in piece]

        self._lanes = [
            Lanes(pieces, device, AT_ONCE + prepared_slots, len(targets)) for device in data_devices
        ]
        others = len(data_devices) - 1  # of their slots for copies, `slots` counts one device's
        self._preparing = Preparing(
            host_spec,
            front_end,
            made_spec=front_end_spec,
            specs=specs,
            devices=data_devices,
            reader=targets[0],
            slots=prepared_slots,
            copies_ahead=self.copying > 0,
            places=places_for(slots, bool(times), len(data_devices)) + others * AT_ONCE,
            lanes=self._lanes,
            cut=cut_up,
            counts=counts,
            warm_up=warm_up,
            host_options=host_options,
            captured_by=captured_by,
            noted=noted,
            times=times[: len(data_devices)],
            copy_times=copy_times,
        )
        self.number, self.recorder = self._preparing.number, self._preparing.recorder
        self.host_spec, self.host = host_spec, self._preparing.host
        scope = scope_name(READY, specs)
        self._names, self._seals = (NAME,) * len(targets), (_SEAL,) * len(targets)
        self._named = [Hop(self._names, device, self._host, scope=scope) for device in data_devices]
        self._copy = self._traced_copy(
            data_devices, targets, at_targets=at_targets, scope=scope, counts=counts
        )

    def _traced_copy(self, data_devices, targets, *, at_targets, scope, counts):
        copiers = [
            _copier(device, self._lanes[0], scope, transform)
            for device, transform in zip(targets, at_targets or [None] * len(targets), strict=True)
        ]

        def copy(source_name, *names):
            moved = [copy(name, source_name) for copy, name in zip(copiers, names, strict=True)]
            if counts:
                with tf.control_dependencies(moved):
                    counts.count_arrival()
            return [sealed(handle) for handle in moved]

        if len(data_devices) == 1:
            name = name_tensor(data_devices[0])
            return trace(lambda *names: copy(name, *names), *self._names)
        # Each batch carries the name of the device that prepared it, where the copy is called.
        self._tags = [self._traced_tag(name_tensor(device)) for device in data_devices]
        return trace(copy, NAME, *self._names)

    def _traced_tag(self, device):
        return trace(lambda *names: [tf.identity(device), *names], *self._names)

    def change_slots(self, ready: int, copying: int) -> None:
        """For iterators from now on; `ready` is without those that are `copying`."""
        self.ready_slots, self.copying = ready, copying
        self._preparing.copies_ahead = copying > 0

    @property
    def warm_up(self) -> bool:
        """Whether new iterators fill their slots before the first batch is asked for."""
        return self._preparing.warm_up

    @warm_up.setter
    def warm_up(self, warm_up: bool):
        self._preparing.warm_up = warm_up

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
        batches = self.host.of(host)
        turn = 0
        if record and len(self._lanes) > 1:  # what is recorded is the order of all
            turn = record.turn
            with tf.device(self._host):
                batches = record.batches_of(iter(batches))
        hosts = replica_compat.dealt(batches, len(self._lanes), self._host)
        hosts = hosts[-turn:] + hosts[:-turn]
        warm_up = self.warm_up and again is None  # a restore may not be over
        prepared = self._preparing.iterators_over(hosts, record, warm_up)
        with tf.device(self._host):
            names = [
                hop.dataset_over(each) for hop, each in zip(self._named, prepared, strict=True)
            ]
            seals = self._copied(names[0] if len(names) == 1 else self._in_turns(names, turn))
            seals = seals.with_options(hop_options(warm_up))
            return compat.made_again(again, seals) if again else iter(seals)

    def _copied(self, names: tf.Tensor) -> tf.data.Dataset:
        """The dataset that holds the READY batches, copied or on their way."""
        settings = {
            "input_dataset": names,
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

    def _in_turns(self, names: list[tf.Tensor], turn: int) -> tf.Tensor:
        """The data devices' batches in the order in which the host dealt them out, the first one
        to device number `turn`."""
        types = [tf.string] * (1 + len(self._names))
        kinds = {"output_types": types, "output_shapes": [[]] * len(types)}
        tagged = [
            tf.raw_ops.MapDataset(
                input_dataset=each, other_arguments=tag.captured_inputs, f=tag, **kinds
            )
            for each, tag in zip(names, self._tags, strict=True)
        ]
        numbers = tf.range(len(names), dtype=tf.int64)
        turns = tf.data.Dataset.from_tensor_slices(tf.roll(numbers, -turn, 0)).repeat()
        return tf.raw_ops.DirectedInterleaveDataset(
            selector_input_dataset=compat.variant_of(turns),
            data_input_datasets=tagged,
            stop_on_empty_dataset=True,
            **kinds,
        )


def _copier(
    device: str, lanes: Lanes, scope: str, transform: Callable | None
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """What copies what is in a lane to `device`, into a box there.

    It takes the names of the lane and of its device, and returns the handle of the box.  With
    `transform`, a function over lists of flat tensors, the box has what that makes on `device`.
    """
    there, types = name_tensor(device), [each.dtype for each in lanes.specs]

    def copy_here(name, source_name):
        with tf.name_scope(scope):
            flat = tf.raw_ops.RemoteCall(
                target=source_name, args=[name], Tout=types, f=lanes.contents
            )
            if transform:
                for tensor, spec in zip(flat, lanes.specs, strict=True):
                    tensor.set_shape(spec.shape)
                flat = transform(flat)
            return boxed(flat)

    copy_there = trace(copy_here, NAME, NAME)

    def copy(name, source_name):
        (moved,) = tf.raw_ops.RemoteCall(
            target=there,
            args=[name, source_name, *copy_there.captured_inputs],
            Tout=[tf.resource],
            f=copy_there,
        )
        return moved

    return copy
