"""A run whose batches are timed on their way, as a Chrome trace for Perfetto.

Each batch notes when the host began and ended it, when it was on the data device, when its front
end began and was done, and when it was on the model devices; the loop notes when it had the batch
and when the step's result was read.  Nothing is simulated.  Timing costs some tenths of a
millisecond a batch, or 2 ms with COPYING slots, because the data device is waited for twice; so
this is a run of its own.

A copy from the host is shown from when the front end before it was done.  With COPYING slots it is
shown from when it was asked for, or the copy before it was over; it may wait for a front end first.

The file has a row for the host and for each device.  Open it at https://ui.perfetto.dev or in
chrome://tracing.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.devices import short_name
from dual_device_strategy.front_end import on_data_device, split
from dual_device_strategy.preparing_times import CopyTimes
from dual_device_strategy.profile.notes import (
    BEGUN,
    HOST_BEGIN,
    HOST_END,
    PREPARED,
    Moment,
    Notes,
)
from dual_device_strategy.profile.staged import WARM, as_profile_error, too_short
from dual_device_strategy.readings import read

STEPS = 30


@dataclasses.dataclass
class Times:
    """The seconds since the epoch at which each batch was where, by batch."""

    noted: dict[Moment, dict[int, float]]
    copies: dict[int, tuple[float, float]]  # of batches in COPYING slots: asked for, and there
    arrived: dict[int, float]
    got: list[float]
    read: list[float]


def noted_dataset(dataset: tf.data.Dataset, strategy, notes: Notes) -> tf.data.Dataset:
    """`dataset`, whose batches note when they are made, and their front end begins and ends."""
    data_device = strategy.extended.data_device
    host, front_end, spec = split(dataset, data_device)
    host_spec, on_host = host.element_spec, data_device == compat.host_of(data_device)
    note_there = notes.here if on_host else notes.once_there

    def noting(moment):
        def note(number):
            with tf.control_dependencies([notes.here(moment, number, [])]):
                return tf.identity(number)

        return tf.data.Dataset.counter().map(note)

    def prepared(number, batch, _):
        flat = compat.to_flat(host_spec, batch)
        with tf.control_dependencies([note_there(BEGUN, number, flat)]):
            flat = [tf.identity(tensor) for tensor in flat]
        made = front_end(flat) if front_end else flat
        with tf.control_dependencies([note_there(PREPARED, number, made)]):
            return compat.from_flat(spec, [tf.identity(tensor) for tensor in made])

    # The parts of a zip are taken one after the other.
    timed = tf.data.Dataset.zip((noting(HOST_BEGIN), host, noting(HOST_END)))
    return timed.apply(on_data_device(prepared))


def traced_run(strategy, dataset: tf.data.Dataset, step: Callable) -> Times:
    """Runs some steps, reading the result of each; the times of those after the first ones."""
    extended = strategy.extended
    host = compat.host_of(extended.data_device)
    notes, copy_times = Notes(host), [CopyTimes(host) for _ in extended.data_devices]
    got, done = [], []
    with extended.running_input.timed(copy_times), as_profile_error("the traced run failed"):
        iterator = iter(
            strategy.experimental_distribute_dataset(noted_dataset(dataset, strategy, notes))
        )
        arrived_before = iterator.counts.arrived_now() - iterator.arrivals()
        for _ in range(STEPS + WARM):
            batch = next(iterator, None)
            if batch is None:
                raise too_short(len(got), STEPS + WARM)
            got.append(time.time())
            read(strategy.run(step, args=(batch,)))
            done.append(time.time())
        times = iterator.counts.times.numpy()
        arrived = {i: float(times[(arrived_before + i) % len(times)]) for i in range(len(got))}
    copies = _copies(copy_times, len(got)) if extended.running_input.copying else {}
    return Times(noted=notes.all(), copies=copies, arrived=arrived, got=got, read=done)


def _copies(times: list[CopyTimes], count: int) -> dict[int, tuple[float, float]]:
    """When each of the first `count` batches was asked for, and was there; devices take turns."""
    batches, found = np.arange(count), {}
    for place, its_times in enumerate(times):
        its = batches[batches % len(times) == place]
        asked_and_there = np.transpose(its_times.since(0, its // len(times))).tolist()
        found.update(zip(its.tolist(), map(tuple, asked_and_there), strict=True))
    return found


def events(times: Times, data_devices, model_devices) -> list[dict]:
    """The trace events, in microseconds since the first of the batches shown."""
    shown = range(WARM, len(times.got))
    noted, data = times.noted, len(data_devices)
    lanes = ["host", *(f"data device {short_name(d)}" for d in data_devices)]
    lanes += [f"model device {short_name(d)}" for d in model_devices]
    rows = _Rows(lanes, min(noted[HOST_BEGIN].get(i, times.got[i]) for i in shown))
    for i in shown:
        made, begun, prepared = (noted[m].get(i) for m in (HOST_END, BEGUN, PREPARED))
        rows.add(0, "host pipeline", i, begin=noted[HOST_BEGIN].get(i), end=made)
        lane = 1 + i % data
        if made is not None:
            if i in times.copies:
                asked, copied = times.copies[i]
                free = max(asked, times.copies.get(i - data, (asked, asked))[1])
            else:
                copied, free = begun, noted[PREPARED].get(i - data, made)
            rows.add(lane, "copy", i, begin=max(made, free), end=copied)
        rows.add(lane, "front end", i, begin=begun, end=prepared)
        for lane in range(1 + data, len(lanes)):
            rows.add(lane, "on its way", i, begin=prepared, end=times.arrived[i])
            rows.add(lane, "READY", i, begin=times.arrived[i], end=times.got[i])
            rows.add(lane, "step", i, begin=times.got[i], end=times.read[i])
    return rows.events


class _Rows:
    """Events in rows of their kind; those that overlap get a row of their own."""

    def __init__(self, lanes: list[str], start: float):
        self._start, self._ends = start, {}
        self.events = []
        for lane, name in enumerate(lanes):
            self._name("process_name", lane, 0, {"name": name})
            self._name("process_sort_index", lane, 0, {"sort_index": lane})

    def add(self, lane: int, title: str, batch: int, *, begin: float | None, end: float | None):
        if begin is None or end is None or end < begin:
            return
        self.events.append(
            {
                "name": f"{title} {batch}",
                "cat": title,
                "ph": "X",
                "ts": round(1e6 * (begin - self._start), 1),
                "dur": round(1e6 * (end - begin), 1),
                "pid": lane,
                "tid": self._row(lane, title, begin, end),
                "args": {"batch": batch},
            }
        )

    def _row(self, lane, title, begin, end):
        place = 0
        while self._ends.get((lane, title, place), begin) > begin:
            place += 1
        row = 10 * _KINDS.index(title) + place
        if (lane, title, place) not in self._ends:
            name = title if not place else f"{title}, beside it"
            self._name("thread_name", lane, row, {"name": name})
            self._name("thread_sort_index", lane, row, {"sort_index": row})
        self._ends[lane, title, place] = end
        return row

    def _name(self, kind, lane, row, arguments):
        self.events.append({"name": kind, "ph": "M", "pid": lane, "tid": row, "args": arguments})


# "On its way" waits for room and is copied; a step lasts until its result is read.
_KINDS = ("host pipeline", "copy", "front end", "on its way", "READY", "step")


def write_trace(strategy, dataset: tf.data.Dataset, step: Callable, path: str | Path) -> None:
    """Measures a run and writes its trace.

    Raises:
      ProfileError: if the dataset is too short or one of the functions fails.
    """
    extended = strategy.extended
    times = traced_run(strategy, dataset, step)
    made = events(times, extended.data_devices, extended.worker_devices)
    trace = {"traceEvents": made, "displayTimeUnit": "ms"}
    Path(path).write_text(json.dumps(trace) + "\n")
