"""AdamW with clipping, averages of the weights, and steps that can be left out.

Private Keras is used in `AveragingAdamW` only: in `update_step`, as by Keras's own subclasses,
`_get_variable_index`, `_momentums`, `_velocities`; and `_all_reduce_sum_gradients`.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from myxtts.training.config import StageConfig


def scheduled_rate(config: StageConfig, step: tf.Tensor, planned: tf.Tensor) -> tf.Tensor:
    """The learning rate of a step (the first is 0) of `planned` ones; 0: not planned yet.

    The warm-up is never more than a fifth of the steps. "cosine" ends at 0, "noam" falls with the
    square root of the step.
    """
    step, planned = tf.cast(step + 1, tf.float32), tf.cast(planned, tf.float32)
    warm = tf.constant(float(max(config.warm_up_steps, 1)))
    warm = tf.where(planned > 0, tf.minimum(warm, tf.maximum(1.0, planned / 5)), warm)
    rising = tf.minimum(1.0, step / warm)
    if config.schedule == "cosine":
        done = tf.clip_by_value((step - warm) / tf.maximum(planned - warm, 1.0), 0.0, 1.0)
        falling = tf.where(planned > 0, 0.5 + 0.5 * tf.cos(3.14159265 * done), 1.0)
    elif config.schedule == "noam":
        falling = tf.sqrt(warm / tf.maximum(step, warm))
    else:
        falling = 1.0
    return config.learning_rate * rising * falling


class AveragingAdamW(keras.optimizers.AdamW):
    """Keras's AdamW, one fused kernel per variable, with averages of the weights.

    `counts` is 1 for a normal step; with 0 and gradients of zero, everything stays as it is, bit
    for bit.  An average follows its weight by min(ema, t / (9 + t)), so that it is useful early on.
    Keras's own update takes eight passes over a variable; the kernel takes one.

    With several replicas it gets the gradients of the whole batch, and does not add them up.
    """

    counts = 1.0

    def __init__(self, *, ema: float, as_torch: bool = False, **kwargs):
        """`as_torch`: epsilon is added to the root of the *corrected* mean of squares."""
        super().__init__(**kwargs)
        self.ema, self._as_torch = ema, as_torch

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.averages = []
        if self.ema:
            (self.averages,) = self.add_optimizer_variables(variables, ["average"])
            for average, variable in zip(self.averages, variables, strict=True):
                average.assign(variable)

    def apply(self, grads, trainable_variables=None):
        # The numbers that are the same for all variables are made once: made for each, they were a
        # third of a step's ops.
        time, counts = tf.cast(self.iterations + 1, tf.float32), tf.cast(self.counts, tf.float32)
        beta_2_power = tf.pow(self.beta_2, time)
        passed, epsilon = tf.cast(self.iterations, tf.float32), tf.constant(self.epsilon)
        self._of_step = {
            "counts": counts,
            "beta1_power": tf.pow(self.beta_1, time),
            "beta2_power": beta_2_power,
            "beta1": 1.0 - counts * (1.0 - self.beta_1),
            "beta2": 1.0 - counts * (1.0 - self.beta_2),
            "epsilon": self.epsilon * tf.sqrt(1.0 - beta_2_power) if self._as_torch else epsilon,
            "share": (1.0 - tf.minimum(self.ema, passed / (9.0 + passed))) * counts,
        }
        return super().apply(grads, trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)

    def update_step(self, gradient, variable, learning_rate):
        number = self._get_variable_index(variable)
        kind = variable.dtype
        common = {name: tf.cast(value, kind) for name, value in self._of_step.items()}
        share, counts = common.pop("share"), common.pop("counts")
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[number].value.handle,
            v=self._velocities[number].value.handle,
            lr=tf.cast(learning_rate, kind) * counts,
            grad=tf.cast(gradient, kind),
            **common,
        )
        if self.ema:
            average = self.averages[number]
            self.assign_sub(average, (average.value - variable) * share)


class Learner:
    """The variables of some networks, and how they learn.

    Args:
      not_decaying: the variables that weight decay is not for; by default all vectors.
      as_torch: AdamW to the letter as PyTorch has it.
      beta_1: of AdamW.
    """

    def __init__(
        self,
        networks: Sequence[keras.Model],
        config: StageConfig,
        *,
        not_decaying: Sequence[keras.Variable] | None = None,
        as_torch: bool = False,
        beta_1: float = 0.9,
    ):
        self.config = config
        self.variables = [v for network in networks for v in network.trainable_variables]
        self.optimizer = AveragingAdamW(
            ema=config.ema,
            as_torch=as_torch,
            epsilon=1e-8 if as_torch else 1e-7,
            learning_rate=config.learning_rate,
            beta_1=beta_1,
            beta_2=config.beta_2,
            weight_decay=config.weight_decay,
        )
        if not_decaying is None:  # gains and offsets are not weights of anything
            not_decaying = [v for v in self.variables if len(v.shape) < 2]
        self.optimizer.exclude_from_weight_decay(var_list=not_decaying)
        self.optimizer.build(self.variables)

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> list[tf.Tensor]:
        tensors = [v.value for v in self.variables]
        found = tape.gradient(loss, tensors, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in found]

    def learn(self, gradients, *, norm, counts, step, planned) -> tf.Tensor:
        """One step with gradients of this norm, or none where `counts` is 0.0; returns the rate."""
        rate = scheduled_rate(self.config, step, planned)
        most = self.config.clip_norm or float("inf")
        clip = tf.minimum(1.0, most / tf.maximum(norm, 1e-12))
        clip = tf.where(counts > 0, clip, 0.0)
        self.optimizer.counts = counts
        self.optimizer.learning_rate.assign(rate * counts)
        # A product with 0 is 0 here, whatever the gradient is.
        self.optimizer.apply([tf.math.multiply_no_nan(g, clip) for g in gradients])
        self.optimizer.iterations.assign_sub(tf.cast(1.0 - counts, tf.int64))
        return rate

    def pairs(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Every weight with its average; none without an EMA."""
        averages = self.optimizer.averages
        return [(v.value, a.value) for v, a in zip(self.variables, averages, strict=bool(averages))]
