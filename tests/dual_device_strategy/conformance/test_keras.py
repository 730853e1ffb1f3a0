"""Keras under the strategy: the numbers of one device, with every kind of input."""

import contextlib
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from dual_device_strategy import DataModelSplitStrategy

RNG = np.random.default_rng(0)
X = RNG.random((50, 6), np.float32)
Y = RNG.integers(0, 3, 50)
BATCH = 8  # the last of the seven batches has two rows


def model(small=False, **compile_arguments):
    """`small` where the layers and their order do not matter: most of a fit is tracing."""
    keras.utils.set_random_seed(5)
    inputs = hidden = keras.Input([6])
    if not small:
        hidden = keras.layers.Dense(7, activation="relu", kernel_regularizer="l2")(hidden)
        hidden = keras.layers.BatchNormalization()(hidden)
    hidden = keras.layers.Dropout(0.2, seed=3)(hidden)
    made = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    made.compile(
        **{
            "optimizer": keras.optimizers.Adam(0.01, clipnorm=1.0),
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
            "jit_compile": False,
            **compile_arguments,
        }
    )
    return made


def dataset():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)


def under(strategy):
    return strategy.scope() if strategy else contextlib.nullcontext()


def everything(made, data, validation):
    """All numbers of a training, an evaluation and a prediction."""
    x, y, batch = (*data, BATCH) if isinstance(data, tuple) else (data, None, None)
    history = made.fit(
        x, y, batch_size=batch, shuffle=False, epochs=2, validation_data=validation, verbose=0
    )
    evaluated = made.evaluate(x, y, batch_size=batch, verbose=0)
    predicted = made.predict(x, batch_size=batch, verbose=0)
    return history.history, evaluated, predicted, made.get_weights()


@functools.cache
def usual(pair):
    """Everything of the plain model and dataset, under our strategy on these devices."""
    with DataModelSplitStrategy(*pair).scope():
        return everything(model(), dataset(), dataset())


def assert_same(mine, others):
    mine, others = (tf.nest.flatten(tf.nest.map_structure(np.asarray, t)) for t in (mine, others))
    for a, b in zip(mine, others, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("pair", "feed"), [("cpu", "arrays"), ("cpu", "dataset"), ("gpu", "dataset")], indirect=["pair"]
)
def test_fit_evaluate_and_predict_give_the_numbers_of_one_device(strategy, peers, pair, feed):
    if feed == "dataset":
        mine = usual(pair)
        with peers[0].scope():
            expected = everything(model(), dataset(), dataset())
    else:
        mine, expected = [], []
        for s, results in ((strategy, mine), (peers[0], expected)):
            with s.scope():
                results += everything(model(), (X, Y), (X[:9], Y[:9]))
    assert_same(mine, expected)
    assert mine[2].shape == (50, 3)


def test_a_regularized_layer_trains_as_without_a_strategy(pair, strategy):
    results = []
    for s in (strategy, None):
        with under(s), contextlib.nullcontext() if s else tf.device(pair[1]):
            layer = keras.layers.Dense(
                1,
                use_bias=False,
                kernel_initializer=keras.initializers.Constant(1),
                kernel_regularizer=keras.regularizers.L1L2(l1=0.01, l2=0.01),
            )
            inputs = keras.Input([1])
            made = keras.Model(inputs, layer(inputs))
            made.compile(loss="mse", optimizer="sgd", jit_compile=False)
            ones, zeros = np.ones([12, 1]), np.zeros([12, 1])
            history = made.fit(ones, zeros, batch_size=12, epochs=1, verbose=0)
            results.append((history.history["loss"], np.asarray(layer.kernel)))
    assert_same(*results)


def test_several_steps_per_execution_change_no_number(strategy, pair):
    plain = usual(pair)
    with strategy.scope():
        several = everything(model(steps_per_execution=3), dataset(), dataset())
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        np.testing.assert_allclose(plain[0][name], several[0][name], rtol=1e-6)
    assert_same(plain[1:], several[1:])


def test_keras_takes_a_dataset_that_is_distributed_already(strategy, pair):
    expected = usual(pair)
    with strategy.scope():
        distributed = strategy.experimental_distribute_dataset(dataset())
        from_function = strategy.distribute_datasets_from_function(lambda _: dataset())
        for data, steps in ((distributed, 1), (from_function, 2)):
            made = model(steps_per_execution=steps)
            results = everything(made, data, distributed)
            np.testing.assert_allclose(expected[0]["loss"], results[0]["loss"], rtol=1e-6)
            assert_same(expected[1:], results[1:])


def test_weights_of_classes_and_samples_count_as_on_one_device(strategy, peers):
    results = []
    weights = np.linspace(0.1, 1, 50, dtype=np.float32)
    for s in (strategy, peers[0]):
        with under(s):
            made = model(small=True)
            by_class = made.fit(dataset(), class_weight={0: 0.5, 1: 1.0, 2: 2.0}, verbose=0).history
            by_sample = made.fit(
                X, Y, batch_size=BATCH, sample_weight=weights, shuffle=False, verbose=0
            ).history
            results.append((by_class, by_sample, made.get_weights()))
    assert_same(*results)


def test_an_endless_dataset_is_resumed_where_the_epoch_ended(strategy, peers):
    results = []
    for s in (strategy, peers[0]):
        with under(s):
            made = model(small=True)
            history = made.fit(
                dataset().repeat(),
                steps_per_epoch=5,
                epochs=3,
                validation_data=dataset().repeat(),
                validation_steps=2,
                verbose=0,
            )
            results.append((history.history, made.get_weights()))
    assert_same(*results)


def test_the_epoch_iterator_sees_each_batch_with_its_own_size(strategy):
    iterator = TFEpochIterator(
        x=X, y=Y, sample_weight=np.ones(50), batch_size=BATCH, distribute_strategy=strategy
    )
    sizes = []
    for step, _, batches in iterator:
        x, y, weight = next(batches)
        assert x.shape[1:] == [6]
        assert len(x) == len(y) == len(weight)
        sizes.append((step, len(x)))
    assert sizes == [*((step, 8) for step in range(6)), (6, 2)]


def test_keras_variables_keep_how_they_are_aggregated_and_synchronized(strategy, peers, pair):
    seen = []
    for s in (strategy, peers[0]):
        with s.scope():
            variables = [
                keras.Variable(np.ones([2]), dtype="float32"),
                keras.Variable(np.ones([2]), dtype="float32", aggregation="sum"),
                keras.Variable(np.ones([2]), dtype="float32", synchronization="on_read"),
            ]
        assert all(v.value.device.endswith(pair[1]) for v in variables)
        seen.append(
            [
                (v.aggregation, v.synchronization, v.value.aggregation, v.value.synchronization)
                for v in variables
            ]
        )
    assert seen[0] == seen[1]


def test_a_seed_generator_counts_on_in_the_replica(strategy, peers):
    drawn = []
    for s in (strategy, peers[0]):
        with s.scope():
            seeds = keras.random.SeedGenerator(42)
        np.testing.assert_array_equal(s.run(lambda: seeds.state.value), (42, 0))
        drawn.append(
            [np.asarray(s.run(lambda: keras.random.normal([3], seed=seeds))) for _ in range(2)]
        )
    assert_same(*drawn)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, clipvalue=0.1),
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=0.5),
        lambda: keras.optimizers.RMSprop(0.01, use_ema=True, ema_overwrite_frequency=3),
        lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    ],
    ids=["clip", "decay", "ema", "accumulation"],
)
def test_an_optimizer_takes_the_steps_of_one_device(strategy, peers, pair, optimizer):
    weights = []
    for s in (strategy, peers[0]):
        with s.scope():
            made = model(small=True, optimizer=optimizer())
        made.fit(dataset(), epochs=1, verbose=0)
        assert all(v.value.device.endswith(pair[1]) for v in made.variables if v.dtype != "int32")
        weights.append(made.get_weights())
    assert_same(*weights)


def test_recurrent_and_embedding_layers_train_to_the_weights_of_one_device(strategy, peers):
    """An LSTM, and mixed precision: test_same_numbers.py."""
    tokens = RNG.integers(0, 20, (24, 5))
    targets = RNG.random((24, 1), np.float32)
    data = tf.data.Dataset.from_tensor_slices((tokens, targets)).batch(8)
    results = []
    for s in (strategy, peers[0]):
        keras.utils.set_random_seed(5)
        with s.scope():
            made = keras.Sequential(
                [
                    keras.layers.Embedding(20, 4, mask_zero=True),
                    keras.layers.GRU(3, use_cudnn=False),
                    keras.layers.Dense(1),
                ]
            )
            made.compile("adam", "mse", jit_compile=False)
        results.append((made.fit(data, epochs=2, verbose=0).history, made.get_weights()))
    assert_same(*results)


def test_an_untrained_model_predicts_from_every_kind_of_input(strategy, peers):
    results = []
    for s in (strategy, peers[0]):
        with s.scope():
            made = model(small=True)
            results.append(
                [
                    made.predict(X, batch_size=BATCH, verbose=0),
                    made.predict(dataset(), verbose=0),
                    made.predict(dataset().repeat(), steps=3, verbose=0),
                    made.predict_on_batch(X[:3]),
                    made.train_on_batch(X[:4], Y[:4]),
                    made.test_on_batch(X[:4], Y[:4]),
                ]
            )
    assert_same(*results)
