"""Records what a checkpoint needs about an iterator, on the host and on the data device."""

import dataclasses
import functools
from collections.abc import Sequence

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
    # The values of the variables that the front end writes to, those of each data device.
    front_ends: list[list[tf.Tensor]]
    turn: int = 0  # the number of the data device that prepares the first batch


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
        front_ends: Sequence[FrontEndState] = (),
        turns: int = 1,
        writes_are_shared: bool = False,
    ):
        """
        Args:
          front_ends: for each data device, if the front end writes to variables.
          turns: the number of data devices that take the batches in turns.
          writes_are_shared: whether several data devices write to the same variable.
        """
        policy = options.experimental_external_state_policy if options else None
        self.policy = policy or _POLICY.FAIL
        self.front_ends, self.turns = front_ends, turns
        self.writes_are_shared = writes_are_shared
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
        self._given_values = given.front_ends if given else None
        self.is_restored = given is not None
        self.turn = given.turn if given else 0
        self._host: HostRecord | None = None
        self._shelves: list[tf.Tensor] = []

    def new_shelves(self) -> list[tf.Tensor]:
        """The shelves of the front end's variables on each data device, if it writes to any."""
        values = self._given_values or [None] * len(self._recorder.front_ends)
        self._shelves = [
            state.new_shelf(given)
            for state, given in zip(self._recorder.front_ends, values, strict=True)
        ]
        self._given_values = None
        return self._shelves

    def followed(self, host: tf.data.Iterator) -> tf.data.Iterator:
        """The iterator to draw from in place of the host's."""
        dataset = self.batches_of(host)
        with tf.device(self._recorder.host.device):
            return iter(dataset)

    def batches_of(self, host: tf.data.Iterator) -> tf.data.Dataset:
        """The same as a dataset, which can be iterated once."""
        given, self._given = self._given, None
        state = given.host if given else HostState(None, [])
        self._host = HostRecord(self._recorder.host, host, state)
        return self._host.dataset

    def state_after(self, consumed: int) -> IteratorState:
        host = self._host.state_after(consumed)
        states, turns = self._recorder.front_ends, self._recorder.turns
        if len(states) > 1 and host.failed:
            raise ValueError(
                "the iterator cannot be saved: a batch failed on the host, and since then it is "
                "not known which of several data devices prepared which batch; put "
                "ignore_errors() into the pipeline, or make the iterator anew"
            )
        values = []
        for place, (state, shelf) in enumerate(zip(states, self._shelves, strict=True)):
            # How many of the batches that were consumed this device has prepared.
            before = (place - self.turn) % turns
            values.append(state.values_before((host.first - before + turns - 1) // turns, shelf))
        return IteratorState(host, values, turn=(self.turn + host.first) % turns)

    def stop(self) -> None:
        self._host.stop()
