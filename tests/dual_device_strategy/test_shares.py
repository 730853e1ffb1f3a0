"""Unequal shares of the rows: the data device trains too."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy, on_data_device
from dual_device_strategy.replicas.pieces import Cut
from tests.dual_device_strategy.test_mirrored import front_end, pieces, signals, train

SHARED = (["CPU:1"], ["CPU:2", "CPU:1"])


@pytest.mark.parametrize(
    ("shares", "rows", "edges"),
    [
        ((0.7, 0.3), 10, [0, 7, 10]),
        ((0.7, 0.3), 24, [0, 17, 24]),
        ((1 / 3, 1 / 3, 1 / 3), 24, [0, 8, 16, 24]),
        ((0.9, 0.1), 1, [0, 1, 1]),
        ((0.6, 0.2, 0.2), 0, [0, 0, 0, 0]),
    ],
)
def test_shares_are_whole_rows_and_lose_none(shares, rows, edges):
    cut = Cut(len(shares), shares=shares)
    assert cut.edges(rows) == edges
    assert [int(edge) for edge in cut.edges(tf.constant(rows))] == edges


def test_the_rows_of_each_replica_follow_its_share():
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares=(0.75, 0.25))
    dataset = tf.data.Dataset.range(20).batch(8).apply(on_data_device(tf.identity))
    assert [[len(piece) for piece in batch] for batch in pieces(strategy, dataset)] == [
        [6, 2],
        [6, 2],
        [3, 1],
    ]


def test_sums_over_the_global_batch_have_the_gradients_of_one_device():
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares=(0.7, 0.3))
    losses, weights = train(strategy, signals(50, 16).apply(on_data_device(front_end)), 16)
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    expected, expected_weights = train(one, signals(50, 16).map(front_end), 16)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5, atol=1e-6)


def test_fit_has_the_gradients_of_one_device_where_row_weights_are_given():
    def fitted(strategy, dataset):
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(4, kernel_initializer="ones")])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.SGD(0.1), loss)
        model.fit(dataset, epochs=2, verbose=0)
        return model.get_weights()

    strategy = MirroredDataModelSplitStrategy(*SHARED, shares=(0.7, 0.3))
    dataset = signals(48, 16).apply(on_data_device(front_end))
    trained = fitted(strategy, dataset.apply(strategy.row_weights))
    expected = fitted(tf.distribute.OneDeviceStrategy("CPU:0"), signals(48, 16).map(front_end))
    for one, other in zip(trained, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_shares_without_a_row_for_a_replica_are_refused():
    strategy = MirroredDataModelSplitStrategy(*SHARED, shares=(0.9, 0.1))
    with pytest.raises(ValueError, match=r"of a batch of 4 rows are \[4, 0\] rows"):
        strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))
