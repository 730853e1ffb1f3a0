"""What cannot be saved or restored is refused by name."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.dual_device_strategy.checkpoints.test_iterators import (
    assert_equal,
    numbers,
    plain,
    saved,
    staged,
    values,
)
from tests.dual_device_strategy.pairs import one_pair
from tests.waiting import wait_until

pair = one_pair("cpu")


def test_random_kernels_and_python_in_the_front_end_are_refused_by_name(strategy, tmp_path):
    def noisy(x):
        return plain(x) + tf.random.uniform([1], seed=4)

    with pytest.raises(ValueError, match=r"cannot be saved.*RandomUniform.*data_scope"):
        saved(staged(strategy, numbers().batch(3), noisy), tmp_path)
    options = tf.data.Options()
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    iterator = staged(strategy, numbers().batch(3).with_options(options), noisy)
    next(iterator)
    path = saved(iterator, tmp_path)
    tf.train.Checkpoint(iterator=iterator).read(path)
    assert 4.0 <= float(next(iterator)[0]) < 5.0


def test_host_pipelines_that_tf_data_cannot_save_are_refused_by_name(strategy, tmp_path):
    noisy = numbers().map(lambda x: tf.random.uniform([2], seed=4)).batch(3)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"cannot be saved.*RandomUniform"):
        saved(staged(strategy, noisy), tmp_path)

    def generate():
        yield from range(9)

    python = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int64)
    ).batch(3)
    iterator = staged(strategy, python)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"cannot be saved.*PyFunc"):
        saved(iterator, tmp_path)
    assert len(values(iterator)) == 3  # and goes on


def test_a_batch_that_failed_on_its_way_is_not_lost_silently(strategy, tmp_path):
    def check(x):
        seven = tf.constant(7, tf.int64)
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, seven, message="a seven")]):
            return tf.identity(x)

    iterator = staged(strategy, tf.data.Dataset.range(9).map(check).batch(2))
    values(iterator, 3)

    def refused():  # as soon as the batch has failed
        try:
            saved(iterator, tmp_path)
        except ValueError as error:
            return str(error)
        return None

    said = wait_until(refused)
    assert re.search("batch 3 of this iterator.* failed on the host; take it", said)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a seven"):
        next(iterator)
    path = saved(iterator, tmp_path)
    restored = staged(strategy, tf.data.Dataset.range(9).map(check).batch(2))
    tf.train.Checkpoint(iterator=restored).read(path)
    assert_equal(values(restored), [np.array([9.0])])


def test_another_pipeline_and_another_front_end_are_refused(strategy, tmp_path):
    iterator = staged(strategy, numbers().shuffle(20).batch(3))
    values(iterator, 2)
    path = saved(iterator, tmp_path)
    others = [
        (staged(strategy, numbers().shuffle(20).batch(4)), r"batch\(batch_size=3.*batch_size=4"),
        (staged(strategy, numbers().batch(3)), r"shuffle\(buffer_size=20.* and is batch"),
        (staged(strategy, numbers().shuffle(20).batch(3), lambda x: plain(x) * 3), "on_data_dev"),
    ]
    for other, reason in others:
        with pytest.raises(
            ValueError, match=rf"of another pipeline and was not restored.*{reason}"
        ):
            tf.train.Checkpoint(iterator=other).read(path)
        assert len(values(other)) > 0  # as it was


def test_a_checkpoint_without_the_iterator_is_noticed_by_tensorflow(strategy, tmp_path):
    path = tf.train.Checkpoint(step=tf.Variable(1)).write(str(tmp_path / "checkpoint"))
    iterator = staged(strategy, numbers().batch(3))
    status = tf.train.Checkpoint(iterator=iterator, step=tf.Variable(0)).read(path)
    with pytest.raises(AssertionError):
        status.assert_existing_objects_matched()


def test_an_iterator_handed_to_a_function_cannot_be_saved_there(strategy):
    @tf.function
    def save_inside(iterator):
        assert iterator.place is None
        next(iterator)

    save_inside(staged(strategy, numbers().batch(3)))
