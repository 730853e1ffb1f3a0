"""For `slots="auto"`: an epoch with COPYING slots shows whether they pay (`host_copies.py`).

They may where the data device is what limits, because without them it copies and prepares in turns.
How long it copies is not known before: a copy waits for the front end of the batch before.  If the
batches of the trial came faster, the slots stay for good, otherwise they go for good.
"""

import enum
from collections.abc import Sequence

from absl import logging

from dual_device_strategy.copies import AT_ONCE
from dual_device_strategy.devices import free_memory, total_memory

SLOTS = 4 + AT_ONCE
# The data device limits if its own work fills so much of the time from batch to batch.
LIMITS = 0.8
# So much faster must batches come; the times of epochs vary.
WORTH = 0.03


class State(enum.Enum):
    POSSIBLE, UNDER_WAY, KEPT, OVER = range(4)


class CopyTrial:
    """The trial of one dataset.

    `host_bytes` is the size of the host's batches, None if it varies; `allowed` says whether they
    could be copied ahead.
    """

    def __init__(self, data_devices: Sequence[str], host_bytes: int | None, allowed: bool):
        self._devices, self._host_bytes = tuple(data_devices), host_bytes
        self._state = State.POSSIBLE if allowed else State.OVER
        self._before = 0.0

    @property
    def copying(self) -> bool:
        """Whether the epoch that begins now has COPYING slots."""
        return self._state in (State.UNDER_WAY, State.KEPT)

    def consider(self, busy_ms: float | None, batch_ms: float | None) -> None:
        """Begins the trial if the data device limited the epoch that is over.

        It was busy for `busy_ms` with each batch, and they came every `batch_ms`; None is unknown.
        """
        if self._state is not State.POSSIBLE or not busy_ms or not batch_ms:
            return
        if busy_ms >= LIMITS * batch_ms and self._fits():
            self._state, self._before = State.UNDER_WAY, batch_ms
            logging.info("slots: %d in this epoch, two of them for copies from the host", SLOTS)

    def judge(self, batch_ms: float | None) -> None:
        """Ends the trial after an epoch whose batches came every `batch_ms`."""
        if self._state is not State.UNDER_WAY or not batch_ms:
            return
        pays = batch_ms <= (1 - WORTH) * self._before
        self._state = State.KEPT if pays else State.OVER
        logging.info(
            "slots: a batch every %.1f ms with copies from the host ahead, %.1f without; %s",
            batch_ms,
            self._before,
            f"{SLOTS} slots stay" if pays else "so no slots are for them",
        )

    def _fits(self) -> bool:
        """Whether each data device has room for the batches, as far as that is known."""
        return all(map(self._has_room, self._devices))

    def _has_room(self, device: str) -> bool:
        free, total = free_memory(device), total_memory(device)
        if free is None or total is None:
            return True
        if self._host_bytes is None:  # what was used so far had a batch, and more
            return free >= total / 2
        return free >= (AT_ONCE + 1) * self._host_bytes
