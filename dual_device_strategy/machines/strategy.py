"""MultiWorkerDataModelSplitStrategy: data devices and model devices on each machine."""

import contextlib
import platform
import signal
import threading
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from dual_device_strategy import compat
from dual_device_strategy.data_service import DataService
from dual_device_strategy.devices.several import check_lists
from dual_device_strategy.machines import compat as machines_compat
from dual_device_strategy.machines.cluster import Cluster, cluster_of
from dual_device_strategy.machines.extended import MultiWorkerSplitExtended
from dual_device_strategy.machines.lost import do_not_answer, end_with_one_sentence, watch_others
from dual_device_strategy.staged_input import check_slots


class MultiWorkerDataModelSplitStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """A strategy for several machines; each prepares its part of every batch on its own devices.

    The same program runs once on each machine, as a *worker* with data devices and model devices
    of its own.  TF_CONFIG (or another resolver) lists the workers:

        strategy = MultiWorkerDataModelSplitStrategy(["GPU:1"], ["GPU:0"])
        strategy = MultiWorkerDataModelSplitStrategy(["GPU:6", "GPU:7"], ["GPU:0", ..., "GPU:5"])

    Make it before anything that starts TensorFlow's runtime.  The constructor waits until all
    workers have come, and logs which ones are missing.  `python -m dual_device_strategy.launch
    --workers=2 PROGRAM` starts workers on one machine.

    Everything else is as in TensorFlow's MultiWorkerMirroredStrategy: a dataset has global batches,
    every worker gets its part of each, and all-reduce adds up the gradients.  Losses are the same,
    bit for bit with one model device on each worker.  The front end runs on each worker's part,
    not on the global batch.  So statistics over the batch, and random ops that are not stateless,
    differ from those of a host `map`, which TensorFlow runs on the global batch on every worker.

    A worker with several model devices cuts its part for them after the front end.  Several data
    devices prepare parts in turns, as in `MirroredDataModelSplitStrategy`.

    Besides the slots, these things differ from TensorFlow's strategy:

    * Keras 3's `fit` works.
    * Signal handlers that were installed before stay installed.
    * Workers with different versions, devices or slots are refused at the start, in one sentence.
      Call `refuse_differences` to compare what else must be the same, such as flags and the corpus.
    * If another worker is gone, an uncaught error becomes one sentence and exit code 1.
    * Variables of `data_scope()` begin with the first worker's values, as all variables do; each
      worker keeps its own afterwards.

    docs/machines.md says what to do about workers that die; its program goes on exactly where the
    last checkpoint was.

    Args:
      data_devices: the devices of this process where input iterators and feature extraction live,
        such as ["GPU:1"].
      model_devices: the devices where variables live and steps run, such as ["GPU:0"]; the same
        number on each worker.
      cluster_resolver: lists the workers; None reads TF_CONFIG.
      communication_options: `tf.distribute.experimental.CommunicationOptions`.  With
        `timeout_seconds`, a worker that hangs is noticed after that time, otherwise after 14
        seconds without a heartbeat.
      slots: the most batches that may exist beyond the host, on each worker, at least 2.  With six
        or more, two are COPYING, as in `MirroredDataModelSplitStrategy`.
      shares: refused; they are for the devices of one machine.
    """

    _made = 0

    def __init__(
        self,
        data_devices: Sequence[str],
        model_devices: Sequence[str],
        cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver | None = None,
        communication_options: tf.distribute.experimental.CommunicationOptions | None = None,
        *,
        slots: int = 4,
        shares: None = None,
        data_service: DataService | None = None,
    ):
        if shares is not None:
            raise ValueError(
                f"shares={shares!r} was given to a strategy of several machines, but shares are "
                "for the devices of one machine, under MirroredDataModelSplitStrategy: leave it "
                "out, and every model device gets the same number of rows"
            )
        check_lists({"data_devices": data_devices, "model_devices": model_devices})
        check_slots(slots, auto=False)
        cluster = cluster_of(cluster_resolver)
        several = len(cluster.addresses) > 1
        if several and data_service:
            data_service.refuse_several_workers()
        if several and compat.runtime_started():
            raise RuntimeError(
                "MultiWorkerDataModelSplitStrategy came after TensorFlow's runtime had started, "
                "which accepts no other workers from then on: make the strategy first in the "
                "program, before any tensor, dataset or layer"
            )
        if several:
            end_with_one_sentence(cluster)
            _say_who_is_missing(cluster)
        with _kept_signal_handlers():
            # Collectives of two strategies in one process must not share their keys.
            MultiWorkerDataModelSplitStrategy._made += 1
            self._collective_key_base = 2_000_000 + 1000 * MultiWorkerDataModelSplitStrategy._made
            tf.distribute.Strategy.__init__(
                self,
                MultiWorkerSplitExtended(
                    self,
                    devices=(data_devices, model_devices),
                    slots=slots,
                    cluster=cluster,
                    communication_options=communication_options
                    or machines_compat.CollectiveOptions(),
                ),
            )
            self.extended.data_service = data_service
            self._cluster = cluster
            if several:
                watch_others(cluster)
            self.refuse_differences(
                {
                    "the number of model devices": len(model_devices),
                    "the number of data devices": len(data_devices),
                    "slots": slots,
                    "the kind of model device": self.model_devices[0].split(":")[-2],
                    "TensorFlow's version": tf.__version__,
                    "Python's version": ".".join(platform.python_version_tuple()[:2]),
                    "the data service": data_service,
                }
            )

    @property
    def data_devices(self) -> tuple[str, ...]:
        """The full names of this worker's devices of input iterators and feature extraction."""
        return self.extended.data_devices

    @property
    def model_devices(self) -> tuple[str, ...]:
        """The full names of this worker's devices of variables and steps."""
        return self.extended.worker_devices

    @property
    def worker_index(self) -> int:
        """Which of the workers this is; 0 is the first one, whose checkpoints all read."""
        return self._cluster.index

    @property
    def slots(self) -> int:
        return self.extended.slots

    def refuse_differences(self, facts: dict[str, object]) -> None:
        """Compares `facts` ({what: value}) with those of all other workers.

        All workers must call it at the same point of the program.  Values are compared as text;
        pass digests of long ones, such as a corpus.

        Raises:
          ValueError: on every worker; it names what differs, and each worker's value.
        """
        self.extended.refuse_differences(facts)

    def reduce(self, reduce_op, value, axis):
        # Keras 3 asks for the mean of scalars along their first axis, although they have none. It
        # does so under MultiWorkerMirroredStrategy only (tensorflow#72388).
        mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"
        if (
            mean
            and axis == 0
            and all(
                local.shape.rank == 0
                for each in tf.nest.flatten(value)
                for local in self.experimental_local_results(each)
                if tf.is_tensor(local)
            )
        ):
            axis = None
        return super().reduce(reduce_op, value, axis)


@contextlib.contextmanager
def _kept_signal_handlers():
    """Restores the signal handlers; TensorFlow's coordination service replaces SIGTERM's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it was not installed from Python
                signal.signal(number, handler)


def _say_who_is_missing(cluster: Cluster) -> None:
    """Logs which workers are missing; later would be too late, no Python runs during the wait."""
    if missing := do_not_answer(cluster):
        logging.warning(
            "%s waits for %s: start the same command there, or end this one",
            cluster.name(cluster.index),
            ", ".join(map(cluster.name, missing)),
        )
