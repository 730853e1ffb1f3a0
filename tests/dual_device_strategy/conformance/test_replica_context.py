"""Contexts, merge calls and what runs in a replica, beside TensorFlow's own strategies."""

import pytest
import tensorflow as tf

from tests.dual_device_strategy.pairs import both_pairs


def test_scopes_nest_and_end_as_under_the_peers(everyone):
    for strategy in everyone:
        assert not tf.distribute.has_strategy()
        with strategy.scope() as entered:
            assert entered is strategy
            assert tf.distribute.get_strategy() is strategy
            assert tf.distribute.in_cross_replica_context()
            assert tf.distribute.get_replica_context() is None
            with strategy.scope():
                assert tf.distribute.get_strategy() is strategy
            other = tf.distribute.OneDeviceStrategy("/CPU:0")
            with pytest.raises(RuntimeError), other.scope():
                pass
        assert not tf.distribute.has_strategy()
        assert tf.distribute.get_replica_context() is not None


def test_setting_the_strategy_for_the_whole_program(everyone):
    try:
        for strategy in everyone:
            tf.distribute.experimental_set_strategy(strategy)
            assert tf.distribute.get_strategy() is strategy
            assert strategy.extended.variable_created_in_scope(tf.Variable(1.0))
            tf.distribute.experimental_set_strategy(None)
            assert not tf.distribute.has_strategy()
    finally:
        tf.distribute.experimental_set_strategy(None)


@both_pairs
def test_the_replica_context_names_one_replica_and_its_device(everyone, mode):
    for strategy in everyone:
        seen = []

        def replica(strategy=strategy, seen=seen):
            context = tf.distribute.get_replica_context()
            assert not tf.distribute.in_cross_replica_context()
            assert context.strategy is strategy
            assert context.num_replicas_in_sync == 1
            seen.append(context.devices[0])
            return context.replica_id_in_sync_group + tf.zeros([], tf.int32)

        @mode
        def run(strategy=strategy, replica=replica):
            return strategy.experimental_local_results(strategy.run(replica))

        assert [int(v) for v in run()] == [0]
        assert tf.nest.flatten(seen) == list(strategy.extended.worker_devices)
    assert everyone[0].extended.worker_devices == everyone[1].extended.worker_devices


def test_a_merge_call_runs_in_the_cross_replica_context_with_its_arguments(everyone, mode):
    for strategy in everyone:

        def merge(distribution, value, factor, extra=0.0, strategy=strategy):
            assert distribution is strategy
            assert tf.distribute.in_cross_replica_context()
            total = strategy.reduce("SUM", value, axis=None)
            return total * factor + extra

        def replica(value, merge=merge):
            context = tf.distribute.get_replica_context()
            merged = context.merge_call(merge, args=(value, 3.0), kwargs={"extra": 1.0})
            assert tf.distribute.get_replica_context() is context
            return merged

        @mode
        def run(strategy=strategy, replica=replica):
            return strategy.run(replica, args=(tf.constant(2.0),))

        assert float(run()) == 7


def test_init_scope_keeps_the_strategy(everyone):
    for strategy in everyone:

        @tf.function
        def run(strategy=strategy):
            def merge(distribution):
                with tf.init_scope():
                    assert tf.distribute.get_strategy() is distribution
                    return 1.0

            return strategy.run(
                lambda: tf.distribute.get_replica_context().merge_call(merge) + tf.zeros([])
            )

        assert float(run()) == 1


def test_the_extended_interface_libraries_call(strategy, peers, pair):
    extended, one_device = strategy.extended, peers[0].extended
    with strategy.scope():
        variable = tf.Variable(2.0)
    assert extended.parameter_devices == one_device.parameter_devices
    assert extended.non_slot_devices([variable]) == one_device.non_slot_devices([variable])
    assert extended.worker_devices[0].endswith(pair[1])
    for name in (
        "experimental_between_graph",
        "experimental_should_init",
        "should_checkpoint",
        "should_save_summary",
        "experimental_require_static_shapes",
        "_num_replicas_in_sync",
        "_global_batch_size",
    ):
        assert getattr(extended, name) == getattr(one_device, name), name
    assert strategy.num_replicas_in_sync == 1
    assert strategy.cluster_resolver is None
    assert extended.variable_created_in_scope(variable)
    assert float(extended.read_var(variable)) == 2
    with strategy.scope():
        extended.update(variable, lambda v, delta: v.assign_add(delta), args=(3.0,))
        assert extended.update(variable, lambda v: v.read_value(), group=False)[0].numpy() == 5
        for destination in (variable, extended.worker_devices[0]):
            assert float(extended.reduce_to("SUM", tf.constant(4.0), destination)) == 4
        first, second = extended.batch_reduce_to(
            "MEAN", [(tf.constant(1.0), variable), (tf.constant(2.0), variable)]
        )
        assert (float(first), float(second)) == (1, 2)
        with extended.colocate_vars_with(variable):
            assert tf.Variable(0.0).device == variable.device


def test_a_cross_replica_method_is_refused_in_the_replica_and_the_other_way_round(everyone):
    for strategy in everyone:
        with pytest.raises(RuntimeError, match="cross-replica"):
            strategy.run(lambda: strategy.reduce("SUM", tf.constant(1.0), axis=None))
        with strategy.scope():
            assert tf.distribute.get_replica_context() is None


def test_run_takes_any_arguments_and_returns_any_structure(everyone, mode):
    for strategy in everyone:
        with strategy.scope():
            variable = tf.Variable(1.0)

        def replica(x, *, scale, things):
            variable.assign_add(x * scale)
            return {"sum": x + things[0], "nothing": None, "name": things[1]}

        @mode
        def run(strategy=strategy, replica=replica):
            return strategy.run(
                replica,
                args=(tf.constant(2.0),),
                kwargs={"scale": 3.0, "things": (tf.constant(5.0), "text")},
            )

        result = run()
        assert float(result["sum"]) == 7
        assert result["nothing"] is None
        assert variable.numpy() == 7


def test_run_inside_run_stays_in_the_same_replica(everyone):
    for strategy in everyone:

        @tf.function
        def inner(x, strategy=strategy):
            assert tf.distribute.get_replica_context() is not None
            return x + 1

        @tf.function
        def outer(x, strategy=strategy, inner=inner):
            return strategy.run(lambda v: inner(inner(v)), args=(x,))

        assert float(outer(tf.constant(1.0))) == 3


@both_pairs
def test_functions_place_their_work_and_their_reads_on_the_model_device(strategy, pair):
    with strategy.scope():
        variable = tf.Variable(1.0)

    @tf.function
    def plain():
        return tf.ones([2]) + 1

    @tf.function
    def nested():
        return plain() * variable

    for function in (plain, nested):
        assert strategy.run(function).device.endswith(pair[1])
    assert nested.get_concrete_function()().numpy().tolist() == [2, 2]


def test_a_function_given_to_run_is_converted_by_autograph_as_it_asks(everyone):
    for strategy in everyone:

        def replica(x):
            if x > 0:
                return x
            return -x

        @tf.function
        def converted(x, strategy=strategy, replica=replica):
            return strategy.run(replica, args=(x,))

        assert float(converted(tf.constant(-3.0))) == 3

        @tf.function(autograph=False)
        def unconverted(x, strategy=strategy, replica=replica):
            return strategy.run(replica, args=(x,))

        with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
            unconverted(tf.constant(-3.0))
