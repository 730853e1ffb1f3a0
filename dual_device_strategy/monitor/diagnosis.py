"""What keeps training waiting, and the one setting most likely to help."""

import dataclasses
from collections.abc import Hashable

from absl import logging

HOST, FRONT_END, TRANSFER, JITTER, STEP, PIPELINE = (
    "the host pipeline",
    "the front end on the data device",
    "the transfer to the model device",
    "the unevenness of the pipeline",
    "the step itself",
    "the input pipeline",
)
SETTINGS = {
    HOST: "give the dataset's map() num_parallel_calls=tf.data.AUTOTUNE",
    FRONT_END: "move some of the on_data_device() function into a map() before it, on the host",
    TRANSFER: "end the on_data_device() function with a cast to float16, which halves a batch",
    JITTER: 'use DataModelSplitStrategy(..., slots="auto")',
    STEP: "batch elements of similar length together (Dataset.bucket_by_sequence_length)",
    PIPELINE: "use DataModelSplitStrategy, which shows which part is slow",
}
LARGEST_VARIATION = 0.30
LARGEST_WAIT_SHARE = 0.10


@dataclasses.dataclass(frozen=True)
class Warning:
    """A warning and its cause."""

    cause: str
    text: str


class Warnings:
    """The warnings of a run; each is logged once, however often its cause is found."""

    def __init__(self):
        self.texts: list[str] = []
        self._causes = set()

    def add(self, cause: Hashable, text: str) -> None:
        if cause not in self._causes:
            self._causes.add(cause)
            self.texts.append(text)
            logging.warning("Monitor: %s", text)


def slow_part(
    *,
    empty_share: float | None,
    host_wait_share: float | None,
    data_busy: float | None,
) -> str | None:
    """The part of the pipeline that training waits for; None if unknown yet.

    It is the last part that does not itself wait for the one before it.

    Args:
      empty_share: how often no batch was READY when the step asked; None if unknown.
      host_wait_share: share of the time in which the data device waited for the host pipeline;
        None if unknown.
      data_busy: busy share of the data device; None if unknown.
    """
    if host_wait_share is None:
        return PIPELINE
    if empty_share is None:
        return None
    # A part that is too slow on average leaves nothing READY nearly every time.
    if empty_share < 0.7:
        return JITTER
    if host_wait_share > 0.1:
        return HOST
    # The data device works asynchronously: while it is idle, its results are in transit.
    return TRANSFER if data_busy is not None and data_busy < 0.3 else FRONT_END


def warnings(recent: dict, part: str | None) -> list[Warning]:
    """The warnings that the latest steps (`StepTimes.recent`) call for."""
    found = []
    wait_share, variation = recent["wait_share"], recent["variation"]
    if part is not None and wait_share is not None and wait_share > LARGEST_WAIT_SHARE:
        found.append(
            Warning(
                part,
                f"{wait_share:.0%} of the time is spent waiting for batches, because of {part}: "
                f"{SETTINGS[part]}",
            )
        )
    if variation > LARGEST_VARIATION:
        varies = STEP
        if (recent["wait_std_ms"] or 0) > 0.5 * recent["std_ms"]:
            varies = part
        if varies is not None:
            found.append(
                Warning(
                    varies,
                    f"step times vary by {variation:.0%} of their mean, because of {varies}: "
                    f"{SETTINGS[varies]}",
                )
            )
    return found
