"""The processes that train together, one on each machine; usually this one alone.

All make the same steps and the same decisions. The first of them, the chief, writes the run
directory; the others read it.
"""

import dataclasses
import hashlib
import json
import math
import signal
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from myxtts import UserError
from myxtts.config import to_json
from myxtts.model import whole_batch
from myxtts.training.config import TrainConfig
from myxtts.training.identity import RunIdentity
from myxtts.training.run_directory import RunDirectory


class Workers:
    """The workers that train together under a strategy.

        workers = Workers(strategy)
        corpus = workers.chief_first(prepare)
        stop = workers.meet(interruption.signal)    # the same on all, as are clock() and steps

    Values are exchanged through the strategy's own all-reduce, so all workers must call the same
    methods in the same order. If a worker is gone, they fail as any step does.

    Attributes:
      count: the number of workers.
      index: the number of this worker; 0 is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        resolver = strategy.cluster_resolver
        jobs = resolver.cluster_spec().as_dict() if resolver is not None else {}
        chiefs, others = (len(jobs.get(job, ())) for job in ("chief", "worker"))
        self.count, self.index = max(1, chiefs + others), 0
        if self.count > 1:
            self.index = resolver.task_id + (chiefs if resolver.task_type == "worker" else 0)
        self._now = None
        self._summed = tf.function(self._sum, reduce_retracing=True)

    @property
    def chief(self) -> bool:
        return self.index == 0

    def clock(self) -> float:
        """Seconds, as `time.perf_counter`. With several workers it is the chief's clock at their
        last meeting, so that decisions about time are the same on all."""
        return time.perf_counter() if self.count == 1 else self._now

    def meet(self, signalled: str | None = None) -> str | None:
        """Waits for all, sets the clock, and returns the signal that any of them got."""
        if self.count == 1:
            return signalled
        number = signal.Signals[signalled].value if signalled else 0
        mine = [0.0] * (self.count + 1)
        mine[self.index] = float(number)
        if self.chief:
            mine[-1] = time.perf_counter()
        *numbers, self._now = self._exchanged(mine)
        found = [signal.Signals(round(number)).name for number in numbers if number]
        return found[0] if found else None

    def wait(self) -> None:
        """Waits until all workers are here."""
        if self.count > 1:
            self._exchanged([0.0])

    def chief_first(self, action: Callable):
        """Runs `action` on the chief, then on the others, which find its files.

        Returns its result on this worker.
        """
        if not self.chief:
            self.wait()
        result = action()
        if self.chief:
            self.wait()
        return result

    def refuse_other_jobs(
        self, config: TrainConfig, identity: RunIdentity, paths: Sequence[str]
    ) -> None:
        """Raises `UserError` where another worker has other settings or clips, or paths of clips
        that a data service reads for all, if the strategy compares workers."""
        compare = getattr(self._strategy, "refuse_differences", None)
        if compare is None:
            return
        of_each = {"workers": None, "host_prefetch": 1}  # a machine's own affair
        settings = json.dumps(to_json(dataclasses.replace(config, **of_each)), sort_keys=True)
        facts = {
            "the settings": _digest(settings),
            "the clips": identity.corpus,
            "the held-out clips": identity.validation,
            "the vocabulary": identity.vocabulary,
        }
        if config.data_service is not None:
            facts["the paths of the clips"] = _digest("\n".join(paths))
        try:
            compare(facts)
        except ValueError as error:
            raise UserError(f"{error}") from None

    def refuse_other_directory(self, run: RunDirectory, step: int) -> None:
        """Raises `UserError` where the chief found another newest checkpoint than this worker."""
        if self.count == 1:
            return
        theirs = round(self._exchanged([float(step) if self.chief else 0.0])[0])
        if theirs != step:
            raise UserError(
                f"worker {self.index} finds the checkpoint of step {step} in {run.path} and worker "
                f"0 that of step {theirs}: name a directory that all machines share"
            )

    def _exchanged(self, values: list[float]) -> list[float]:
        """The sums over all workers."""
        return self._summed(tf.constant(values, tf.float64)).numpy().tolist()

    def _sum(self, values):
        # TensorFlow adds up where a tensor is, and the argument of a function is nowhere yet.
        added = self._strategy.run(lambda: whole_batch.total(tf.identity(values)))
        replicas = self._strategy.num_replicas_in_sync // self.count  # of each worker
        return self._strategy.experimental_local_results(added)[0] / replicas


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def refuse_uneven_batches(strategy: tf.distribute.Strategy, stage: str, size: int) -> None:
    """Raises `UserError` where batches cannot be divided among the strategy's replicas."""
    replicas = strategy.num_replicas_in_sync
    shares = getattr(strategy, "shares", (1 / replicas,) * replicas)
    equal = len(set(shares)) == 1
    if getattr(strategy, "chooses_shares", False):  # of whole rows, for each device one at least
        if size >= replicas:
            return
        equal = True
    if size * min(shares) >= 1 and not (equal and size % replicas):
        return
    devices = f"{replicas} model devices"
    if not equal:
        devices += f" in shares of {', '.join(f'{share:g}' for share in shares)}"
    least = math.ceil(1 / min(shares))
    better = -(-size // replicas) * replicas if equal else least
    raise UserError(
        f"{stage}: a batch of {size} clips cannot be divided among {devices}: give for instance "
        f"--{stage}_batch_size={max(better, replicas)}"
    )
