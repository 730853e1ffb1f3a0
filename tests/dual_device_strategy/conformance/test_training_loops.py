"""Custom training loops: the same losses and weights as without a strategy, bit for bit."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy

pytestmark = pytest.mark.rewritten_graphs

RNG = np.random.default_rng(1)
X = RNG.random((66, 1), np.float32)
DATA = tf.data.Dataset.from_tensor_slices((X, 3 * X)).batch(32)  # the last batch has two rows
EPOCHS = 2


@pytest.fixture
def everyone(strategy, peers):
    """MirroredStrategy trains in one test of its own."""
    return [strategy, peers[0]]


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adam": lambda: keras.optimizers.Adam(0.01),
}


def trained(strategy, optimizer, iterated, looped):
    """Weights, losses and a metric after two epochs over DATA."""
    keras.utils.set_random_seed(3)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential(
            [
                keras.Input([1]),
                keras.layers.Dense(10, activation="relu", kernel_regularizer="l2"),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(1),
            ]
        )
        optimizer = OPTIMIZERS[optimizer]()
        optimizer.build(model.trainable_variables)
        metric = keras.metrics.MeanAbsoluteError()

    def replica_step(batch):
        samples, labels = batch
        with tf.GradientTape() as tape:
            outputs = model(samples, training=True)
            loss = tf.nn.compute_average_loss(
                keras.losses.mean_squared_error(labels, outputs), global_batch_size=32
            ) + tf.nn.scale_regularization_loss(tf.add_n(model.losses))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(labels, outputs)
        return loss

    def step(batch):
        if not strategy:
            return replica_step(batch)
        return strategy.reduce("SUM", strategy.run(replica_step, args=(batch,)), axis=None)

    data = strategy.experimental_distribute_dataset(DATA) if strategy else DATA
    if looped == "inside":

        @tf.function
        def epoch(data):
            total = 0.0
            if iterated == "dataset":
                for batch in data:
                    total += step(batch)
            else:
                iterator = iter(data)
                for _ in range(3):
                    total += step(next(iterator))
            return total

        losses = [epoch(data).numpy() for _ in range(EPOCHS)]
    else:
        traced = tf.function(step)
        losses = []
        for _ in range(EPOCHS):
            iterator = iter(data)
            batches = data if iterated == "dataset" else (next(iterator) for _ in range(3))
            losses.append(np.sum([traced(batch).numpy() for batch in batches], dtype=np.float32))
    return [*model.get_weights(), *losses, metric.result().numpy()]


@pytest.mark.parametrize(
    ("pair", "optimizer"),
    [("gpu", "sgd"), *(("cpu", name) for name in OPTIMIZERS)],
    indirect=["pair"],
)
def test_every_kind_of_loop_trains_to_the_same_numbers_as_one_device(strategy, peers, optimizer):
    ways = itertools.product(["dataset", "iterator"], ["inside", "outside"])
    for iterated, looped in ways if optimizer == "adam" else [("dataset", "inside")]:
        ours = trained(strategy, optimizer, iterated, looped)
        theirs = trained(peers[0], optimizer, iterated, looped)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_a_loop_trains_as_under_mirrored_and_nearly_as_without_a_strategy():
    ours, mirrored, plain = (
        trained(s, "sgd", "dataset", "inside")
        for s in (
            DataModelSplitStrategy("CPU:1", "CPU:2"),
            tf.distribute.MirroredStrategy(["CPU:2"]),
            None,
        )
    )
    for mine, other, without in zip(ours, mirrored, plain, strict=True):
        np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(mine, without, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outermost", ["run in a function", "function in run", "both", "neither"])
def test_gradients_are_the_same_whichever_call_is_outermost(everyone, outermost):
    for strategy in everyone:
        dataset = tf.data.Dataset.from_tensors([5.0, 6.0, 7.0, 8.0]).batch(1)

        def gradient(x):
            def square(values):
                return tf.reduce_sum(values * values)

            with tf.GradientTape() as tape:
                tape.watch(x)
                y = square(x)
            return tape.gradient(y, x)

        replica = tf.function(gradient) if outermost in ("function in run", "both") else gradient

        def step(batch, strategy=strategy, replica=replica):
            return strategy.run(replica, args=(batch,))

        step = tf.function(step) if outermost in ("run in a function", "both") else step
        (batch,) = strategy.experimental_distribute_dataset(dataset)
        assert np.asarray(step(batch)).tolist() == [[10, 12, 14, 16]]


def test_state_changed_in_a_step_whose_result_is_not_used_still_changes(everyone):
    for strategy in everyone:
        with strategy.scope():
            count = tf.Variable(0.0)

        @tf.function
        def train(iterator, strategy=strategy, count=count):
            for _ in tf.range(4):
                strategy.run(lambda batch: count.assign_add(batch), args=(next(iterator),))

        dataset = tf.data.Dataset.from_tensors(1.5).repeat()
        train(iter(strategy.experimental_distribute_dataset(dataset)))
        assert count.numpy() == 6


def test_batches_of_changing_size_go_through_dynamic_ops(everyone):
    dataset = tf.data.Dataset.range(1, 8, output_type=tf.int32).batch(3)
    for strategy in everyone:

        @tf.function
        def step(batch, strategy=strategy):
            def replica(batch):
                tf.debugging.assert_positive(batch)
                squares = tf.map_fn(lambda v: v * v, batch)
                odd = tf.boolean_mask(squares, batch % 2 == 1)
                sums = tf.math.segment_sum(batch, batch // 4)
                return tf.size(batch) + tf.reduce_sum(odd), tf.reshape(sums, [-1, 1])

            return strategy.run(replica, args=(batch,))

        results = [step(b) for b in strategy.experimental_distribute_dataset(dataset)]
        assert [int(total) for total, _ in results] == [13, 28, 50]
        assert [r.shape[0] for _, r in results] == [1, 2, 2]


def test_an_empty_batch_goes_through_a_normalization(everyone):
    for strategy in everyone:
        with strategy.scope():
            layer = keras.layers.BatchNormalization()
            layer.build([None, 4])
        dataset = tf.data.Dataset.from_tensor_slices([3, 0, 2]).map(lambda size: tf.ones([size, 4]))

        @tf.function
        def step(batch, strategy=strategy, layer=layer):
            return strategy.run(layer, args=(batch,), kwargs={"training": False})

        shapes = [step(b).shape for b in strategy.experimental_distribute_dataset(dataset)]
        assert [tuple(s) for s in shapes] == [(3, 4), (0, 4), (2, 4)]


def test_metrics_made_in_and_out_of_the_scope_see_every_element_once(everyone):
    for strategy in everyone:
        with strategy.scope():
            inside = keras.metrics.Mean()
        outside = keras.metrics.Mean()

        @tf.function
        def step(batch, strategy=strategy, inside=inside):
            strategy.run(lambda b: inside.update_state(b), args=(batch,))

        for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4)):
            step(batch)
        with strategy.scope():
            for value in range(10):
                outside.update_state(value)
        assert float(inside.result()) == float(outside.result()) == 4.5


def test_variables_given_to_run_stay_variables(everyone):
    for strategy in everyone:
        with strategy.scope():
            layer = keras.layers.Dense(1)
            layer.build([None, 2])
            optimizer = keras.optimizers.SGD(0.1)
            optimizer.build(layer.trainable_variables)

        @tf.function
        def step(batch, strategy=strategy, layer=layer, optimizer=optimizer):
            def replica(variables, batch):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((layer(batch) - 1.0) ** 2)
                optimizer.apply_gradients(
                    zip(tape.gradient(loss, variables), layer.trainable_variables, strict=True)
                )
                return loss

            values = [v.value for v in layer.trainable_variables]
            return strategy.run(replica, args=(values, batch))

        (batch,) = strategy.experimental_distribute_dataset(
            tf.data.Dataset.from_tensors(tf.ones([4, 2]))
        )
        losses = [float(step(batch)) for _ in range(3)]
        assert losses == sorted(losses, reverse=True)
        assert losses[0] > losses[2]
