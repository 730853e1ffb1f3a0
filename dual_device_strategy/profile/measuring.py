"""Times of each part alone, and of all of them together."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.devices import short_name
from dual_device_strategy.front_end import split
from dual_device_strategy.host_copies import copied_ahead
from dual_device_strategy.profile.staged import (
    Staged,
    as_profile_error,
    run_ahead,
    staged_run,
    too_short,
)
from dual_device_strategy.readings import Reading, read
from dual_device_strategy.replicas import MirroredDataModelSplitStrategy
from dual_device_strategy.strategy import DataModelSplitStrategy

WARM = 3
KEPT = 4  # the number of batches kept to measure the later parts with


@dataclasses.dataclass
class Measured:
    """The measured milliseconds: one figure per repetition of each part, and of the staged run."""

    parts: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    # How long the front end would keep a core of the host busy; None if it cannot run there.
    front_end_core_ms: float | None = None
    # How long the loop needs between two steps even when a batch is READY.
    gap_ms: float = 0.0
    host_core_ms: float = 0.0
    steps: list[float] = dataclasses.field(default_factory=list)
    gaps: list[float] = dataclasses.field(default_factory=list)
    monitor: dict = dataclasses.field(default_factory=dict)
    # Staged steps of loops that read their result less often.
    others: dict[Reading, list[float]] = dataclasses.field(default_factory=dict)
    copies_ahead: bool = False  # whether batches are, where there are slots for that
    rows: int | None = None  # of a whole batch
    rows_of_replicas: list[int] = dataclasses.field(default_factory=list)


def measure(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    step: Callable,
    *,
    repeats: int,
    into: Measured,
    readings: Sequence[Reading] = (Reading.EVERY_TENTH,),
) -> None:
    """Measures into `into`, which keeps what was measured if this raises ProfileError.

    `readings` are measured in addition to the loop that reads on every step.
    """
    PartsAlone(strategy, dataset, step, repeats=repeats, into=into).measure()
    staged_run(strategy, dataset, step, steps=repeats, into=into)
    for reading in readings:
        if reading is not Reading.EVERY_STEP:
            into.others[reading] = run_ahead(
                strategy, dataset, step, steps=repeats, reading=reading
            )


class PartsAlone:
    """A measurement of each part of the pipeline alone, on batches that stay where the part is.

    `measure` runs it.  Each repetition waits for its result by reading one number from it.  The
    cost of reading a finished result is measured too and subtracted, except from the step, whose
    result is read in training as well.
    """

    def __init__(self, strategy, dataset, step, *, repeats, into):
        extended = strategy.extended
        self._strategy, self._step, self._repeats, self._into = strategy, step, repeats, into
        self._data, self._model = extended.data_device, extended.worker_devices[0]
        self._dataset = dataset
        self._host, self._front_end, self._spec = split(dataset, self._data)
        into.copies_ahead = copied_ahead(self._host.element_spec, self._data)

    def measure(self) -> None:
        elements = self._measure_host()
        spec = self._host.element_spec
        flat = [compat.to_flat(spec, element) for element in elements]
        on_data = self._measure_moves("copy", flat, compat.host_of(self._data), self._data)
        if self._front_end is None:
            self._into.parts["front_end"] = [0.0] * self._repeats
            prepared = on_data
        else:
            self._measure_front_end_on_host(flat)
            prepared = self._measure_front_end(on_data)
        parts = [
            tf.nest.flatten(compat.from_flat(self._spec, list(p)), expand_composites=True)
            for p in prepared
        ]
        arrived = self._measure_moves("transfer", parts, self._data, self._model)
        batches = whole = [self._packed(part) for part in arrived]
        if self._strategy.num_replicas_in_sync > 1:
            batches = self._pieces()
        self._into.rows = _rows(whole[0])
        self._into.rows_of_replicas = [
            _rows(piece) for piece in self._strategy.experimental_local_results(batches[0])
        ]
        self._measure_step(batches)
        self._measure_gap(whole[0])

    def _pieces(self):
        """Batches as the replicas get them."""
        with as_profile_error("the dataset cannot be distributed"):
            few = self._strategy.experimental_distribute_dataset(self._dataset.take(KEPT))
            return list(few)

    def _measure_host(self):
        times = self._into.parts["host"] = []
        kept = []
        with tf.device(compat.host_of(self._data)), as_profile_error("the host pipeline failed"):
            iterator = iter(self._host)
            cpu = time.process_time()
            for i in range(self._repeats + WARM):
                begin = time.perf_counter()
                element = next(iterator, None)
                if element is None:
                    raise too_short(i, self._repeats + WARM)
                times.append(1e3 * (time.perf_counter() - begin))
                if len(kept) < KEPT:
                    kept.append(element)
            self._into.host_core_ms = 1e3 * (time.process_time() - cpu) / len(times)
        self._into.parts["host"] = times[WARM:]
        return kept

    def _measure_moves(self, name, batches, source, target):
        """Times copies of the tensors of each batch."""
        if compat.resolve_device(source) == compat.resolve_device(target):
            self._into.parts[name] = [0.0] * self._repeats
            return batches

        def fresh(tensors):
            # TensorFlow caches the copies of an eager tensor, but not those of a new one.
            with tf.device(source):
                return [tf.identity(t) for t in tensors]

        def move(tensors):
            with tf.device(target):
                return [tf.identity(t) for t in tensors]

        with as_profile_error(f"moving batches to {short_name(target)} failed"):
            return self._timed(name, batches, move, device=target, prepare=fresh)

    def _measure_front_end(self, batches):
        function = tf.function(lambda *flat: self._front_end(list(flat)), autograph=False)

        def run(tensors):
            with tf.device(self._data):
                return function(*tensors)

        with as_profile_error("the function given to on_data_device() failed"):
            return self._timed("front_end", batches, run, device=self._data)

    def _measure_front_end_on_host(self, batches):
        host = compat.host_of(self._data)
        function = tf.function(lambda *flat: self._front_end(list(flat)), autograph=False)
        costs = []
        # A front end with variables on the data device may be unable to run here at all.
        with contextlib.suppress(tf.errors.OpError, ValueError), tf.device(host):
            for i in range(WARM + min(5, self._repeats)):
                wall, cpu = time.perf_counter(), time.process_time()
                _read(function(*batches[i % len(batches)]), host)
                spent = time.process_time() - cpu, time.perf_counter() - wall
                if i >= WARM:
                    costs.append(1e3 * max(spent))
            self._into.front_end_core_ms = statistics.median(costs)

    def _measure_step(self, batches):
        times = self._into.parts["step"] = []
        with as_profile_error("the step failed"):
            for i in range(self._repeats + WARM):
                batch = batches[i % len(batches)]
                begin = time.perf_counter()
                read(self._strategy.run(self._step, args=(batch,)))
                times.append(1e3 * (time.perf_counter() - begin))
        self._into.parts["step"] = times[WARM:]

    def _measure_gap(self, batch):
        """How much longer steps take in a loop over batches that need no preparing."""
        with tf.device(compat.host_of(self._data)):
            on_host = tf.nest.map_structure(tf.identity, batch, expand_composites=True)
            dataset = tf.data.Dataset.from_tensors(on_host).repeat()
        found, feeding = Staged(), self._feeding()
        staged_run(
            self._strategy, dataset, self._step, steps=self._repeats, into=found, feeding=feeding
        )
        alone = statistics.median(self._into.parts["step"])
        moves = max(statistics.median(self._into.parts[n]) for n in ("copy", "transfer"))
        self._into.gap_ms = max(0.0, statistics.median(found.steps) - max(alone, moves))

    def _feeding(self):
        """A strategy with enough slots that no step waits for a transfer."""
        if self._strategy.num_replicas_in_sync == 1:
            return DataModelSplitStrategy(self._data, self._model, slots=5)
        extended = self._strategy.extended
        return MirroredDataModelSplitStrategy(
            extended.data_devices, extended.worker_devices, slots=6, shares=self._strategy.shares
        )

    def _timed(self, name, batches, work, *, device, prepare=lambda tensors: tensors):
        times, results = self._into.parts.setdefault(name, []), {}
        for i in range(self._repeats + WARM):
            place = i % len(batches)
            tensors = prepare(batches[place])
            _read(tensors, None)
            begin = time.perf_counter()
            done = work(tensors)
            _read(done, device)
            times.append(1e3 * (time.perf_counter() - begin))
            results[place] = done
        reading = []
        for _ in range(10):
            begin = time.perf_counter()
            _read(results[0], device)
            reading.append(1e3 * (time.perf_counter() - begin))
        overhead = statistics.median(reading)
        self._into.parts[name] = [max(0.0, t - overhead) for t in times[WARM:]]
        return [results[place] for place in sorted(results)]

    def _packed(self, parts):
        return tf.nest.pack_sequence_as(self._spec, list(parts), expand_composites=True)


def _rows(batch) -> int:
    """The rows of a batch, or of a replica's part, counted in its first tensor."""
    tensors = tf.nest.flatten(batch, expand_composites=True)
    return int(tensors[0].shape[0] or 1) if tensors and tensors[0].shape.rank else 1


def _read(tensors, device) -> None:
    for tensor in tf.nest.flatten(tensors, expand_composites=True):
        if tensor.dtype not in (tf.string, tf.variant, tf.resource) and tensor.shape.num_elements():
            with tf.device(device or tensor.device):
                tf.reshape(tensor, [-1])[:1].numpy()
            return
