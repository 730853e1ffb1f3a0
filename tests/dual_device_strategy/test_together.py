"""`zip` of distributed datasets, and Python's loops over them, inside a tf.function."""

import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, MirroredDataModelSplitStrategy, together

STRATEGIES = {
    "one replica": lambda: DataModelSplitStrategy("CPU:1", "CPU:2"),
    "two replicas": lambda: MirroredDataModelSplitStrategy(["CPU:0"], ["CPU:1", "CPU:2"]),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def distributed(strategy, *ranges):
    return [
        strategy.experimental_distribute_dataset(tf.data.Dataset.range(*numbers).batch(2))
        for numbers in ranges
    ]


def first_of(strategy, batch):
    return tf.cast(strategy.experimental_local_results(batch)[0][0], tf.int64)


@pytest.mark.parametrize("iterators", [False, True])
def test_zip_in_a_function_ends_with_the_shorter_dataset(strategy, iterators):
    one, other = distributed(strategy, (10,), (100, 106))

    @tf.function
    def total(one, other):
        result = tf.constant(0, tf.int64)
        for a, b in zip(one, other):  # noqa: B905
            result = 1000 * result + first_of(strategy, a) + first_of(strategy, b)
        return result

    given = [iter(one), iter(other)] if iterators else [one, other]
    assert int(total(*given)) == 100_104_108


def test_zip_outside_of_functions_is_that_of_python(strategy):
    one, other = distributed(strategy, (4,), (100, 106))
    firsts = [
        (int(first_of(strategy, a)), int(first_of(strategy, b)))
        for a, b in zip(one, other, strict=False)
    ]
    assert firsts == [(0, 100), (2, 102)]


def test_a_loop_without_end_is_refused_by_name(strategy, monkeypatch):
    monkeypatch.setattr(together, "MOST_TURNS", 20)
    (dataset,) = distributed(strategy, (10,))

    @tf.function
    def endless(dataset):
        for number, batch in zip([1.0] * 100, dataset, strict=False):
            tf.print(number, first_of(strategy, batch))

    with pytest.raises(ValueError, match=r"zip with something else.*for batch in dataset"):
        endless(dataset)

    @tf.function
    def strict(dataset):
        for a, b in zip(dataset, dataset, strict=True):
            tf.print(a, b)

    with pytest.raises(NotImplementedError, match="strict=True"):
        strict(dataset)
