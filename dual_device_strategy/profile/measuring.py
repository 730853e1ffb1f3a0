"""Times of each part alone, and of all of them together."""

import contextlib
import dataclasses
import re
import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.devices import short_name
from dual_device_strategy.front_end import split
from dual_device_strategy.monitor import Monitor
from dual_device_strategy.strategy import DataModelSplitStrategy

WARM = 3
# Steps of the staged run that are not counted: while the first ones were traced, the slots were
# filled, and the batches in them hide what the next ones cost.
STAGED_WARM = 10
KEPT = 4  # the number of batches kept to measure the later parts with


class ProfileError(Exception):
    """The measurement could not go on; the message says why in a sentence."""


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


def measure(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    step: Callable,
    *,
    repeats: int,
    into: Measured,
) -> None:
    """Measures into `into`, which keeps what was measured if this raises ProfileError."""
    PartsAlone(strategy, dataset, step, repeats=repeats, into=into).measure()
    staged_run(strategy, dataset, step, steps=repeats, into=into)


class PartsAlone:
    """A measurement of each part of the pipeline alone, on batches that stay where the part is.

    `measure` runs it.  Each repetition waits for its result by reading one number from it.  The
    cost of such a read, when the result is already there, is measured too and subtracted; but not
    from the step, whose result is read in training as well.
    """

    def __init__(self, strategy, dataset, step, *, repeats, into):
        extended = strategy.extended
        self._strategy, self._step, self._repeats, self._into = strategy, step, repeats, into
        self._data, self._model = extended.data_device, extended.worker_devices[0]
        self._host, self._front_end, self._spec = split(dataset, self._data)

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
        batches = [self._packed(part) for part in arrived]
        self._measure_step(batches)
        self._measure_gap(batches[0])

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
        """Copies of the tensors of each batch, and how long they took."""
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
            return self._timed("front_end", batches, run, self._data)

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
                read_result(self._strategy.run(self._step, args=(batch,)))
                times.append(1e3 * (time.perf_counter() - begin))
        self._into.parts["step"] = times[WARM:]

    def _measure_gap(self, batch):
        """How much longer steps take in a loop over batches that need no preparing."""
        with tf.device(compat.host_of(self._data)):
            on_host = tf.nest.map_structure(tf.identity, batch, expand_composites=True)
            dataset = tf.data.Dataset.from_tensors(on_host).repeat()
        into = Measured()
        # Enough slots that no transfer is waited for.
        feeding = DataModelSplitStrategy(self._data, self._model, slots=6)
        staged_run(
            self._strategy, dataset, self._step, steps=self._repeats, into=into, feeding=feeding
        )
        alone = statistics.median(self._into.parts["step"])
        moves = max(statistics.median(self._into.parts[n]) for n in ("copy", "transfer"))
        self._into.gap_ms = max(0.0, statistics.median(into.steps) - max(alone, moves))

    def _timed(self, name, batches, work, device, prepare=lambda tensors: tensors):
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


def staged_run(strategy, dataset, step, *, steps: int, into: Measured, feeding=None) -> None:
    """Measures all parts together, over `steps` steps after the first ones.

    `feeding` is the strategy that distributes the dataset, where it is another one.
    """
    clock, feeding = time.perf_counter, feeding or strategy
    with Monitor(feeding, first_steps=STAGED_WARM, sample_every=5) as monitor:
        with as_profile_error("the dataset cannot be distributed"):
            distributed = feeding.experimental_distribute_dataset(dataset)
        ended, count = 0.0, 0
        with as_profile_error("the staged run failed"):
            for batch in monitor.batches(distributed):
                got = clock()
                read_result(strategy.run(step, args=(batch,)))
                now = clock()
                if count > STAGED_WARM:
                    into.gaps.append(1e3 * (got - ended))
                    into.steps.append(1e3 * (now - ended))
                ended, count = now, count + 1
                if count > steps + STAGED_WARM:
                    break
            into.monitor = monitor.summary()
            if count <= steps + STAGED_WARM:
                raise too_short(count, steps + STAGED_WARM + 1)


def too_short(found: int, wanted: int) -> ProfileError:
    return ProfileError(
        f"the dataset ended after {found} batches and {wanted} are needed: ask for fewer steps "
        "(--num_steps), or repeat() it"
    )


def read_result(result) -> None:
    """Waits for a step by reading what it returned, as a loop that prints its loss does."""
    for tensor in tf.nest.flatten(result, expand_composites=True):
        if tf.is_tensor(tensor):
            tensor.numpy()
            return


def _read(tensors, device) -> None:
    for tensor in tf.nest.flatten(tensors, expand_composites=True):
        if tensor.dtype not in (tf.string, tf.variant, tf.resource) and tensor.shape.num_elements():
            with tf.device(device or tensor.device):
                tf.reshape(tensor, [-1])[:1].numpy()
            return


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
