"""Ordinary Keras programs train on emulated GPUs, unmodified, to the CPU's losses."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from dual_device_strategy import emulation

RANDOM = np.random.RandomState(0)
X, Y = RANDOM.randn(32, 20, 8).astype("float32"), RANDOM.randn(32, 1).astype("float32")


def pooled(*stack):
    def apply(x):
        for layer in stack:
            x = layer()(x)
        return layers.GlobalAveragePooling1D()(x)

    return apply


def embedding(x):
    tokens = keras.ops.cast(keras.ops.clip(x[:, :, 0] * 3 + 5, 0, 9), "int32")
    return layers.Flatten()(layers.Embedding(10, 4)(tokens))


MODELS = {
    "dense": lambda x: layers.Dense(16, activation="relu")(layers.Flatten()(x)),
    "lstm": lambda x: layers.Bidirectional(layers.LSTM(6))(x),
    "gru": lambda x: layers.GRU(6)(x),
    "convolutions": pooled(
        lambda: layers.Conv1D(8, 5, padding="causal", activation="gelu"),
        lambda: layers.Conv1DTranspose(8, 4, strides=2, padding="same"),
        lambda: layers.Conv1D(8, 3, dilation_rate=3, padding="same"),
        lambda: layers.SeparableConv1D(8, 3),
    ),
    "convolution_2d": lambda x: layers.GlobalAveragePooling2D()(
        layers.Conv2D(4, 3, activation="relu")(layers.Reshape((20, 8, 1))(x))
    ),
    "attention": lambda x: pooled(layers.LayerNormalization)(
        x + layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    ),
    "normalisation": pooled(layers.BatchNormalization, lambda: layers.Dropout(0.3)),
    "embedding": embedding,
}


def losses(model, scope, optimizer=None):
    """Three steps, of which the last two see what the first ones changed."""
    keras.utils.set_random_seed(7)
    with scope:
        inputs = keras.Input((20, 8))
        model = keras.Model(inputs, layers.Dense(1, dtype="float32")(MODELS[model](inputs)))
        model.compile(optimizer or keras.optimizers.Adam(1e-2), "mse")
        history = model.fit(X[:24], Y[:24], batch_size=8, shuffle=False, verbose=0)
    return history.history["loss"], {variable.value.device[-5:] for variable in model.variables}


@pytest.mark.parametrize("model", MODELS)
def test_keras_fit_with_defaults_on_an_emulated_gpu_gives_the_cpu_losses(model):
    on_cpu, _ = losses(model, tf.device("/CPU:0"))
    with emulation.measure() as use:
        on_gpu, places = losses(model, tf.device("/GPU:1"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4)
    assert places == {"GPU:1"}
    assert use[1].compute_seconds > 0 and use[0].compute_seconds == 0


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop", "sgd"])
def test_optimizers_with_clipping_give_the_cpu_losses(optimizer):
    def make():
        return keras.optimizers.get(
            {"class_name": optimizer, "config": {"learning_rate": 1e-2, "global_clipnorm": 0.5}}
        )

    on_cpu, _ = losses("dense", tf.device("/CPU:0"), make())
    on_gpu, _ = losses("dense", tf.device("/GPU:0"), make())
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_gives_the_cpu_losses(policy):
    keras.mixed_precision.set_global_policy(policy)
    try:
        on_cpu, _ = losses("convolutions", tf.device("/CPU:0"))
        on_gpu, _ = losses("convolutions", tf.device("/GPU:1"))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=2e-2)


def test_mirrored_strategy_with_defaults_trains_on_both_to_the_cpu_losses():
    on_cpu, _ = losses("gru", tf.device("/CPU:0"))
    strategy = tf.distribute.MirroredStrategy()
    assert strategy.num_replicas_in_sync == 2
    with emulation.measure() as use:
        mirrored, _ = losses("gru", strategy.scope())
    np.testing.assert_allclose(mirrored, on_cpu, rtol=1e-4)
    assert all(one.compute_seconds > 0 for one in use)


def test_a_checkpoint_saves_and_restores_variables_of_an_emulated_gpu(tmp_path):
    with tf.device("/GPU:1"):
        variable = tf.Variable(tf.random.normal([100]))
    before = variable.numpy()
    path = tf.train.Checkpoint(variable=variable).save(tmp_path / "checkpoint")
    variable.assign(tf.zeros([100]))
    tf.train.Checkpoint(variable=variable).restore(path)
    np.testing.assert_array_equal(variable, before)
    assert variable.device.endswith("GPU:1")


def test_a_dataset_prefetched_to_an_emulated_gpu_arrives_there():
    dataset = tf.data.Dataset.range(10).map(lambda i: tf.fill([100], tf.cast(i, tf.float32)))
    arrived = list(dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:1")))
    assert {batch.device[-5:] for batch in arrived} == {"GPU:1"}
    assert [float(batch[0]) for batch in arrived] == list(range(10))
