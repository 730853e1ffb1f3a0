"""Several model devices, against MirroredStrategy over the same ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import MirroredDataModelSplitStrategy, data_scope, on_data_device

MODELS = {"cpu": ["CPU:2", "CPU:3", "CPU:4"], "gpu": ["GPU:0", "GPU:1"]}
DATA = {"cpu": ["CPU:1"], "two": ["CPU:1", "CPU:5"], "gpu": ["CPU:1"]}


class Mirrored(tf.distribute.MirroredStrategy):
    """TensorFlow's own; its collectives need keys that no other strategy here has."""

    made = 0

    def __init__(self, devices):
        Mirrored.made += 1
        self._collective_key_base = 500_000 + 1000 * Mirrored.made
        super().__init__(devices)


def ours(kind, **settings):
    return MirroredDataModelSplitStrategy(
        DATA[kind], MODELS["gpu" if kind == "gpu" else "cpu"], **settings
    )


def pieces(strategy, dataset):
    distributed = strategy.experimental_distribute_dataset(dataset)
    return [
        [value.numpy().tolist() for value in strategy.experimental_local_results(batch)]
        for batch in distributed
    ]


def noisy_spectrum(signal, label):
    """A front end with a random state and with statistics over the whole batch."""
    spectrum = tf.abs(tf.signal.rfft(signal))
    spectrum -= tf.reduce_mean(spectrum)
    return spectrum + 0.1 * tf.random.normal(tf.shape(spectrum), seed=5), label


def front_end(x, y):
    return tf.abs(tf.signal.rfft(x)), y


def signals(rows, batch, drop_remainder=False):
    x = tf.random.stateless_normal([rows, 32], [1, 2])
    y = tf.range(rows, dtype=tf.int32) % 4
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=drop_remainder)


def train(strategy, dataset, global_batch):
    """Two epochs of gradient descent; the losses and the weights."""
    with strategy.scope():
        weights = tf.Variable(tf.random.stateless_normal([17, 4], [3, 4]))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights)
            loss = tf.reduce_sum(losses) / global_batch
        (gradient,) = tape.gradient(loss, [weights])
        total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
        weights.assign_sub(0.1 * total)
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    distributed = strategy.experimental_distribute_dataset(dataset)
    losses = [float(step(batch)) for _ in range(2) for batch in distributed]
    return losses, weights.numpy()


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize(("batch", "drop"), [(12, True), (16, False)])
def test_losses_and_weights_are_those_of_mirrored_strategy(kind, batch, drop):
    tf.random.set_seed(7)
    reference = train(Mirrored(MODELS[kind]), signals(50, batch, drop).map(noisy_spectrum), batch)
    tf.random.set_seed(7)
    dataset = signals(50, batch, drop).apply(on_data_device(noisy_spectrum))
    losses, weights = train(ours(kind), dataset, batch)
    if kind == "cpu":
        assert losses == reference[0]
        np.testing.assert_array_equal(weights, reference[1])
    else:
        np.testing.assert_allclose(losses, reference[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["cpu", "two"])
def test_every_replica_has_the_rows_it_has_under_mirrored_strategy(kind, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(map(str, range(20))))
    off = tf.data.Options()
    off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    datasets = {
        "partial": tf.data.Dataset.range(20).batch(8),
        "partial in the middle": tf.data.Dataset.range(20).batch(8).repeat(2),
        "one row": tf.data.Dataset.range(17).batch(8),
        "no remainder": tf.data.Dataset.range(25).batch(8, drop_remainder=True),
        "not sharded": tf.data.Dataset.range(20).batch(8).with_options(off),
        "files": tf.data.TextLineDataset(str(lines)).batch(8),
        "files in a function": tf.data.Dataset.from_tensor_slices([str(lines)])
        .interleave(tf.data.TextLineDataset)
        .batch(8),
        "batches from Python": tf.data.Dataset.from_generator(
            lambda: iter([[1, 2, 3, 4], [5, 6, 7]]), output_signature=tf.TensorSpec([None])
        ),
    }
    if kind == "two":  # which of them prepares a batch says nothing of how it is cut
        datasets = {name: datasets[name] for name in ("partial in the middle", "files")}
    theirs, staged = Mirrored(MODELS["cpu"]), ours(kind)
    for name, dataset in datasets.items():
        same = dataset.apply(on_data_device(tf.identity))
        assert pieces(staged, same) == pieces(theirs, dataset.map(tf.identity)), name
    # Without a function TensorFlow cuts them in another way.
    for name in ("not sharded", "files") if kind == "cpu" else ():
        assert pieces(staged, datasets[name]) == pieces(theirs, datasets[name]), name


def test_element_spec_and_refusals_are_those_of_mirrored_strategy():
    theirs, staged = Mirrored(MODELS["cpu"]), ours("cpu")
    for dataset in (signals(24, 12, True), signals(24, 8), signals(24, 12, True).repeat()):
        mapped = dataset.apply(on_data_device(noisy_spectrum))
        ours_made = staged.experimental_distribute_dataset(mapped)
        made = theirs.experimental_distribute_dataset(dataset.map(noisy_spectrum))
        assert ours_made.element_spec == made.element_spec
        assert int(ours_made.cardinality) == int(made.cardinality)
    refused = []
    for strategy in (theirs, staged):
        with pytest.raises(Exception) as raised:
            strategy.experimental_distribute_dataset(tf.data.Dataset.range(4))
        refused.append(str(raised.value))
    assert refused[0] == refused[1]


def test_the_type_that_two_iterators_have_in_common_is_of_the_shapes_both_have():
    strategy = ours("cpu")
    wide, narrow = (
        iter(strategy.experimental_distribute_dataset(dataset))._type_spec
        for dataset in (
            tf.data.Dataset.range(12).batch(2).batch(6),  # of any width, for TensorFlow
            tf.data.Dataset.from_tensors(tf.zeros([6, 2], tf.int64)),
        )
    )
    assert narrow != wide == wide.most_specific_common_supertype([narrow])
    assert narrow.most_specific_common_supertype([wide]) == wide
    assert narrow.is_subtype_of(wide) and not wide.is_subtype_of(narrow)


def test_a_single_replica_takes_elements_that_are_not_batches():
    strategy = MirroredDataModelSplitStrategy(["CPU:1"], ["CPU:2"])
    batches = list(strategy.experimental_distribute_dataset(tf.data.Dataset.range(3)))
    assert [int(batch) for batch in batches] == [0, 1, 2]
    assert batches[0].device.endswith("CPU:2")


@pytest.mark.parametrize("kind", ["two", "gpu"])
def test_loops_in_a_function_see_every_row_once(kind):
    strategy = ours(kind)
    dataset = tf.data.Dataset.range(20).batch(8)
    dataset = dataset.apply(on_data_device(lambda x: tf.cast(x, tf.float32)))
    distributed = strategy.experimental_distribute_dataset(dataset)

    def add(total, batch):
        return total + strategy.reduce("SUM", strategy.run(tf.reduce_sum, (batch,)), axis=None)

    @tf.function
    def over_the_dataset(dataset):
        total = tf.constant(0.0)
        for batch in dataset:
            total = add(total, batch)
        return total

    @tf.function
    def over_optionals(iterator):
        total, more = tf.constant(0.0), tf.constant(True)
        while more:
            optional = iterator.get_next_as_optional()
            more = optional.has_value()
            if more:
                total = add(total, optional.get_value())
        return total

    for _ in range(2):
        assert float(over_the_dataset(distributed)) == 190
        assert float(over_optionals(iter(distributed))) == 190
    assert over_the_dataset.experimental_get_tracing_count() == 1
    assert over_optionals.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("kind", ["cpu", "two"])
def test_an_error_in_a_front_end_comes_at_its_place_and_the_next_batch_follows(kind):
    def fails_at_eight(x):
        tf.debugging.assert_none_equal(x, tf.constant(8, tf.int64))
        return x

    strategy = ours(kind)
    dataset = tf.data.Dataset.range(18).batch(3).apply(on_data_device(fails_at_eight))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    seen = []
    for _ in range(7):
        try:
            batch = next(iterator, None)
            seen.append(batch and [int(piece[0]) for piece in batch.values])
        except tf.errors.InvalidArgumentError:
            seen.append("error")
    assert seen == [[0, 1, 2], [3, 4, 5], "error", [9, 10, 11], [12, 13, 14], [15, 16, 17], None]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_dataset_function_makes_batches_of_one_replica(kind):
    def made(front_end):
        def dataset_fn(context):
            assert context.num_replicas_in_sync == len(MODELS[kind])
            return front_end(tf.data.Dataset.range(14).batch(2))

        return dataset_fn

    def results(strategy, front_end):
        distributed = strategy.distribute_datasets_from_function(made(front_end))
        return [
            [value.numpy().tolist() for value in strategy.experimental_local_results(batch)]
            for batch in distributed
        ]

    double = on_data_device(lambda x: 2 * x)
    staged = results(ours(kind), lambda dataset: dataset.apply(double))
    assert staged == results(Mirrored(MODELS[kind]), lambda dataset: dataset.map(lambda x: 2 * x))


@pytest.mark.parametrize("steps", [1, 3])
def test_fit_gives_the_losses_of_mirrored_strategy(steps):
    def fitted(strategy, dataset, steps):
        keras.utils.set_random_seed(3)
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(4)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss, steps_per_execution=steps)
        return model.fit(dataset, epochs=2, verbose=0).history["loss"], model.get_weights()

    # With TensorFlow's default, a ring, several steps in an execution fail on logical CPUs.
    reduction = {"cross_device_ops": tf.distribute.ReductionToOneDevice()}
    mirrored = tf.distribute.MirroredStrategy(MODELS["cpu"], **reduction)
    theirs, weights = fitted(mirrored, signals(54, 15).map(front_end), steps)
    dataset = signals(54, 15).apply(on_data_device(front_end))
    losses, trained = fitted(ours("cpu", **reduction), dataset, steps)
    assert losses == theirs
    for one, other in zip(trained, weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_data_device_uses_its_copy_of_a_variable():
    strategy = ours("two")
    with strategy.scope(), data_scope():
        scale = tf.Variable(2.0)
    dataset = tf.data.Dataset.range(12).batch(3)
    dataset = dataset.apply(on_data_device(lambda x: scale * tf.cast(x, tf.float32)))
    distributed = strategy.experimental_distribute_dataset(dataset)

    def first_rows():
        return [float(batch.values[0][0]) for batch in distributed]

    assert first_rows() == [0, 6, 12, 18]
    scale.assign(3.0)
    assert first_rows() == [0, 9, 18, 27]


def test_ragged_and_sparse_batches_are_cut():
    strategy = ours("cpu")
    ragged = tf.data.Dataset.from_tensor_slices(
        tf.RaggedTensor.from_row_lengths(range(12), [0, 5, 3, 4])
    )
    dataset = ragged.batch(4).apply(on_data_device(lambda x: x + 1))
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    assert [piece.to_list() for piece in batch.values] == [
        [[], [1, 2, 3, 4, 5]],
        [[6, 7, 8], [9, 10, 11, 12]],
        [],
    ]
    sparse = tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense(tf.eye(3))).batch(3)
    sparse = sparse.apply(on_data_device(lambda x: x * 2.0))
    (batch,) = strategy.experimental_distribute_dataset(sparse)
    assert [tf.sparse.to_dense(piece).numpy().tolist() for piece in batch.values] == [
        [[2, 0, 0]],
        [[0, 2, 0]],
        [[0, 0, 2]],
    ]
