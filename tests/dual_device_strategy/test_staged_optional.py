"""Loops over optionals, as Keras's `fit` runs them with several steps per execution."""

import keras
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, emulation, on_data_device

FLOATS = 100_000


def fit(strategy, batches: int):
    dataset = tf.data.Dataset.range(batches).map(
        lambda i: (tf.fill([1, FLOATS], tf.cast(i, tf.float32)), tf.ones([1, 1]))
    )
    dataset = dataset.apply(on_data_device(lambda x, y: (x + 1.0, y)))
    with strategy.scope():
        inputs = keras.Input([FLOATS])
        mean = keras.ops.mean(inputs, axis=1, keepdims=True)
        model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(mean))
        model.compile("sgd", "mse", steps_per_execution=4)
    model.fit(dataset, epochs=1, verbose=0)


@pytest.mark.parametrize("pair", [("GPU:1", "GPU:0"), ("GPU:0", "GPU:1")])
def test_with_several_steps_per_execution_no_batch_leaves_the_model_device(pair):
    strategy = DataModelSplitStrategy(*pair)
    data, model = (int(name[-1]) for name in pair)
    with emulation.measure() as use:
        fit(strategy, batches=10)  # 4, 4 and 2 steps
        tf.test.experimental.sync_devices()
    half_a_batch = 2 * FLOATS
    assert use[data].bytes_out >= 20 * half_a_batch
    assert use[model].bytes_in < use[data].bytes_out + half_a_batch  # none came from the host
    assert use[model].bytes_out < half_a_batch


def test_an_optional_passes_through_conditions_and_loops_and_says_what_it_is(strategy):
    def make(i):
        return {"x": tf.fill([2], i), "ragged": tf.ragged.range([i, 2])}

    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(5).map(make))
    iterator = iter(distributed)

    @tf.function
    def total(iterator):
        def body(sum, optional):
            batch = optional.get_value()
            sum += batch["x"][1] + tf.reduce_sum(batch["ragged"])
            following = tf.cond(sum < 100, iterator.get_next_as_optional, lambda: optional)
            return sum, following

        first = iterator.get_next_as_optional()
        assert isinstance(first, tf.experimental.Optional)
        assert first.element_spec == distributed.element_spec
        sum, last = tf.while_loop(
            lambda sum, optional: optional.has_value(), body, [tf.constant(0, tf.int64), first]
        )
        return sum, last

    sum, last = total(iterator)
    # Numbers 0 to 4; each ragged batch has the numbers below its own, and 0 and 1.
    assert int(sum) == sum_of(range(5))
    assert not last.has_value()


def sum_of(numbers):
    return sum(i + sum(range(i)) + 1 for i in numbers)
