"""`DataService`: runs the host's part of a pipeline on other machines, with a stated guarantee."""

import dataclasses
import socket

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.data_service import compat as service_compat
from dual_device_strategy.data_service.watching import watched

EXACTLY_ONCE, AT_MOST_ONCE, IN_ROUNDS = "exactly once", "at most once", "in rounds"
MODES = (EXACTLY_ONCE, AT_MOST_ONCE, IN_ROUNDS)
_SHARDING = tf.data.experimental.service.ShardingPolicy
_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# An epoch ends this much later than its last batch; by default TensorFlow's client asks once a
# second.  It is one small call, also for a dispatcher with a hundred clients.
_ASKS_EVERY_MS = 200


@dataclasses.dataclass(frozen=True)
class DataService:
    """A tf.data service whose workers prepare what this host would prepare otherwise.

        service = DataService("10.0.0.5:5050", mode="exactly once")
        strategy = DataModelSplitStrategy("GPU:1", "GPU:0", data_service=service)

    Every dataset that the strategy distributes is then split: what comes before `on_data_device`
    runs on the service's workers, the front end on the data device as always.  Start the service
    with `python -m dual_device_strategy.data_service`.

    The mode says which elements arrive if workers die:

    * "exactly once": every element of the source once.  If an element is lost because a worker
      died, the epoch ends in an error.  The source must be finite, and `batch` must not
      drop the remainder.
    * "at most once": every element of the source once, except those that a worker had taken
      and not yet delivered when it died.  These are lost; a line at the end of the epoch says how
      many, if their number is known.
    * "in rounds": each of several programs, the `consumers`, reads one batch in each round, and all
      batches of a round come from the same worker, in its order.  So batches of a round have equal
      shapes if the pipeline makes that many of each shape in a row.  Every worker goes through the
      entire source, which must be endless.  A round waits until all consumers ask for it.

    In the first two modes workers take the source's elements (files, if it lists files) as they
    need them.  So the order and the contents of batches differ from run to run, and a run that was
    stopped cannot be resumed exactly.  Each worker batches what it took, so up to one batch per
    worker is partial.

    Args:
      address: "HOST:PORT" of the dispatcher.
      mode: one of the above.
      job_name: programs with the same job name share its batches: each batch goes to one of them.
        Without it, every program and every epoch has a job of its own.
      consumer: for "in rounds": (which consumer this program is, how many there are).
      patience_seconds: how long `next()` may wait for a batch before it fails.  TensorFlow's own
        service waits forever for a worker that died and does not come back.
    """

    address: str
    mode: str = EXACTLY_ONCE
    job_name: str | None = None
    consumer: tuple[int, int] | None = None
    patience_seconds: float = 60.0

    def __post_init__(self):
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(
                "the address of a data service is HOST:PORT of its dispatcher, got "
                f"{self.address!r}"
            )
        if self.mode not in MODES:
            raise ValueError(
                f"mode={self.mode!r} is not known: it is one of {', '.join(map(repr, MODES))}"
            )
        if self.patience_seconds < 1:
            raise ValueError(f"patience_seconds must be at least 1, got {self.patience_seconds}")
        if self.consumer is not None and self.mode != IN_ROUNDS:
            raise ValueError(
                f"consumer={self.consumer!r} does not go with mode={self.mode!r}: it is for "
                'mode="in rounds" only'
            )
        if self.consumer is not None and self.job_name is None:
            raise ValueError(
                'mode="in rounds" with a consumer needs a job_name, the same in all consumers: '
                "they read one job"
            )

    @property
    def silence(self) -> str:
        """What the error says if no batch came for `patience_seconds`."""
        return (
            f"no batch came from the data service at {self.address} for {self.patience_seconds:g} "
            "seconds (patience_seconds): its dispatcher or a worker is gone and did not come back, "
            "no worker has joined yet, or the pipeline is slower than that"
        )

    def refuse_several_workers(self) -> None:
        """Raises `ValueError` where several workers of one training cannot share this service."""
        if self.mode == EXACTLY_ONCE:
            raise ValueError(
                'mode="exactly once" cannot be kept by several workers, as they share the batches '
                'and none sees all of them: write mode="at most once" or "in rounds"'
            )
        if self.job_name is not None or self.consumer is not None:
            raise ValueError(
                f"job_name={self.job_name!r} and consumer={self.consumer!r} are for programs that "
                "know nothing of each other; the workers of one training share a job by "
                "themselves: leave both out"
            )

    def of_worker(self, index: int, count: int, job_name: str) -> "DataService":
        """This service as one of several workers uses it for a dataset whose job has that name."""
        consumer = (index, count) if self.mode == IN_ROUNDS else None
        return dataclasses.replace(self, job_name=job_name, consumer=consumer)

    def applied(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """`dataset`, run by the service.

        Raises:
          ValueError: if it cannot run there, in one sentence.
          ConnectionError: if nothing answers at the address, in one sentence.
        """
        if self.mode == IN_ROUNDS and self.consumer is None:
            raise ValueError(
                'mode="in rounds" needs consumer=(index, count) and a job_name, which say who the '
                "other consumers are, unless the workers of one training share a dataset"
            )
        self._refuse_operations(dataset)
        expected = _expected(dataset) if self.mode != IN_ROUNDS else None
        if self.mode == EXACTLY_ONCE:
            self._refuse_uncountable(dataset, expected)
        if self.mode == IN_ROUNDS and tf.get_static_value(dataset.cardinality()) != (
            tf.data.INFINITE_CARDINALITY
        ):
            raise ValueError(
                'mode="in rounds" needs an endless dataset, as the consumers would wait for each '
                "other at its end: add repeat(), and end the epoch by a number of steps"
            )
        self.check_reachable()
        index, count = self.consumer or (None, None)
        served = dataset.apply(
            service_compat.distribute(
                asks_every_ms=_ASKS_EVERY_MS,
                processing_mode=_SHARDING.OFF if self.mode == IN_ROUNDS else _SHARDING.DYNAMIC,
                service=f"grpc://{self.address}",
                job_name=self.job_name,
                consumer_index=index,
                num_consumers=count,
            )
        )
        return watched(
            served,
            patience_seconds=self.patience_seconds,
            silence=self.silence,
            expected=expected,
            must_be_all=self.mode == EXACTLY_ONCE,
            shared=self.job_name is not None,
        )

    def _refuse_operations(self, dataset) -> None:
        graph = tf.compat.v1.GraphDef.FromString(compat.serialized(dataset).numpy())
        nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
        ops = {node.op for node in nodes}
        if "ShardDataset" in ops and self.mode != IN_ROUNDS:
            raise ValueError(
                "the pipeline has shard() before on_data_device(), which would count what each "
                "worker of the data service happens to take, so elements would be missing or come "
                "twice: take this program's part of the source itself, such as files[index::count]"
            )
        if ops & _PYTHON:
            raise ValueError(
                "the pipeline has a Python function before on_data_device() (from_generator, "
                "tf.py_function or tf.numpy_function), which the data service cannot run because "
                "Python's objects are in this process only: use TensorFlow's ops there, or leave "
                "data_service out"
            )

    def _refuse_uncountable(self, dataset, expected) -> None:
        if self.job_name is not None:
            raise ValueError(
                f'mode="exactly once" cannot be kept with job_name={self.job_name!r}, as no '
                'program sees all batches of a shared job: write mode="at most once"'
            )
        if expected is None:
            raise ValueError(
                'mode="exactly once" needs a dataset whose elements can be counted: a source of '
                "known, finite cardinality (tf.data.experimental.assert_cardinality), and batch() "
                'without drop_remainder; or write mode="at most once"'
            )

    def check_reachable(self) -> None:
        """Raises `ConnectionError`, in one sentence, where nobody answers at the address."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:
            raise ConnectionError(
                f"no data service answers at {self.address} ({error}): start it with python -m "
                "dual_device_strategy.data_service dispatcher, or correct the address"
            ) from None


def explained(error: Exception, strategy: tf.distribute.Strategy) -> str | None:
    """One sentence if `error` came because the strategy's service fell silent; else None."""
    service = getattr(strategy.extended, "data_service", None)
    if service is None or not isinstance(error, tf.errors.OpError):
        return None
    return service.silence if service.silence in error.message else None


def _expected(dataset: tf.data.Dataset) -> tuple[bool, int] | None:
    """(whether to count rows instead of elements, how many there must be); None if unknown."""
    node, rows = dataset, False
    while len(inputs := compat.inputs_of(node)) == 1:
        if compat.operation_of(node) in ("batch", "padded_batch"):
            if rows or compat.drops_remainder(node):
                return None
            rows = True
            (node,) = inputs
            break
        (node,) = inputs
    count = tf.get_static_value((node if rows else dataset).cardinality())
    return None if count is None or count < 0 else (rows, int(count))
