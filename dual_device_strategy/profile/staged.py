"""The staged run: all parts together, under the strategy; and its failures in one sentence."""

import contextlib
import dataclasses
import re
import time

import tensorflow as tf

from dual_device_strategy.monitor import Monitor
from dual_device_strategy.readings import TENTH, Reading, read, step_times

# Steps that are not counted: the slots filled up while the first steps were traced, and those
# batches hide the cost of the next ones.
WARM = 10


class ProfileError(Exception):
    """The measurement could not go on; the message says why in a sentence."""


@dataclasses.dataclass
class Staged:
    """The milliseconds of each step, those between two steps, and what the monitor saw."""

    steps: list[float] = dataclasses.field(default_factory=list)
    gaps: list[float] = dataclasses.field(default_factory=list)
    monitor: dict = dataclasses.field(default_factory=dict)


def staged_run(strategy, dataset, step, *, steps: int, into: Staged, feeding=None) -> None:
    """Measures all parts together, over `steps` steps after the first ones.

    `into`, a `Staged` or an object with its fields, is filled as the run goes on.

    `feeding` is the strategy that distributes the dataset, if it is a different one.
    """
    clock, feeding = time.perf_counter, feeding or strategy
    with Monitor(feeding, first_steps=WARM, sample_every=5) as monitor:
        with as_profile_error("the dataset cannot be distributed"):
            distributed = feeding.experimental_distribute_dataset(dataset)
        ended, count = 0.0, 0
        with as_profile_error("the staged run failed"):
            for batch in monitor.batches(distributed):
                got = clock()
                read(strategy.run(step, args=(batch,)))
                now = clock()
                if count > WARM:
                    into.gaps.append(1e3 * (got - ended))
                    into.steps.append(1e3 * (now - ended))
                ended, count = now, count + 1
                if count > steps + WARM:
                    break
            into.monitor = monitor.summary()
            if count <= steps + WARM:
                raise too_short(count, steps + WARM + 1)


def too_short(found: int, wanted: int) -> ProfileError:
    return ProfileError(
        f"the dataset ended after {found} batches and {wanted} are needed: ask for fewer steps "
        "(--num_steps), or repeat() it"
    )


def run_ahead(strategy, dataset, step, *, steps: int, reading: Reading) -> list[float]:
    """The times of steps in a staged loop that runs ahead of its devices."""
    with as_profile_error("the dataset cannot be distributed"):
        iterator = iter(strategy.experimental_distribute_dataset(dataset))
    steps = max(TENTH, steps - steps % TENTH)
    with as_profile_error(f"the staged run, {reading.words}, failed"):
        try:
            return step_times(
                lambda: next(iterator),
                lambda batch: strategy.run(step, args=(batch,)),
                steps=steps,
                reading=reading,
            )
        except (StopIteration, tf.errors.OutOfRangeError):
            raise ProfileError(
                f"the dataset ended before {steps + TENTH} batches, which the loop whose loss is "
                f"{reading.words} needs: ask for fewer steps (--num_steps), leave that loop out "
                "(--reading=every_step), or repeat() the dataset"
            ) from None


@contextlib.contextmanager
def as_profile_error(what: str):
    """Turns an error in the user's functions into one sentence."""
    try:
        yield
    except ProfileError:
        raise
    except Exception as error:
        raise ProfileError(f"{what}: {_one_line(error)}") from error


def _one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    # An error inside a tf.function ends with the user's own words and begins with where it was.
    line = lines[-1] if lines[0] == "in user code:" else lines[0]
    kind = f"{type(error).__name__}: "
    return kind + re.sub(r"\{\{function_node [^}]*\}\} ", "", line.removeprefix(kind))
