"""Layers that know the names of their weights in a published file.

`names` is the layer's place in the table of published names. A layer has all its weights as soon as
it is made. PyTorch keeps channels before time; here they are always last.
"""

import math

import keras
import tensorflow as tf

from myxtts.model import whole_batch
from myxtts.model.layers import Norm, normal
from myxtts.xtts_v2.names import Names


def linear(
    names: Names, inputs: int, outputs: int, *, bias: bool = True, deviation: float | None = None
) -> keras.layers.Dense:
    """torch.nn.Linear: published as [outputs, inputs]."""
    layer = _dense(names, inputs, outputs, deviation=deviation, bias=bias)
    names.add("weight", layer.kernel, axes=(1, 0), layer=layer)
    return _with_bias(names, layer)


def pointwise(names: Names, inputs: int, outputs: int) -> keras.layers.Dense:
    """torch.nn.Conv1d of kernel 1: published as [outputs, inputs, 1]."""
    layer = _dense(names, inputs, outputs)
    names.add("weight", layer.kernel, axes=(1, 0), ones=1, layer=layer)
    return _with_bias(names, layer)


def gpt2_linear(
    names: Names, inputs: int, outputs: int, *, deviation: float = 0.02
) -> keras.layers.Dense:
    """GPT-2's own linear layer: published as [inputs, outputs], as Keras has it."""
    layer = _dense(names, inputs, outputs, deviation=deviation)
    names.add("weight", layer.kernel, layer=layer)
    return _with_bias(names, layer)


def layer_norm(names: Names, width: int) -> Norm:
    """torch.nn.LayerNorm over the channels."""
    layer = Norm(width)
    names.add("weight", layer.scale, decays=False)
    names.add("bias", layer.offset, decays=False)
    return layer


def group_norm(names: Names, width: int) -> keras.layers.GroupNormalization:
    """The published code's GroupNorm over time and the channels of a group, in float32."""
    groups = 8 if width <= 16 else 16 if width <= 64 else 32
    while width % groups:
        groups //= 2
    layer = keras.layers.GroupNormalization(groups, epsilon=1e-5, dtype="float32")
    layer.build((None, None, width))
    names.add("weight", layer.gamma, decays=False)
    names.add("bias", layer.beta, decays=False)
    return layer


class BatchNorm(keras.layers.Layer):
    """torch.nn.BatchNorm over all but the channels, in float32. In training the whole batch is its
    own measure, on all replicas together, and the moving statistics follow it."""

    _MOMENTUM, _EPSILON = 0.1, 1e-5

    def __init__(self, names: Names, width: int):
        super().__init__(autocast=False)

        def weight(start, **options):
            return self.add_weight(shape=(width,), initializer=start, autocast=False, **options)

        # Equal on all replicas.
        state = {"trainable": False, "aggregation": "only_first_replica"}
        self.gain, self.offset = weight("ones"), weight("zeros")
        self.mean, self.variance = weight("zeros", **state), weight("ones", **state)
        names.add("weight", self.gain)
        names.add("bias", self.offset)
        names.add("running_mean", self.mean)
        names.add("running_var", self.variance)
        names.carry("num_batches_tracked", 0)
        self.built = True

    def call(self, x, training=False):
        wide = tf.cast(x, tf.float32)
        mean, variance = tf.convert_to_tensor(self.mean), tf.convert_to_tensor(self.variance)
        if training:
            mean, variance = self._measured(wide)
        made = tf.nn.batch_normalization(
            wide,
            mean,
            variance,
            offset=tf.convert_to_tensor(self.offset),
            scale=tf.convert_to_tensor(self.gain),
            variance_epsilon=self._EPSILON,
        )
        return tf.cast(made, self.compute_dtype)

    def _measured(self, x):
        mean, variance, count = whole_batch.moments(x)
        # A step with numbers that are not finite is left out by the trainer.
        sane = tf.reduce_all(tf.math.is_finite(mean) & tf.math.is_finite(variance))
        unbiased = variance * count / tf.maximum(count - 1.0, 1.0)
        for moving, now in ((self.mean, mean), (self.variance, unbiased)):
            moved = moving + self._MOMENTUM * (tf.stop_gradient(now) - moving)
            moving.assign(tf.where(sane, moved, moving))
        return mean, variance


class Conv1D(keras.layers.Layer):
    """torch.nn.Conv1d with an odd kernel: published as [outputs, inputs, kernel]. It pads both ends
    with zeros and returns one place for every `stride` places."""

    def __init__(
        self,
        names: Names,
        inputs: int,
        outputs: int,
        size: int,
        *,
        stride: int = 1,
        bias: bool = True,
    ):
        super().__init__()
        self.pad = size // 2
        self.conv = keras.layers.Conv1D(
            outputs,
            size,
            stride,
            use_bias=bias,
            kernel_initializer=names.initializer("glorot_uniform"),
        )
        self.conv.build((None, None, inputs))
        names.add("weight", self.conv.kernel, axes=(2, 1, 0))
        _with_bias(names, self.conv)
        self.built = True

    def call(self, x):
        return self.conv(tf.pad(x, [[0, 0], [self.pad, self.pad], [0, 0]]))


class WeightNormConv1D(keras.layers.Layer):
    """A convolution whose weight is kept as length and direction: `gain * direction / |direction|`
    for every output channel; for every input channel where it is `transposed`.

    A transposed one returns `rate` places for every input place, another one a place for every
    `stride`. With `groups`, a channel sees only the channels of its group.
    """

    def __init__(
        self,
        names: Names,
        inputs: int,
        outputs: int,
        size: int,
        *,
        dilation: int = 1,
        rate: int | None = None,
        stride: int = 1,
        groups: int = 1,
        gain: float = 3**-0.5,  # as weights begin in PyTorch
    ):
        super().__init__()
        self.size, self.dilation, self.rate, self.outputs = size, dilation, rate, outputs
        self.stride, self.groups = stride, groups
        inputs //= groups
        self.avoids_dilation = False  # see `HifiGan.prepare_training`
        shape = (size, inputs, outputs) if rate is None else (size, outputs, inputs)
        draw = keras.initializers.RandomNormal(stddev=0.5 / math.sqrt(size * inputs))
        # Always in float32: in half precision, rounding changes the lengths too much.
        self.direction = self.add_weight(
            shape=shape, initializer=names.initializer(draw), autocast=False
        )
        self.gain = self.add_weight(
            shape=shape[2:], initializer=keras.initializers.Constant(gain), autocast=False
        )
        self.bias = self.add_weight(shape=(outputs,), initializer="zeros")
        names.add("parametrizations.weight.original0", self.gain, ones=2)
        names.add("parametrizations.weight.original1", self.direction, axes=(2, 1, 0))
        names.add("bias", self.bias, decays=False)
        self.built = True

    def call(self, x):
        direction = tf.convert_to_tensor(self.direction)
        per_length = tf.math.rsqrt(tf.reduce_sum(tf.square(direction), [0, 1]))
        kernel = tf.cast(direction * (self.gain * per_length), x.dtype)
        if self.rate is None:
            pad = self.dilation * (self.size // 2)
            x = tf.pad(x, [[0, 0], [pad, pad], [0, 0]])
            return tf.nn.bias_add(self._convolved(x, kernel), self.bias)
        batch, steps = tf.unstack(tf.shape(x)[:2])
        whole = [batch, (steps - 1) * self.rate + self.size, self.outputs]
        crop = (self.size - self.rate) // 2
        x = tf.nn.conv1d_transpose(x, kernel, whole, self.rate, "VALID")
        return tf.nn.bias_add(x[:, crop : crop + steps * self.rate], self.bias)

    def _convolved(self, x, kernel):
        if self.groups > 1:
            # TensorFlow has no gradient of grouped convolutions on CPUs without oneDNN.
            x = tf.signal.frame(x, self.size, self.stride, axis=1)
            steps = tf.shape(x)[:2]
            x = tf.reshape(x, [*tf.unstack(steps), self.size, self.groups, kernel.shape[1]])
            kernel = tf.reshape(kernel, [*kernel.shape[:2], self.groups, -1])
            return tf.reshape(
                tf.einsum("btkgi,kigo->btgo", x, kernel), [*tf.unstack(steps), self.outputs]
            )
        if self.stride > 1:
            return tf.nn.conv1d(x, kernel, self.stride, "VALID")
        if self.dilation == 1 or not self.avoids_dilation:
            return tf.nn.conv1d(x, kernel, 1, "VALID", dilations=self.dilation)

        def apart(x, num_spatial_dims, padding):
            return tf.nn.conv1d(x, kernel, 1, padding)

        return tf.nn.with_space_to_batch(
            x, [self.dilation], "VALID", apart, filter_shape=[self.size], spatial_dims=[1]
        )


def _dense(names, inputs, outputs, *, deviation=None, bias=True):
    draw = "glorot_uniform" if deviation is None else normal(deviation)
    layer = keras.layers.Dense(outputs, use_bias=bias, kernel_initializer=names.initializer(draw))
    layer.build((None, inputs))
    return layer


def _with_bias(names, layer):
    if layer.use_bias:
        names.add("bias", layer.bias, decays=False)
    return layer
