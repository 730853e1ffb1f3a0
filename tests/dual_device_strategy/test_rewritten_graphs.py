"""A program rewritten by graph optimizers or XLA computes the same as the program itself."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device
from dual_device_strategy.validate.placement import _traced

pytestmark = pytest.mark.rewritten_graphs

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(32, 8, 8, 3).astype("float32")
Y = RANDOM.randn(32, 4).astype("float32")


def network():
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(8, activation="gelu"),
            layers.Dense(4),
        ]
    )


def losses_and_ops():
    """Of `fit`, and of an own step: what a pass of the data costs, and the ops that ran."""
    keras.utils.set_random_seed(3)
    strategy = DataModelSplitStrategy("GPU:1", "GPU:0")
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    dataset = dataset.apply(on_data_device(lambda x, y: (x * 0.5 + 0.25, y)))
    with strategy.scope():
        model = network()
        model.compile(keras.optimizers.Adam(1e-2), "mse")
    fitted = model.fit(dataset, epochs=2, verbose=0).history["loss"]

    @tf.function
    def step(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        return loss, tape.gradient(loss, model.trainable_variables)

    batch = next(iter(strategy.experimental_distribute_dataset(dataset)))
    (loss, _), ops = _traced(lambda: strategy.run(step, args=(batch,)))
    return [*fitted, float(loss)], {kind for _, kind in ops}


def test_fit_and_own_steps_give_the_same_losses_by_rewritten_graphs_as_by_their_own():
    before = tf.config.optimizer.get_experimental_options()
    rewritten, fused = losses_and_ops()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        own, as_written = losses_and_ops()
    finally:
        tf.config.optimizer.set_experimental_options({**before, "disable_meta_optimizer": False})
    assert any(kind.startswith("_Fused") for kind in fused)
    assert not any(kind.startswith("_Fused") for kind in as_written)
    np.testing.assert_allclose(rewritten, own, rtol=1e-5)


XLA = """
import json, keras, numpy as np, tensorflow as tf
from dual_device_strategy import DataModelSplitStrategy, on_data_device

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
X = np.random.RandomState(0).randn(32, 6).astype("float32")

def run(compiled):
    keras.utils.set_random_seed(3)
    # Keras compiles more than the step, for TensorFlow's default device: `fit` needs the model
    # there, under OneDeviceStrategy as well. Own steps do not.
    strategy = DataModelSplitStrategy("CPU:1", "CPU:0")
    dataset = tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(8)
    dataset = dataset.apply(on_data_device(lambda x, y: (x * 0.5, y)))
    with strategy.scope():
        layers = [keras.layers.Dense(8, activation="gelu"), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=compiled)
    fitted = model.fit(dataset, epochs=2, verbose=0).history["loss"]
    weights = model.trainable_variables

    @tf.function(jit_compile=compiled)
    def step(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def epoch(batches):
        total = 0.0
        for _ in range(4):
            total += strategy.run(step, args=(next(batches),))
        return total

    distributed = strategy.experimental_distribute_dataset(dataset)
    own = [float(strategy.run(step, args=(batch,))) for batch in distributed]
    text = step.experimental_get_compiler_ir(next(iter(distributed)))() if compiled else ""
    return {
        "fit": fitted, "own": own, "function": [float(epoch(iter(distributed)))],
        "compiled": bool(model.jit_compile), "hlo": text[:9],
        "devices": sorted({weight.value.device[-5:] for weight in weights}),
    }

print(json.dumps([run(True), run(False)]))
"""


@pytest.fixture(scope="module")
def with_xla_and_without(run_python):
    """In a process of its own: beside emulated GPUs Keras is kept from choosing XLA."""
    done = run_python(XLA)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("loop", ["fit", "own", "function"])
def test_steps_that_xla_compiles_give_the_losses_of_steps_that_it_does_not(
    loop, with_xla_and_without
):
    compiled, plain = with_xla_and_without
    assert (compiled["compiled"], plain["compiled"]) == (True, False)
    assert compiled["hlo"] == "HloModule"
    assert compiled["devices"] == ["CPU:0"]
    np.testing.assert_allclose(compiled[loop], plain[loop], rtol=1e-5)
