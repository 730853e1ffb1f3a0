"""How often a loop reads its loss, which decides how far the host runs ahead of the devices.

A loop that reads the loss of every step waits for each step.  A loop that reads it now and then, or
runs many steps inside a `tf.function`, queues the next step before this one has ended.  Only such a
loop keeps the devices busy all the time, and its copies compete with other work.  `step_times` runs
a loop of either kind and returns the times of its steps.
"""

import enum
import time
from collections.abc import Callable

import tensorflow as tf

TENTH = 10


class Reading(enum.Enum):
    """How often the loss is read."""

    EVERY_STEP = "every_step"
    EVERY_TENTH = "every_tenth"
    ONE_FUNCTION = "one_function"

    @property
    def words(self) -> str:
        return _WORDS[self]

    @property
    def runs_ahead(self) -> bool:
        return self is not Reading.EVERY_STEP


_WORDS = {
    Reading.EVERY_STEP: "read on every step",
    Reading.EVERY_TENTH: "read every tenth",
    Reading.ONE_FUNCTION: "in one function",
}


def parsed(texts: list[str]) -> tuple[Reading, ...]:
    """The readings that a flag names, without repetitions."""
    names = [reading.value for reading in Reading]
    for text in texts:
        if text not in names:
            raise ValueError(
                f"--reading={','.join(texts)}: {text!r} is not one of {', '.join(names)}"
            )
    if not texts:
        raise ValueError(f"--reading names nothing: give one or more of {', '.join(names)}")
    return tuple(Reading(text) for text in dict.fromkeys(texts))


def step_times(
    next_batch: Callable[[], object],
    step: Callable[[object], object],
    *,
    steps: int,
    reading: Reading,
    warm: int = TENTH,
) -> list[float]:
    """The milliseconds of a step, after `warm` steps that are not counted.

    One figure for each reading: a mean of ten steps where every tenth is read, of all where they
    run in one function.
    """
    if reading is Reading.ONE_FUNCTION:
        return [_in_one_function(next_batch, step, steps, warm)]
    every = 1 if reading is Reading.EVERY_STEP else TENTH
    times = []
    _run(next_batch, step, warm)
    for _ in range(max(1, steps // every)):
        begin = time.perf_counter()
        _run(next_batch, step, every)
        times.append(1e3 * (time.perf_counter() - begin) / every)
    return times


def _run(next_batch, step, count):
    """Runs `count` steps, and reads the loss of the last one."""
    loss = None
    for _ in range(count):
        loss = step(next_batch())
    if loss is not None:
        read(loss)


def _in_one_function(next_batch, step, steps, warm):
    @tf.function
    def run(count):
        loss = step(next_batch())
        for _ in tf.range(count - 1):
            loss = step(next_batch())
        return loss

    for count in (max(1, warm), steps):  # the first one traces
        begin = time.perf_counter()
        read(run(tf.constant(count)))
        took = 1e3 * (time.perf_counter() - begin) / count
    return took


def read(result) -> None:
    """Waits for a step by reading what it returned, as a loop that prints its loss does."""
    if isinstance(result, tf.distribute.DistributedValues):
        for of_replica in result.values:
            read(of_replica)
        return
    for tensor in tf.nest.flatten(result, expand_composites=True):
        if tf.is_tensor(tensor):
            tensor.numpy()
            return
