"""Records the batches that the host pipeline has handed out and the loop has not consumed yet.

    host's iterator  ->  HostRecord  ->  first hop

The record stands between the host's iterator and the first hop.  It keeps the latest batches by
reference, as Optionals in a variable on the host: nothing is copied.  A save takes the state of
the host's iterator, and the kept batches that were not consumed.  A lock keeps the two consistent:
a batch is taken and kept, or the state is saved, never both at the same time.

Every attempt to take a batch has a number, even if it fails, because the loop gets an error instead
of that batch.  So the loop only has to count its requests.
"""

import dataclasses
import functools
import itertools
import weakref

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.checkpoints import seeds
from dual_device_strategy.hop import hop_options
from dual_device_strategy.hop_functions import number_back, number_zero, trace, traced_once

_RESOURCE = tf.TensorSpec([], tf.resource)
_KEPT = [tf.int64, tf.int64, tf.variant]  # number of the attempt, index of the batch, the batch
# TensorFlow keeps every lock, and a kernel for its name, until the process ends: they are reused.
_lock_numbers, _free_locks = itertools.count(), []


@dataclasses.dataclass
class HostState:
    """The host's part of a checkpoint."""

    iterator: tf.Tensor | None  # tf.data's own state of the host's iterator
    in_flight: list[list[tf.Tensor]]  # batches that it had handed out, flat, the oldest first
    first: int | None = None  # index of the first of them; if there is none, of the next batch
    next_epoch: tf.Tensor | None = None  # the state of the next iterator, if needed
    failed: int = 0  # how many attempts to take a batch have failed


@dataclasses.dataclass
class NextEpoch:
    """Where the next iterator of a distributed dataset begins, if a save had to make it."""

    state: tf.Tensor | None = None
    draws_seeds: bool = True  # as far as is known


class HostRecorder:
    """Makes the records of one distributed dataset, whose functions are traced once.

    `places` is the number of batches that a record keeps: as many as can be beyond the host.
    `policy` is tf.data's policy for state outside of the pipeline.
    """

    def __init__(self, spec, device: str, *, places: int, policy, next_epoch: NextEpoch):
        self.spec, self.device, self._places, self._policy = spec, device, places, policy
        self.next_epoch = next_epoch
        self._types, self._shapes = compat.flat_types(spec), compat.flat_shapes(spec)
        begun = tf.TensorSpec([], tf.int64)
        self._take = trace(self._taken, begun, *[_RESOURCE] * 4)

    @functools.cached_property
    def _save(self):
        with tf.init_scope():
            return trace(lambda *record: self._saved(self._policy, *record), *[_RESOURCE] * 4)

    def _taken(self, begun, iterator, asked, shelf, lock):
        """The host's next batch; the shelf has it in its first place then."""
        del begun
        held = tf.raw_ops.MutexLock(mutex=lock)
        with tf.control_dependencies([held]):
            number = tf.raw_ops.ReadVariableOp(resource=asked, dtype=tf.int64)
            counted = tf.raw_ops.AssignVariableOp(resource=asked, value=number + 1)
        with tf.control_dependencies([counted]):
            batch = tf.raw_ops.IteratorGetNextAsOptional(
                iterator=iterator, output_types=self._types, output_shapes=self._shapes
            )
        kept = self._unpacked(tf.raw_ops.ReadVariableOp(resource=shelf, dtype=tf.variant))
        kept = [number, kept[1] + 1, batch, *kept[: -len(_KEPT)]]
        placed = tf.raw_ops.AssignVariableOp(
            resource=shelf, value=tf.raw_ops.OptionalFromValue(components=kept)
        )
        with tf.control_dependencies([placed]):
            there = tf.raw_ops.OptionalHasValue(optional=batch)
            released = tf.raw_ops.ConsumeMutexLock(mutex_lock=held)
        with tf.control_dependencies([released]):
            return tf.cond(
                there,
                lambda: self._contents(batch),
                lambda: tf.raw_ops.IteratorGetNext(  # raises the end of the sequence
                    iterator=iterator, output_types=self._types, output_shapes=self._shapes
                ),
            )

    def _saved(self, policy, iterator, asked, shelf, lock):
        held = tf.raw_ops.MutexLock(mutex=lock)
        with tf.control_dependencies([held]):
            state = tf.raw_ops.SerializeIterator(
                resource_handle=iterator, external_state_policy=policy.value
            )
            number = tf.raw_ops.ReadVariableOp(resource=asked, dtype=tf.int64)
            kept = tf.raw_ops.ReadVariableOp(resource=shelf, dtype=tf.variant)
        with tf.control_dependencies([state, number, kept]):
            tf.raw_ops.ConsumeMutexLock(mutex_lock=held)
        return [state, number, *self._unpacked(kept)]

    def _contents(self, batch) -> list[tf.Tensor]:
        return tf.raw_ops.OptionalGetValue(
            optional=batch, output_types=self._types, output_shapes=self._shapes
        )

    def _unpacked(self, kept) -> list[tf.Tensor]:
        return tf.raw_ops.OptionalGetValue(
            optional=kept,
            output_types=_KEPT * self._places,
            output_shapes=[[]] * (len(_KEPT) * self._places),
        )

    def _shelf_with(self, in_flight) -> tf.Tensor:
        places = []
        for index in reversed(range(len(in_flight))):
            number = tf.constant(index, tf.int64)
            batch = tf.raw_ops.OptionalFromValue(components=in_flight[index])
            places += [number, number, batch]
        empty = [tf.constant(-1, tf.int64), tf.constant(-1, tf.int64), tf.raw_ops.OptionalNone()]
        places += empty * (self._places - len(in_flight))
        return tf.raw_ops.OptionalFromValue(components=places)


class HostRecord:
    """The record of one iterator of the host; `dataset` is iterated once, in place of it.

    With a state that was saved, the host's iterator goes on from there, and the batches that were
    in flight come first.  Where the host's state no longer holds what the order of the next epoch
    is drawn from, the begin of the next epoch is saved as well: see `seeds.py`.
    """

    def __init__(self, recorder: HostRecorder, host: tf.data.Iterator, given: HostState):
        self._recorder = recorder
        with tf.device(recorder.device):
            self._host = compat.resource_of(host)
            state = given.iterator
            if state is None and tf.executing_eagerly():
                state, recorder.next_epoch.state = recorder.next_epoch.state, None
            elif state is not None:
                recorder.next_epoch.state = given.next_epoch
            if state is not None:
                tf.raw_ops.DeserializeIterator(resource_handle=self._host, serialized=state)
            self._asked = compat.anonymous_variable(tf.int64)
            self._shelf = compat.anonymous_variable(tf.variant)
            asked = tf.constant(len(given.in_flight), tf.int64)
            tf.raw_ops.AssignVariableOp(resource=self._asked, value=asked)
            tf.raw_ops.AssignVariableOp(
                resource=self._shelf, value=recorder._shelf_with(given.in_flight)
            )
            self._lock = _free_locks.pop() if _free_locks else _new_lock()
            dataset = self._dataset_after(given.in_flight)
            self.dataset = dataset.with_options(hop_options(False))
        self._host_iterator = host
        # No ops here: this may run inside the tracing of a function, with its graph locked.
        weakref.finalize(self, _free_locks.append, self._lock)

    def _dataset_after(self, in_flight) -> tf.data.Dataset:
        recorder = self._recorder
        kinds = {"output_types": recorder._types, "output_shapes": recorder._shapes}
        variant = tf.raw_ops.GeneratorDataset(
            init_func_other_args=[],
            next_func_other_args=[self._host, self._asked, self._shelf, self._lock],
            finalize_func_other_args=[],
            init_func=number_zero(),
            next_func=recorder._take,
            finalize_func=number_back(),
            **kinds,
        )
        for flat in reversed(in_flight):
            before = tf.raw_ops.TensorDataset(
                components=flat, output_shapes=[tensor.shape for tensor in flat]
            )
            variant = tf.raw_ops.ConcatenateDataset(
                input_dataset=before, another_dataset=variant, **kinds
            )
        return compat.dataset_of(variant, recorder.spec)

    def stop(self) -> None:
        """Ends the batches of the host, and returns when none is being taken any more."""
        with tf.device(self._recorder.device):
            dataset = compat.dataset_iterated_by(self._host_iterator)
            compat.made_again(self._host_iterator, dataset.take(0))
            _waiter()(self._lock)

    def state_after(self, consumed: int) -> HostState:
        """The state to go on from when the loop has asked for `consumed` batches."""
        recorder = self._recorder
        state, asked, *places = recorder._save(self._host, self._asked, self._shelf, self._lock)
        kept = {}
        for at in range(0, len(places), len(_KEPT)):
            number, index, batch = places[at : at + len(_KEPT)]
            if int(number) >= 0:
                kept[int(number)] = int(index), batch
        batches = int(places[1]) + 1
        result = HostState(state, [], first=batches, failed=int(asked) - batches)
        for number in range(consumed, int(asked)):
            if number not in kept:
                raise ValueError(
                    f"batch {number} of this iterator, which is on its way to the loop, failed on "
                    "the host; take it first, which raises its error, or save before"
                )
            index, batch = kept[number]
            if not tf.raw_ops.OptionalHasValue(optional=batch):  # the end
                break
            if not result.in_flight:
                result.first = index
            with tf.device(recorder.device):
                result.in_flight.append(recorder._contents(batch))
        if recorder.next_epoch.draws_seeds and seeds.are_gone(state):
            result.next_epoch = self._next_epoch()
        return result

    def _next_epoch(self) -> tf.Tensor | None:
        """The state of the host's next iterator, which begins there in this process as well."""
        recorder, found = self._recorder, self._recorder.next_epoch
        if found.state is None:
            with tf.device(recorder.device):
                following = iter(compat.dataset_iterated_by(self._host_iterator))
                state = tf.raw_ops.SerializeIterator(
                    resource_handle=compat.resource_of(following),
                    external_state_policy=recorder._policy.value,
                )
                found.draws_seeds = seeds.hold_seeds(state)
                found.state = state if found.draws_seeds else None
        return found.state


def _new_lock() -> tf.Tensor:
    name = f"dual_device_strategy_host_{next(_lock_numbers)}"
    lock = tf.raw_ops.MutexV2(container="", shared_name=name)
    tf.raw_ops.MutexLock(mutex=lock)  # starts its thread now, not in the middle of an epoch
    return lock


@traced_once
def _waiter():
    return trace(_wait_for, _RESOURCE)


def _wait_for(lock):
    tf.raw_ops.ConsumeMutexLock(mutex_lock=tf.raw_ops.MutexLock(mutex=lock))
