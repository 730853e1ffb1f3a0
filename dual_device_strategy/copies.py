"""The READY slots: batches are copied to the model device, two at a time.

TensorFlow's copy between devices waits for the work that is queued on both devices' compute streams
when it is issued.  A loop that runs ahead queues a step as soon as its batch has arrived.  A copy
issued after that waits for this step and arrives when the model device has nothing left to do, so
the loop waits for all of it.  A second copy, issued while the first was still waiting, waits for
one step fewer and arrives while the newest step runs.

    iterator on the data device        prepared batches
    Lanes on the data device           where they wait, each in a lane that has a name
    Hop to the host                    the name of the lane
    ParallelMap on the host            two copies at once: the handle of a box on the model device
    Prefetch on the host               READY slots beyond two
    Hop to the model device            what is in the box

Only names and handles reach the host.  tf.data's parallel map keeps the order of batches, brings
errors and the end at their places, and stops everything when the iterator is gone.
"""

from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.boxes import HANDLE, boxed, unboxed
from dual_device_strategy.hop import Hop, component_specs, hop_options, name_tensor, trace
from dual_device_strategy.lanes import NAME, Lanes

AT_ONCE = 2  # a third copy gained nothing


class Copies:
    """Brings batches from an iterator on `source` to `device`, where up to `slots` may wait."""

    def __init__(
        self,
        spec,
        source: str,
        device: str,
        *,
        scope: str,
        slots: int = 0,
        get_next: Callable,
        arrived: Callable | None = None,
        warm_up: bool = False,
    ):
        specs = component_specs(spec)
        self._lanes = Lanes(spec, source, AT_ONCE + 1, get_next)
        self.slots, self.warm_up = slots, warm_up
        self._host = compat.host_of(device)
        self._names = Hop(NAME, source, self._host, scope=scope)
        source_name = name_tensor(source)
        copy_to_device = copier(device, specs, scope, contents=self._lanes.contents)

        def copy(name):
            moved = copy_to_device(name, source_name)
            if arrived:
                with tf.control_dependencies([moved]):
                    arrived()
            return moved

        self._copy = trace(copy, NAME)
        self._delivery = Hop(
            HANDLE,
            self._host,
            device,
            scope=scope,
            transform=lambda flat: unboxed(*flat, specs),
            element_spec=specs,
        )

    def iterator_over(
        self, prepared: tf.data.Iterator, again: tf.data.Iterator | None = None
    ) -> tf.data.Iterator:
        """An iterator on the device; up to `slots` batches are there, or on their way."""
        copies = min(AT_ONCE, self.slots)
        names = self._names.dataset_over(self._lanes.iterator_over(prepared))
        with tf.device(self._host):
            variant = tf.raw_ops.ParallelMapDatasetV2(
                input_dataset=names,
                other_arguments=self._copy.captured_inputs,
                num_parallel_calls=tf.constant(copies, tf.int64),
                f=self._copy,
                output_types=[tf.resource],
                output_shapes=[[]],
                deterministic="true",
            )
            handles = compat.dataset_of(variant, HANDLE)
            if self.slots > copies:
                handles = handles.prefetch(self.slots - copies)
            handles = iter(handles.with_options(hop_options(self.warm_up)))
        return self._delivery.iterator_over(handles, again=again)


def copier(
    device: str,
    specs,
    scope: str,
    *,
    transform: Callable | None = None,
    contents: tf.types.experimental.ConcreteFunction | None = None,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that copies a batch into a new box on `device`.

    It takes a lane's name or a box's handle, and the name of the batch's device; it returns the
    new box's handle.  `contents`, called on the batch's device, returns the batch of a lane; if it
    is None, the function takes handles.  `transform` is applied to the flat tensors on `device`.
    """
    there, types = name_tensor(device), [each.dtype for each in specs]
    contents = contents or trace(lambda handle: unboxed(handle, specs), HANDLE)
    (way,) = contents.structured_input_signature[0]

    def copy_here(way, source_name):
        with tf.name_scope(scope):
            flat = tf.raw_ops.RemoteCall(target=source_name, args=[way], Tout=types, f=contents)
            if transform:
                for tensor, spec in zip(flat, specs, strict=True):
                    tensor.set_shape(spec.shape)
                flat = transform(flat)
            return boxed(flat)

    copy_there = trace(copy_here, way, tf.TensorSpec([], tf.string))

    def copy(way, source_name):
        (moved,) = tf.raw_ops.RemoteCall(
            target=there,
            args=[way, source_name, *copy_there.captured_inputs],
            Tout=[tf.resource],
            f=copy_there,
        )
        return moved

    return copy
