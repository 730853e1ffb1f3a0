"""Which stage keeps training waiting, and the one setting most likely to help."""

import dataclasses

HOST, FRONT_END, TRANSFER, JITTER, STEP, PIPELINE = (
    "the host pipeline",
    "the front end on the data device",
    "the transfer to the model device",
    "the unevenness of the stages",
    "the step itself",
    "the input pipeline",
)
SETTINGS = {
    HOST: "give the dataset's map() num_parallel_calls=tf.data.AUTOTUNE",
    FRONT_END: "move a part of what on_data_device() is given into a map() before it, on the host",
    TRANSFER: "let what on_data_device() is given end with a cast to float16, which halves a batch",
    JITTER: 'DataModelSplitStrategy(..., slots="auto")',
    STEP: "batch clips of similar length together (Dataset.bucket_by_sequence_length)",
    PIPELINE: "DataModelSplitStrategy, which can tell which part of it is slow",
}
LARGEST_VARIATION = 0.30
LARGEST_WAIT_SHARE = 0.10


@dataclasses.dataclass(frozen=True)
class Warning:
    """Something to tell the user; once for the same cause."""

    cause: str
    text: str


def slow_stage(
    *,
    empty_share: float | None,
    host_wait_share: float | None,
    data_busy: float | None,
) -> str | None:
    """The stage that training waits for, None if that cannot be told yet.

    It is the last one that does not itself wait for the one before.

    Args:
      empty_share: how often no batch was READY when the step asked; None if seen too seldom.
      host_wait_share: share of the time that the data device waited for the host pipeline.
      data_busy: busy share of the data device, where it is known.
    """
    if host_wait_share is None:
        return PIPELINE
    if empty_share is None:
        return None
    # A stage that is too slow on average leaves nothing READY nearly every time.
    if empty_share < 0.7:
        return JITTER
    if host_wait_share > 0.1:
        return HOST
    # The data device's work is asynchronous: where it is not at work, its results are on their way.
    return TRANSFER if data_busy is not None and data_busy < 0.3 else FRONT_END


def warnings(recent: dict, stage: str | None) -> list[Warning]:
    """What the latest steps (`StepTimes.recent`) give reason to warn of."""
    found = []
    wait_share, variation = recent["wait_share"], recent["variation"]
    if stage is not None and wait_share is not None and wait_share > LARGEST_WAIT_SHARE:
        found.append(
            Warning(
                stage,
                f"{wait_share:.0%} of the time is spent waiting for batches, because of {stage}: "
                f"{SETTINGS[stage]}",
            )
        )
    if variation > LARGEST_VARIATION:
        varies = STEP
        if (recent["wait_std_ms"] or 0) > 0.5 * recent["std_ms"]:
            varies = stage
        if varies is not None:
            found.append(
                Warning(
                    varies,
                    f"step times vary by {variation:.0%} of their mean, because of {varies}: "
                    f"{SETTINGS[varies]}",
                )
            )
    return found
