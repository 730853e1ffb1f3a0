"""Training under the strategy gives the very numbers of TensorFlow's own strategies.

MirroredStrategy, which takes as long as both others, is compared in one kind of loop here, and in
conformance/test_training_loops.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, on_data_device

pytestmark = pytest.mark.rewritten_graphs

X = np.random.RandomState(0).randn(72, 6, 4).astype("f")
Y = (X.sum((1, 2)) > 0).astype("i")


def strategies():
    return {
        "ours": DataModelSplitStrategy("CPU:1", "CPU:2"),
        "one device": tf.distribute.OneDeviceStrategy("CPU:2"),
    }


def front_end(x, y):
    noise = tf.random.stateless_normal(tf.shape(x), [1, 2])
    return tf.math.log1p(tf.abs(x)) * tf.sign(x) + 0.1 * noise, y


def dataset():
    return (
        tf.data.Dataset.from_tensor_slices((X, Y))
        .shuffle(72, seed=4)
        .batch(10)  # the last batch is a partial one
        .apply(on_data_device(front_end))
    )


def layers(*first):
    return keras.Sequential(
        [
            *first,
            keras.layers.Conv1D(8, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3, seed=5),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2),
        ]
    )


def equal(results):
    ours = results.pop("ours")
    for name, peer in results.items():
        assert len(ours) == len(peer)
        for a, b in zip(ours, peer, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"ours and {name}")


def test_fit_evaluate_and_predict_give_the_same_bits():
    """Several steps in an execution: conformance/test_keras.py."""

    def train(strategy):
        keras.utils.set_random_seed(7)
        with tf.device("CPU:0"), strategy.scope():
            model = layers(keras.layers.LSTM(8, return_sequences=True))
            model.compile(
                keras.optimizers.Adam(1e-2, clipnorm=1.0),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
            )
            history = model.fit(dataset(), validation_data=dataset(), epochs=2, verbose=0).history
            return [
                *(history[key] for key in sorted(history)),
                model.evaluate(dataset(), verbose=0),
                model.predict(X, verbose=0),
                *model.get_weights(),
            ]

    equal({name: train(strategy) for name, strategy in strategies().items()})


@pytest.mark.parametrize("loop", ["eager", "step in a function", "loop in a function"])
def test_a_custom_loop_gives_the_same_bits(loop):
    def train(strategy):
        keras.utils.set_random_seed(7)
        with tf.device("CPU:0"), strategy.scope():
            model = layers()
            model.build([None, 6, 4])
            optimizer = keras.optimizers.AdamW(1e-2)
            optimizer.build(model.trainable_variables)
        distributed = strategy.experimental_distribute_dataset(dataset())

        def step(batch):
            x, y = batch
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
                )
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        def run(batch):
            return strategy.reduce("MEAN", strategy.run(step, args=(batch,)), axis=None)

        losses = []
        if loop == "loop in a function":

            @tf.function
            def epoch(batches):
                total = 0.0
                for batch in batches:
                    total += run(batch)
                return total

            losses = [epoch(distributed).numpy() for _ in range(2)]
        else:
            run = tf.function(run) if loop == "step in a function" else run
            for _ in range(2 if loop != "eager" else 1):
                losses += [run(batch).numpy() for batch in distributed]
        return [losses, *model.get_weights()]

    compared = strategies()
    if loop == "step in a function":
        compared["mirrored"] = tf.distribute.MirroredStrategy(["CPU:2"])
    equal({name: train(strategy) for name, strategy in compared.items()})


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_gives_the_same_numbers(policy):
    def train(strategy):
        keras.utils.set_random_seed(7)
        with tf.device("CPU:0"), strategy.scope():
            model = keras.Sequential(
                [keras.layers.Flatten(), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
            )
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            history = model.fit(dataset(), epochs=2, verbose=0).history
            scale = getattr(model.optimizer, "dynamic_scale", None)
        scale = 0.0 if scale is None else keras.ops.convert_to_numpy(scale)
        return [history["loss"], [scale], *model.get_weights()]

    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        results = {name: train(strategy) for name, strategy in strategies().items()}
    finally:
        keras.mixed_precision.set_global_policy(before)
    assert (results["ours"][1][0] > 1) == (policy == "mixed_float16")
    equal(results)


def test_sparse_gradients_of_an_embedding_give_the_same_bits():
    ids = np.random.RandomState(1).randint(0, 20, [32, 5])

    def train(strategy):
        keras.utils.set_random_seed(7)
        with tf.device("CPU:0"), strategy.scope():
            table = tf.Variable(tf.random.stateless_normal([20, 3], [3, 4]))
            momentum = keras.optimizers.SGD(0.1, momentum=0.9)
            momentum.build([table])
        kinds = []

        @tf.function
        def step(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, batch) ** 2)
            gradient = tape.gradient(loss, table)
            kinds.append(type(gradient))
            momentum.apply_gradients([(gradient, table)])
            return loss

        batches = tf.data.Dataset.from_tensor_slices(ids).batch(8)
        losses = [
            strategy.experimental_local_results(strategy.run(step, args=(batch,)))[0].numpy()
            for batch in strategy.experimental_distribute_dataset(batches)
        ]
        assert kinds[0] is tf.IndexedSlices
        return [losses, table.numpy()]

    equal({name: train(strategy) for name, strategy in strategies().items()})


def test_on_emulated_gpus_the_losses_are_the_cpus_to_rounding():
    def train(strategy):
        keras.utils.set_random_seed(7)
        with strategy.scope():
            model = layers()
            model.compile(
                keras.optimizers.Adam(1e-2),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            )
            losses = model.fit(dataset(), epochs=2, verbose=0).history["loss"]
        devices = {v.value.device[-5:] for v in [*model.variables, *model.optimizer.variables]}
        return losses, devices

    ours, devices = train(DataModelSplitStrategy("GPU:0", "GPU:1"))
    with tf.device("CPU:0"):
        peer, _ = train(tf.distribute.OneDeviceStrategy("CPU:2"))
    assert devices == {"GPU:1"}
    np.testing.assert_allclose(ours, peer, rtol=1e-4)
