"""Types of distributed datasets and iterators: what lets them pass into and out of functions."""

import pytest
import tensorflow as tf


def ragged():
    return tf.data.Dataset.from_tensor_slices(
        {
            "ragged": tf.RaggedTensor.from_row_lengths(tf.range(6), [1, 0, 3, 2]),
            "sparse": tf.sparse.from_dense(tf.eye(4)),
            "dense": tf.ones([4, 2]),
        }
    )


DATASETS = {
    "range": lambda: tf.data.Dataset.range(10).batch(2),
    "tuple": lambda: tf.data.Dataset.from_tensor_slices((tf.ones([4, 2]), tf.range(4))).batch(3),
    "static": lambda: tf.data.Dataset.from_tensors({"a": tf.zeros([5, 2])}).repeat(),
    "ragged and sparse": lambda: ragged().batch(2),
    "ragged, full batches": lambda: ragged().batch(2, drop_remainder=True),
    "strings": lambda: tf.data.Dataset.from_tensor_slices(["a", "b", "c"]).batch(2),
    "nested": lambda: tf.data.Dataset.range(4).map(lambda i: {"a": (i, {"b": i})}).batch(2),
}


@pytest.fixture(params=DATASETS)
def dataset(request):
    return DATASETS[request.param]()


def test_element_specs_are_those_of_the_peers(everyone, dataset):
    mine, *others = (s.experimental_distribute_dataset(dataset) for s in everyone)
    for other in others:
        assert tf.nest.flatten(mine.element_spec) == tf.nest.flatten(other.element_spec)
        tf.nest.assert_same_structure(mine.element_spec, other.element_spec)
    assert iter(mine).element_spec == mine.element_spec == dataset.element_spec


@pytest.mark.parametrize(
    "kind", [iter, lambda distributed: distributed], ids=["iterator", "dataset"]
)
def test_a_value_is_rebuilt_from_the_components_its_type_names(strategy, dataset, kind):
    value = kind(strategy.experimental_distribute_dataset(dataset))
    spec = value._type_spec
    tf.nest.assert_same_structure(value, spec, expand_composites=True)
    assert spec == type(spec).from_value(value)
    assert spec.is_compatible_with(value)
    parts = tf.nest.flatten(value, expand_composites=True)
    rebuilt = tf.nest.pack_sequence_as(spec, parts, expand_composites=True)
    assert type(rebuilt) is type(value)
    assert rebuilt._type_spec == spec
    assert rebuilt.element_spec == value.element_spec
    assert hash(rebuilt._type_spec) == hash(spec)


def test_a_rebuilt_iterator_goes_on_where_the_first_one_was(strategy):
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(3)))
    parts = tf.nest.flatten(iterator, expand_composites=True)
    again = tf.nest.pack_sequence_as(iterator._type_spec, parts, expand_composites=True)
    assert [int(next(i)) for i in (iterator, again, iterator)] == [0, 1, 2]


def test_the_common_type_of_two_iterators_forgets_what_differs(everyone):
    for strategy in everyone:
        loose, tight = (
            iter(strategy.experimental_distribute_dataset(dataset))._type_spec
            for dataset in (
                tf.data.Dataset.range(10).batch(2).batch(5),
                tf.data.Dataset.from_tensors(tf.zeros([5, 2], tf.int64)),
            )
        )
        assert loose != tight
        assert tight.is_subtype_of(loose)
        assert not loose.is_subtype_of(tight)
        assert loose.most_specific_compatible_type(tight) == loose
        assert tight.most_specific_compatible_type(loose) == loose


def test_types_of_different_strategies_have_nothing_in_common(everyone):
    dataset = tf.data.Dataset.range(4)
    first, *others = (iter(s.experimental_distribute_dataset(dataset))._type_spec for s in everyone)
    for other in others:
        assert first != other
        assert not first.is_subtype_of(other)
        assert first.most_specific_common_supertype([other]) is None


@pytest.mark.parametrize("batch", ["partial", "full"])
def test_new_iterators_do_not_retrace_a_function(strategy, batch):
    dataset = tf.data.Dataset.range(10).batch(2, drop_remainder=batch == "full")
    distributed = strategy.experimental_distribute_dataset(dataset)
    traces = []

    @tf.function
    def total(iterator):
        traces.append(1)
        count = tf.constant(0, tf.int64)
        for _ in tf.range(5):
            count += tf.reduce_sum(next(iterator))
        return count

    assert [int(total(iter(distributed))) for _ in range(3)] == [45] * 3
    assert len(traces) == 1


def test_a_function_with_relaxed_shapes_takes_iterators_of_several_sizes(strategy):
    @tf.function(reduce_retracing=True)
    def first(iterator):
        return next(iterator)

    shapes = []
    for size in (2, 3, 4):
        dataset = tf.data.Dataset.from_tensors(tf.ones([size, 1])).repeat()
        shapes.append(first(iter(strategy.experimental_distribute_dataset(dataset))).shape)
    assert shapes == [[2, 1], [3, 1], [4, 1]]
    assert first.experimental_get_tracing_count() == 2


def test_the_element_spec_is_an_input_signature(strategy, dataset):
    distributed = strategy.experimental_distribute_dataset(dataset.take(2))

    @tf.function(input_signature=[distributed.element_spec])
    def step(batch):
        strategy.run(lambda inputs: inputs, args=(batch,))

    for batch in distributed:
        step(batch)
    assert step.experimental_get_tracing_count() == 1


def test_an_iterator_can_be_an_argument_with_a_signature_and_a_result(strategy):
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.range(3))

    @tf.function(input_signature=[iter(distributed)._type_spec])
    def skip_one(iterator):
        next(iterator)
        return iterator

    assert int(next(skip_one(iter(distributed)))) == 1


def test_a_dataset_can_be_an_argument_and_a_result_of_a_function(strategy, dataset):
    distributed = strategy.experimental_distribute_dataset(dataset.take(2))

    @tf.function
    def same(distributed):
        return distributed

    returned = same(distributed)
    assert returned.element_spec == distributed.element_spec
    expected = [tf.nest.flatten(b, expand_composites=True) for b in distributed]
    for flat, batch in zip(expected, returned, strict=True):
        for mine, other in zip(flat, tf.nest.flatten(batch, expand_composites=True), strict=True):
            assert mine.numpy().tolist() == other.numpy().tolist()


def test_ragged_and_sparse_batches_keep_their_type_through_an_optional(everyone):
    for strategy in everyone:
        iterator = iter(strategy.experimental_distribute_dataset(ragged().batch(2)))

        @tf.function
        def sums(iterator, strategy=strategy):
            total = tf.zeros([3])
            go_on = tf.constant(True)
            while go_on:
                optional = iterator.get_next_as_optional()
                if optional.has_value():
                    batch = optional.get_value()
                    total += tf.stack(
                        [
                            tf.cast(tf.reduce_sum(batch["ragged"]), tf.float32),
                            tf.sparse.reduce_sum(batch["sparse"]),
                            tf.reduce_sum(batch["dense"]),
                        ]
                    )
                else:
                    go_on = tf.constant(False)
            return total

        assert sums(iterator).numpy().tolist() == [15, 4, 8]
