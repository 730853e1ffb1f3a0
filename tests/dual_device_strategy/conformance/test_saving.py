"""Checkpoints and SavedModels cross over between the strategies, and between one and none."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.dual_device_strategy.pairs import both_pairs

NAMES = ["ours", "one device", "mirrored", "none"]
PAIRS = [p for p in itertools.product(NAMES, NAMES) if "ours" in p]


@pytest.fixture
def named(strategy, peers):
    return dict(zip(NAMES, [strategy, *peers, None], strict=True))


def under(strategy):
    return strategy.scope() if strategy else contextlib.nullcontext()


def stepped(strategy, fn):
    """A function that calls `fn` in the strategy's replica."""

    @tf.function
    def step(*args):
        return strategy.run(fn, args=args) if strategy else fn(*args)

    return step


class Trainee:
    """A model whose optimizer has slots, and variables of several kinds."""

    def __init__(self, strategy, seed):
        keras.utils.set_random_seed(seed)
        with under(strategy):
            self.model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
            self.optimizer = keras.optimizers.Adam(0.1)
            self.optimizer.build(self.model.trainable_variables)
            self.total = tf.Variable(
                float(seed),
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            self.generator = tf.random.Generator.from_seed(seed)
            self.checkpoint = tf.train.Checkpoint(
                model=self.model,
                optimizer=self.optimizer,
                total=self.total,
                generator=self.generator,
            )
        self.step = stepped(strategy, self._step)

    def _step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.model(x) ** 2)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.total.assign_add(1.0)
        return loss, self.generator.normal([2])

    def state(self):
        variables = [*self.model.variables, *self.optimizer.variables]
        values = [v.numpy() for v in (*variables, self.total, self.generator.state)]
        return [np.asarray(v) for v in values]


@both_pairs
@pytest.mark.parametrize("names", PAIRS, ids="->".join)
def test_a_checkpoint_is_restored_and_trains_on(named, names, tmp_path):
    saver, restorer = (named[name] for name in names)
    x = tf.ones([4, 3])
    first = Trainee(saver, seed=1)
    first.step(x)
    path = first.checkpoint.save(str(tmp_path / "checkpoint"))
    second = Trainee(restorer, seed=2)
    with under(restorer):
        status = second.checkpoint.restore(path)
    second.step(x)
    status.assert_existing_objects_matched()
    first.step(x)
    for mine, other in zip(first.state(), second.state(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("in_scope", [True, False], ids=["in scope", "out of scope"])
def test_checkpoint_managers_and_io_devices_take_variables_of_the_strategy(
    strategy, tmp_path, in_scope
):
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0])
        late = tf.train.Checkpoint()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=variable), tmp_path, max_to_keep=2)
    options = tf.train.CheckpointOptions(experimental_io_device="/job:localhost")
    with strategy.scope() if in_scope else contextlib.nullcontext():
        for value in (3.0, 4.0, 5.0):
            variable.assign([value, value])
            manager.save(options=options)
    variable.assign([0.0, 0.0])
    manager.checkpoint.restore(manager.latest_checkpoint, options=options)
    assert variable.numpy().tolist() == [5, 5]
    assert len(manager.checkpoints) == 2

    late.restore(manager.checkpoints[0])  # the variable is made, and takes its value, afterwards
    with strategy.scope():
        late.v = tf.Variable([9.0, 9.0])
    assert late.v.numpy().tolist() == [4, 4]
    assert late.v.device == variable.device


class Scale(tf.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = tf.Variable(factor)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 0.0
        )

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def __call__(self, x):
        return x * self.factor

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def of_words(self, words):
        return self.table.lookup(words) * self.factor


@pytest.mark.parametrize("names", PAIRS, ids="->".join)
def test_a_module_is_exported_and_loaded(named, names, tmp_path):
    saver, loader = (named[name] for name in names)
    with under(saver):
        module = Scale(3.0)
        tf.saved_model.save(module, str(tmp_path))
    with under(loader):
        loaded = tf.saved_model.load(str(tmp_path))
    step = stepped(loader, loaded)
    assert step(tf.constant([1.0, 2.0])).numpy().tolist() == [3, 6]
    assert loaded.of_words(tf.constant(["b", "z"])).numpy().tolist() == [6, 0]
    loaded.factor.assign(5.0)
    assert step(tf.constant([1.0])).numpy().tolist() == [5]


def test_an_exported_graph_names_no_device_of_the_strategy(strategy, tmp_path):
    with strategy.scope():
        module = Scale(2.0)
        tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    function = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    assert function(tf.constant([3.0]))["output_0"].numpy().tolist() == [6]
    nodes = [n for f in function.graph.as_graph_def().library.function for n in f.node_def]
    assert any(n.op == "ReadVariableOp" for n in nodes)
    assert {n.device for n in nodes if n.op == "ReadVariableOp"} == {""}


def test_a_keras_model_is_saved_loaded_and_trained_on_under_another_strategy(named, tmp_path):
    x = np.random.default_rng(0).random((8, 3), np.float32)
    y = x.sum(1, keepdims=True)
    for position, names in enumerate([("ours", "none"), ("none", "ours")]):
        saver, loader = (named[name] for name in names)
        with under(saver):
            model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
            model.compile("adam", "mse", jit_compile=False)
        model.fit(x, y, verbose=0)
        path = tmp_path / f"{position}.keras"
        model.save(path)
        model.export(tmp_path / f"exported{position}", verbose=False)
        expected = model.predict(x, verbose=0)
        with under(loader):
            loaded = keras.models.load_model(path)
            exported = tf.saved_model.load(str(tmp_path / f"exported{position}"))
        np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, rtol=1e-6)
        served = stepped(loader, exported.serve)(tf.constant(x))
        np.testing.assert_allclose(served, expected, rtol=1e-6)
        loaded.fit(x, y, verbose=0)
        model.fit(x, y, verbose=0)
        for mine, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5)
