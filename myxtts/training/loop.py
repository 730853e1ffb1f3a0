"""Runs many steps in one call of a tf.function and keeps their figures on the device."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from myxtts.model import whole_batch
from myxtts.model.layers import seed_of
from myxtts.training.config import TrainConfig
from myxtts.training.optimizer import Learner
from myxtts.training.precision import LossScale
from myxtts.training.stages import Stage

_FIRST = tf.VariableAggregation.ONLY_FIRST_REPLICA
_USUAL = tf.VariableSynchronization.AUTO
# Columns before the stage's own figures; (epoch, batch) is the last batch of the step.
COLUMNS = ("counts", "learning_rate", "wait_seconds", "epoch", "batch")


class Loop:
    """Runs the steps of a stage on the strategy's devices, without reading anything back.

    Make it in the strategy's scope. `records` has the figures of the last `log_steps` steps, one
    row each; reading it waits for the device.

    With several replicas each has a part of every batch. Stages compute the loss of the whole batch
    (`model.whole_batch`), and replicas take the mean of their gradients. So records, norms,
    averages and states are the same on all replicas, and a step is skipped by all or by none.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, stage: Stage, config: TrainConfig, precision: str
    ):
        self.strategy, self.stage, self.config = strategy, stage, config
        self.columns = (*COLUMNS, *stage.parts, *(f"{n}_norm" for n in stage.learners))
        self.step = _state(0, tf.int64)
        self.planned = _state(0, tf.int64)
        self.loss_scale = LossScale(precision)
        self._records = _state(tf.zeros([config.log_steps, len(self.columns)], tf.float64))
        self._held_out = _state(tf.zeros([len(stage.held_out) + 1], tf.float64))
        if config.grad_accum > 1:
            # Of each replica's own rows: they are added up over replicas once a step.
            own = tf.VariableSynchronization.ON_READ if self._several else _USUAL
            self._sums = {
                name: [_state(tf.zeros(v.shape), synchronization=own) for v in learner.variables]
                for name, learner in stage.learners.items()
            }
            self._figures = _state(tf.zeros([len(stage.parts)]))
        self._states = [v.value for v in stage.states]
        self._calls = {}

    def variables(self) -> list:
        """The variables to save in addition to networks and optimizers."""
        return [self.step, self.planned, *self.loss_scale.variables()]

    def is_traced(self, phase: int) -> bool:
        """Whether `run` was called in this phase before; the first call traces, which takes
        seconds."""
        return phase in self._calls

    def run(self, iterator, steps: int, phase: int) -> None:
        """Runs `steps` steps with the next batches of the iterator."""
        if phase not in self._calls:
            self._calls[phase] = tf.function(
                lambda iterator, steps: self._run(iterator, steps, phase), autograph=True
            )
        self._calls[phase](iterator, tf.constant(steps))

    def records(self, first: int, last: int) -> list[dict]:
        """The figures of the steps from `first` up to, not including, `last`."""
        rows = self._records.numpy()
        return [
            dict(zip(self.columns, rows[step % len(rows)].tolist(), strict=True))
            for step in range(first, last)
        ]

    def evaluate(self, iterator, batches: int) -> dict[str, float]:
        """The mean figures over the clips of the next `batches` batches."""
        self._held_out.assign(tf.zeros_like(self._held_out))
        self._evaluate(iterator, tf.constant(batches))
        *sums, clips = self._held_out.numpy().tolist()
        return {n: s / max(clips, 1.0) for n, s in zip(self.stage.held_out, sums, strict=True)}

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """In this block the networks have their averaged weights."""
        self._swap_averages()
        try:
            yield
        finally:
            self._swap_averages()

    @tf.function
    def _swap_averages(self):
        def swap(variable, average):
            value = tf.identity(variable)
            variable.assign(average)
            average.assign(value)

        for learner in self.stage.learners.values():
            for variable, average in learner.pairs():
                self.strategy.extended.update(variable, swap, args=(average,), group=False)

    def single_step(self, batch) -> tf.Tensor:
        """One step of the last phase, to be measured; pass it to `strategy.run`. Reading the result
        waits for the step."""
        self._step(batch, tf.zeros([], tf.float64), len(self.stage.phases) - 1)
        return self._records.read_value()

    def _next(self, iterator):
        """The next batch, and how many seconds the host waited for it."""
        if self.config.deterministic:  # refuses clocks
            return next(iterator), tf.zeros([], tf.float64)
        asked = tf.timestamp()
        with tf.control_dependencies([asked]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            return batch, tf.timestamp() - asked

    def _on_replicas(self, fn, args):
        # Only our loops over steps need AutoGraph. To look through everything else took a third of
        # the time of tracing.
        self.strategy.run(tf.autograph.experimental.do_not_convert(fn), args=args)

    def _run(self, iterator, steps, phase):
        for _ in tf.range(steps):
            if self.config.grad_accum == 1:
                batch, waited = self._next(iterator)
                self._on_replicas(self._step, args=(batch, waited, phase))
            else:
                waited = tf.zeros([], tf.float64)
                for _ in tf.range(self.config.grad_accum - 1):
                    batch, more = self._next(iterator)
                    self._on_replicas(self._add, args=(batch, phase))
                    waited += more
                batch, more = self._next(iterator)
                self._on_replicas(self._step, args=(batch, waited + more, phase))

    @property
    def _several(self) -> bool:
        return self.strategy.num_replicas_in_sync > 1

    def _gradients(self, batch, phase):
        """`(scaled gradients, figures, norms, sane)` of one batch, gradients and norms by learner.
        If it is not sane, states stay as they were. With several replicas, gradients and norms are
        those of this replica's rows; figures and `sane` are those of all rows."""
        before = [tf.identity(state) for state in self._states]
        with tf.GradientTape(persistent=True) as tape:
            losses, figures = self.stage.losses(batch, seed_of(batch["key"]), phase)
            scaled = {name: loss * self.loss_scale.scale for name, loss in losses.items()}
        gradients = {
            name: self.stage.learners[name].gradients(tape, loss) for name, loss in scaled.items()
        }
        zero = tf.zeros([])
        figures = tf.stack([tf.cast(figures.get(n, zero), tf.float32) for n in self.stage.parts])
        norms = [tf.linalg.global_norm(found) for found in gradients.values()]
        sane = tf.reduce_all(tf.math.is_finite(tf.concat([norms, figures], 0)))
        if self._several:
            sane = tf.cast(sane, tf.float32)[None]
            agreed = whole_batch.total(tf.concat([figures, sane], 0))
            agreed /= self.strategy.num_replicas_in_sync
            figures, sane = agreed[:-1], agreed[-1] == 1.0
        for state, value in zip(self._states, before, strict=True):
            state.assign(tf.where(sane, tf.convert_to_tensor(state), value))
        return gradients, figures, dict(zip(gradients, norms, strict=True)), sane

    def _add(self, batch, phase):
        """Adds the gradients of one of a step's several batches."""
        gradients, figures, _, _ = self._gradients(batch, phase)
        for name, found in gradients.items():
            for total, gradient in zip(self._sums[name], found, strict=True):
                total.assign_add(gradient)
        self._figures.assign_add(figures)

    def _step(self, batch, waited, phase):
        gradients, figures, norms, sane = self._gradients(batch, phase)
        if self.config.grad_accum > 1:
            gradients, figures = self._with_sums(gradients, figures)
        if self._several:
            gradients = tf.distribute.get_replica_context().all_reduce("MEAN", gradients)
        if self.config.grad_accum > 1 or self._several:
            norms = {name: tf.linalg.global_norm(found) for name, found in gradients.items()}
            sane = tf.reduce_all(tf.math.is_finite(tf.concat([[*norms.values()], figures], 0)))
        counts = tf.cast(sane, tf.float32)
        scale = 1.0 / (self.config.grad_accum * self.loss_scale.scale)
        norms = {name: norm * scale for name, norm in norms.items()}
        rates = []
        for name, found in gradients.items():
            learner: Learner = self.stage.learners[name]
            found = [g * scale for g in found] if self._scaled else found
            rates.append(
                learner.learn(
                    found, norm=norms[name], counts=counts, step=self.step, planned=self.planned
                )
            )
        self.loss_scale.follow(counts)
        self._record([counts, rates[0], waited], batch["key"][-1], figures, norms)
        self.step.assign_add(1)

    def _record(self, first, key, figures, norms):
        row = [*first, key[1], key[2], *tf.unstack(figures)]
        row += [norms.get(name, tf.zeros([])) for name in self.stage.learners]
        row = tf.stack([tf.cast(value, tf.float64) for value in row])
        rows = self.config.log_steps
        place = tf.range(rows, dtype=tf.int64) == self.step % rows
        self._records.assign(tf.where(place[:, None], row, tf.convert_to_tensor(self._records)))

    @property
    def _scaled(self) -> bool:
        return self.config.grad_accum > 1 or self.loss_scale.active

    def _with_sums(self, gradients, figures):
        """The sums of this batch's gradients and those of `_add`, whose sums become zero."""
        for name, found in gradients.items():
            sums = self._sums[name]
            gradients[name] = [g + tf.identity(s) for g, s in zip(found, sums, strict=True)]
            for total in sums:
                total.assign(tf.zeros_like(total))
        figures = (figures + tf.identity(self._figures)) / self.config.grad_accum
        self._figures.assign(tf.zeros_like(self._figures))
        return gradients, figures

    @tf.function
    def _evaluate(self, iterator, batches):
        for _ in tf.range(batches):
            batch, _ = self._next(iterator)
            self._on_replicas(self._add_held_out, args=(batch,))

    def _add_held_out(self, batch):
        clips = tf.cast(tf.shape(batch["key"])[0], tf.float64)
        figures = self.stage.evaluate(batch)
        row = [tf.cast(figures[name], tf.float64) * clips for name in self.stage.held_out]
        self._held_out.assign_add(whole_batch.total(tf.stack([*row, clips])))


def _state(value, dtype=None, synchronization=_USUAL) -> tf.Variable:
    return tf.Variable(
        value,
        dtype=dtype,
        trainable=False,
        aggregation=_FIRST,
        synchronization=synchronization,
    )
