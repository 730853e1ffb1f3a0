"""Records what a checkpoint needs about an iterator, on the host and on the data device."""

import dataclasses
import functools

import tensorflow as tf

from dual_device_strategy.checkpoints.front_end_state import FrontEndState
from dual_device_strategy.checkpoints.host_record import (
    HostRecord,
    HostRecorder,
    HostState,
    NextEpoch,
)

_POLICY = tf.data.experimental.ExternalStatePolicy


@dataclasses.dataclass
class IteratorState:
    """Where an iterator is: what comes after the last batch that was consumed."""

    host: HostState
    front_end: list[tf.Tensor]  # the values of the variables that the front end writes to


class IteratorRecorder:
    """Makes the records of one staging; nothing is traced until the first one.

    `next_epoch` is shared by all stagings of a distributed dataset: the next epoch may begin in
    another one than that in which this epoch was saved.
    """

    def __init__(
        self,
        spec,
        device: str,
        *,
        places: int,
        options: tf.data.Options | None,
        front_end: FrontEndState | None,
        takes_turns: bool = False,
    ):
        """`takes_turns` says that several data devices take the batches in turns."""
        policy = options.experimental_external_state_policy if options else None
        self.policy = policy or _POLICY.FAIL
        self.front_end, self.takes_turns = front_end, takes_turns
        self.spec, self.next_epoch = spec, NextEpoch()
        self._device, self._places = device, places

    @functools.cached_property
    def host(self) -> HostRecorder:
        return HostRecorder(
            self.spec,
            self._device,
            places=self._places,
            policy=self.policy,
            next_epoch=self.next_epoch,
        )


class IteratorRecord:
    """The record of one iterator, new or to go on from a state."""

    def __init__(self, recorder: IteratorRecorder, given: IteratorState | None = None):
        self._recorder, self._given = recorder, given
        self._host: HostRecord | None = None
        self._shelf: tf.Tensor | None = None

    def followed(self, host: tf.data.Iterator, *notes: tf.Tensor) -> tf.data.Iterator:
        """The iterator to draw from in place of the host's; `notes` is the front end's shelf."""
        dataset = self.batches_of(host, *notes)
        with tf.device(self._recorder.host.device):
            return iter(dataset)

    def batches_of(self, host: tf.data.Iterator, *notes: tf.Tensor) -> tf.data.Dataset:
        """The same as a dataset, which can be iterated once."""
        given, self._given = self._given, None
        state = given.host if given else HostState(None, [])
        self._host = HostRecord(self._recorder.host, host, state)
        self._shelf = notes[0] if notes else None
        return self._host.dataset

    def given_values(self) -> list[tf.Tensor] | None:
        """What the front end's variables are to be when the first batch is prepared."""
        return self._given.front_end if self._given else None

    def state_after(self, consumed: int) -> IteratorState:
        host = self._host.state_after(consumed)
        values = []
        if self._recorder.front_end:
            values = self._recorder.front_end.values_before(host.first, self._shelf)
        return IteratorState(host, values)

    def stop(self) -> None:
        self._host.stop()
