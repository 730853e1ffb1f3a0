"""Reductions, gathers and per-replica values, beside TensorFlow's own strategies."""

import numpy as np
import pytest
import tensorflow as tf

OPS = [tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN]


@pytest.mark.parametrize("op", [*OPS, "SUM", "mean"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_reduce(everyone, op, axis, mode):
    values = tf.constant([[1.0, 2.0], [3.0, 10.0], [-4.0, 6.0]])
    reduced = []
    for strategy in everyone:

        @mode
        def run(values, strategy=strategy):
            return strategy.reduce(op, strategy.run(lambda v: v * 2, args=(values,)), axis=axis)

        reduced.append(np.asarray(run(values)))
    numpy_op = np.sum if "SUM" in str(op).upper() else np.mean
    doubled = 2 * values.numpy()
    expected = doubled if axis is None else numpy_op(doubled, axis=axis)
    for value in reduced:
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "nested"])
def test_all_reduce_in_the_replica_and_its_gradient(strategy, peers, op, kind, mode):
    def value(x):
        if kind == "dense":
            return x
        slices = tf.IndexedSlices(x, tf.constant([0, 2]), dense_shape=tf.constant([4, 2]))
        return slices if kind == "sparse" else {"a": x, "b": [slices, x * 2]}

    def densified(structure):
        return [tf.convert_to_tensor(v) for v in tf.nest.flatten(structure)]

    results = []
    for s in (strategy, peers[0]):  # one-device collectives of MirroredStrategy share their keys

        def replica(x):
            context = tf.distribute.get_replica_context()
            with tf.GradientTape() as tape:
                tape.watch(x)
                reduced = densified(context.all_reduce(op, value(x)))
                loss = tf.add_n([tf.reduce_sum(r * r) for r in reduced])
            gradient = tape.gradient(loss, x) if kind == "dense" else []
            return *reduced, *tf.nest.flatten(gradient)

        @mode
        def run(x, strategy=s, replica=replica):
            return strategy.run(replica, args=(x,))

        results.append([r.numpy().tolist() for r in run(tf.constant([[1.0, 2.0], [3.0, 4.0]]))])
    assert results[0] == results[1]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_and_all_gather_concatenate_one_value(everyone, axis, mode):
    value = tf.reshape(tf.range(8.0), [2, 2, 2])
    for strategy in everyone:

        @mode
        def run(strategy=strategy):
            gathered = strategy.gather(strategy.run(lambda: value), axis=axis)

            def replica():
                x = tf.identity(value)
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    all_gathered = tf.distribute.get_replica_context().all_gather(x, axis=axis)
                    loss = tf.reduce_sum(all_gathered * all_gathered)
                return all_gathered, tape.gradient(loss, x)

            return gathered, *strategy.run(replica)

        gathered, all_gathered, gradient = run()
        np.testing.assert_array_equal(gathered, value)
        np.testing.assert_array_equal(all_gathered, value)
        np.testing.assert_array_equal(gradient, 2 * value)


def test_gather_refuses_what_the_peers_refuse(everyone):
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    for strategy in everyone:
        with pytest.raises(NotImplementedError, match="gather does not support"):
            strategy.gather(slices, axis=0)
        with pytest.raises(NotImplementedError, match="all_gather does not support"):
            strategy.run(lambda: tf.distribute.get_replica_context().all_gather(slices, axis=0))


def test_local_results_are_one_of_each_whatever_the_structure(strategy, peers):
    one_device, _ = peers
    for value in (
        tf.constant(1.0),
        5,
        {"a": tf.constant(1), "b": [tf.constant(2), 3]},
        [tf.constant(1)],
        (tf.constant(1), tf.constant(2)),
        {},
    ):
        ours = strategy.experimental_local_results(strategy.run(lambda v=value: v))
        theirs = one_device.experimental_local_results(one_device.run(lambda v=value: v))
        assert tf.nest.map_structure(int, ours) == tf.nest.map_structure(int, theirs)


def test_values_from_a_function_go_into_run(everyone):
    for strategy in everyone:
        values = strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(float(context.replica_id_in_sync_group + 7))
        )
        assert strategy.run(lambda v: float(v) * 2, args=(values,)) == 14
        (local,) = strategy.experimental_local_results(values)
        assert float(local) == 7
