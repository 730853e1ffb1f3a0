"""The part of an iterator that `tf.train.Checkpoint` uses."""

import json
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.checkpoints import compat as saving_compat
from dual_device_strategy.checkpoints import pipelines
from dual_device_strategy.checkpoints.host_record import HostState
from dual_device_strategy.checkpoints.iterator_record import (
    IteratorRecord,
    IteratorState,
)
from dual_device_strategy.front_end import FrontEnd
from dual_device_strategy.together import note_turn

_VERSION = 1
_POSITION, _IN_FLIGHT, _FRONT_END = "POSITION", "IN_FLIGHT", "FRONT_END"
_HOST, _NEXT = "HOST", "NEXT_EPOCH"
TYPES = {
    **dict.fromkeys((_POSITION, _IN_FLIGHT, _FRONT_END), tf.string),
    **dict.fromkeys((_HOST, _NEXT), tf.variant),
}  # of what a checkpoint has of an iterator


class Place:
    """Where one iterator is in its batches, how to save it, and how to go there.

    `iterator`, from `staging` over `host`, is the same object after a restore: whatever holds it
    goes on with it, a tf.function that has captured it as well.
    """

    def __init__(
        self,
        staging,
        host: tf.data.Dataset,
        front_end: FrontEnd | None,
        iterator: tf.data.Iterator,
        record: IteratorRecord,
    ):
        self._staging, self._host, self._front_end = staging, host, front_end
        self._recorder, self._slots = staging.recorder, (staging.ready_slots, staging.copying)
        self._before = 0  # batches consumed before the newest restore
        self._iterator = iterator
        self._record = record  # the last to go, after all that draws from it

    def _pipeline(self) -> list[str]:
        recorder = self._recorder
        pipelines.refuse_hidden_state(self._front_end, recorder.policy, recorder.writes_are_shared)
        return pipelines.described(self._host, self._front_end)

    def snapshot(self, consumed: int) -> dict[str, tf.Tensor]:
        """Everything that a checkpoint of the iterator has."""
        pipeline = self._pipeline()
        try:
            state = self._record.state_after(consumed)
        except tf.errors.FailedPreconditionError as error:
            raise tf.errors.FailedPreconditionError(
                error.node_def,
                error.op,
                "the iterator cannot be saved: its host pipeline has state that tf.data cannot "
                f"save ({error.message.splitlines()[0]}); use stateless ops and datasets of files "
                "in place of random ops, Python functions and generators, or set "
                "experimental_external_state_policy of the dataset's tf.data.Options to IGNORE",
            ) from None
        following = state.host.next_epoch
        position = {
            "version": _VERSION,
            "pipeline": pipeline,
            "consumed": self._before + consumed,
            "in_flight": len(state.host.in_flight),
            "has_ended": following is not None,
            "turn": state.turn,
        }
        with tf.device("CPU:0"):
            return {
                _POSITION: tf.constant(json.dumps(position)),
                _HOST: state.host.iterator,
                _NEXT: state.host.iterator[:0] if following is None else following,
                _IN_FLIGHT: _written([t for flat in state.host.in_flight for t in flat]),
                _FRONT_END: _written([value for each in state.front_ends for value in each]),
            }

    def restore(self, saved: dict[str, tf.Tensor]) -> None:
        """Goes to where the saved iterator was."""
        position = _position(saved, workers=1)
        pipeline = self._pipeline()
        if different := pipelines.difference(position["pipeline"], pipeline):
            raise ValueError(
                "the checkpoint's iterator is of another pipeline and was not restored: "
                f"{different}; make the iterator from the same dataset as when it was saved"
            )
        types = compat.flat_types(self._recorder.spec)
        count = position["in_flight"]
        with tf.device("CPU:0"):
            flat = _read(saved[_IN_FLIGHT], types * count)
            in_flight = [flat[at : at + len(types)] for at in range(0, len(flat), len(types))]
            values = self._front_ends_of(saved[_FRONT_END])
        following = saved[_NEXT] if position["has_ended"] else None
        self._record.stop()
        self._drain()
        host = HostState(saved[_HOST], in_flight, next_epoch=following)
        state = IteratorState(host, values, turn=position.get("turn", 0) % self._recorder.turns)
        self._record = IteratorRecord(self._recorder, state)
        self._staging.change_slots(*self._slots)
        self._staging.iterator_over(self._host, self._record, again=self._iterator)
        self._before = position["consumed"]

    def _front_ends_of(self, saved: tf.Tensor) -> list[list[tf.Tensor]]:
        """The values of the variables that the front end writes to, those of each data device."""
        types = [state.dtypes for state in self._recorder.front_ends]
        if len(saved) != (here := sum(map(len, types))):
            raise ValueError(
                f"the checkpoint's iterator has {len(saved)} values of variables that the function "
                f"of on_data_device() writes to, and here are {here}, so it was not restored; name "
                "as many data devices as when it was saved, or restore the model without it"
            )
        flat = iter(_read(saved, [kind for each in types for kind in each]))
        return [[next(flat) for _ in each] for each in types]

    def _drain(self) -> None:
        """Takes and drops what is on its way, so that no front end is at work any more."""
        while True:
            try:
                compat.take_next(self._iterator, "")
            except tf.errors.OutOfRangeError:
                return
            except tf.errors.OpError:
                continue


class WorkersPlace(Place):
    """Where one of several workers' iterators is; what is saved has the places of all of them.

    All workers save at the same step, as they do with variables.  Each tells the others where it
    is, so all can go on from the checkpoint of any one.
    """

    def __init__(
        self,
        *place,
        index: int,
        count: int,
        exchange: Callable[[bytes], list[bytes]],
        **named,
    ):
        """`exchange` returns what all workers gave to it, in their order."""
        super().__init__(*place, **named)
        self._index, self._count, self._exchange = index, count, exchange

    def snapshot(self, consumed: int) -> dict[str, tf.Tensor]:
        own = super().snapshot(consumed)
        with tf.device("CPU:0"):
            packed = tf.io.serialize_tensor(_written([own[name] for name in TYPES]))
            position = {"version": _VERSION, "workers": self._count}
            return {
                _POSITION: tf.constant(json.dumps(position)),
                _IN_FLIGHT: tf.constant(self._exchange(packed.numpy())),
                **{name: own[name][:0] for name in (_HOST, _NEXT, _FRONT_END)},
            }

    def restore(self, saved: dict[str, tf.Tensor]) -> None:
        _position(saved, workers=self._count)
        with tf.device("CPU:0"):
            parts = tf.io.parse_tensor(saved[_IN_FLIGHT][self._index], tf.string)
            own = _read(tf.unstack(parts), list(TYPES.values()))
        super().restore(dict(zip(TYPES, own, strict=True)))


def _position(saved: dict[str, tf.Tensor], workers: int) -> dict[str, object]:
    """What the checkpoint says of itself, if an iterator of that many workers can read it."""
    position = json.loads(saved[_POSITION].numpy())
    if position["version"] != _VERSION:
        raise ValueError(
            f"the checkpoint's iterator has format {position['version']}, this "
            f"dual_device_strategy reads {_VERSION}; restore it with the version that wrote it"
        )
    if (there := position.get("workers", 1)) != workers:
        raise ValueError(
            f"the checkpoint's iterator is of {there} worker{'s' * (there > 1)}, each with its "
            f"part of the batches, and was not restored on {workers}; start as many as when it was "
            "saved, or restore the model without the iterator"
        )
    return position


def new_count(device: str) -> tf.Tensor:
    """The handle of a new variable to count in."""
    with tf.device(device):
        count = compat.anonymous_variable(tf.int64)
        zero = tf.constant(0, tf.int64)
        placed = tf.raw_ops.AssignVariableOp(resource=count, value=zero)
        with tf.control_dependencies([placed] if placed else []):
            return tf.identity(count)


def _written(tensors: list[tf.Tensor]) -> tf.Tensor:
    texts = [tf.io.serialize_tensor(tensor) for tensor in tensors]
    return tf.stack(texts) if texts else tf.zeros([0], tf.string)


def _read(texts: tf.Tensor, types: list[tf.DType]) -> list[tf.Tensor]:
    return [tf.io.parse_tensor(text, kind) for text, kind in zip(texts, types, strict=True)]


class SavedIterator(saving_compat.Trackable):
    """An iterator that counts what is taken from it, and can be in a `tf.train.Checkpoint`.

    `place` is None where it cannot be saved: in a tf.function.  `taken_in_graphs` is the handle of
    a variable on the host, which counts where the iterator is an argument of a function or
    captured by one; eagerly Python counts.
    """

    place: Place | None = None
    cannot_be_saved = "save it where it was made, outside of tf.function"
    taken_in_graphs: tf.Tensor | None = None
    _taken = 0

    def count_taken(self, host: str) -> list[tf.Operation]:
        """Counts a batch that is about to be taken; in a graph, what has to be done before.

        Before, because an error and the end are counted too: see `host_record.py`.
        """
        if tf.executing_eagerly():
            self._taken += 1
            return []
        note_turn()
        with tf.device(host):
            one = tf.constant(1, tf.int64)
            return [tf.raw_ops.AssignAddVariableOp(resource=self.taken_in_graphs, value=one)]

    def _consumed(self) -> int:
        in_graphs = tf.raw_ops.ReadVariableOp(resource=self.taken_in_graphs, dtype=tf.int64)
        return self._taken + int(in_graphs)

    def _serialize_to_tensors(self):
        # Asked for also before a restore, which wants the names only.
        snapshot = {}

        def part(name):
            if not snapshot:
                if self.place is None:
                    raise ValueError(f"the iterator cannot be saved: {self.cannot_be_saved}")
                snapshot.update(self.place.snapshot(self._consumed()))
            return snapshot[name]

        return {
            name: saving_compat.saved_later(lambda name=name: part(name), dtype)
            for name, dtype in TYPES.items()
        }

    def _restore_from_tensors(self, restored_tensors):
        self.place.restore(restored_tensors)
        self._taken = 0
        zero = tf.constant(0, tf.int64)
        tf.raw_ops.AssignVariableOp(resource=self.taken_in_graphs, value=zero)
