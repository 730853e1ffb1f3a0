"""A `fit` that was killed goes on in the middle of its epoch, with the same losses."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from dual_device_strategy import DataModelSplitStrategy, MidEpochBackup, on_data_device

X = np.random.RandomState(0).randn(60, 6).astype("f")
Y = (X.sum(1) > 0).astype("i")


class Killed(Exception):
    pass


class _Losses(keras.callbacks.Callback):
    """Notes every step's metrics, and ends the run after `kill_after` steps."""

    def __init__(self, kill_after=None):
        super().__init__()
        self.seen, self._kill_after = {}, kill_after

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.seen[self._epoch, batch] = logs["loss"], logs["accuracy"]
        if self._kill_after and len(self.seen) == self._kill_after:
            raise Killed

    def on_epoch_end(self, epoch, logs=None):
        self.seen[epoch, "end"] = tuple(logs.values())


class Noise(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.generator = tf.random.Generator.from_seed(5)

    def call(self, x):
        return x + 0.1 * self.generator.normal(tf.shape(x))


def run(
    pair,
    folder,
    kill_after=None,
    *,
    save_freq=3,
    compiled=None,
    repeated=False,
    noise=1,
    validates=False,
    **fit,
):
    keras.utils.set_random_seed(7)
    strategy = pair() if callable(pair) else DataModelSplitStrategy(*pair)
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(60, seed=4).batch(6)
    dataset = dataset.repeat() if repeated else dataset
    dataset = dataset.apply(on_data_device(lambda x, y: (tf.math.tanh(x), y)))
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input([6]),
                *[Noise() for _ in range(noise)],
                keras.layers.Dropout(0.3, seed=5),
                keras.layers.Dense(2),
            ]
        )
        model.compile(
            keras.optimizers.Adam(1e-2),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **(compiled or {}),
        )
    losses = _Losses(kill_after)
    backups = [MidEpochBackup(folder, save_freq=save_freq)] if folder else []
    if validates:
        fit["validation_data"] = X[:12], Y[:12]
    model.fit(dataset, epochs=2, shuffle=False, verbose=0, callbacks=[*backups, losses], **fit)
    return losses.seen


@functools.cache
def never_killed(pair, settings):
    return run(pair, None, **json.loads(settings))


SETTINGS = {
    "gpu": {"validates": True},
    "gpu-steps_per_execution": {"compiled": {"steps_per_execution": 2}, "save_freq": 4},
    "cpu-steps_per_epoch": {"repeated": True, "steps_per_epoch": 7},
    "gpu-every epoch": {"validates": True, "save_freq": "epoch"},
}


@pytest.mark.parametrize(
    ("pair", "settings"),
    [(name.partition("-")[0], settings) for name, settings in SETTINGS.items()],
    ids=SETTINGS,
    indirect=["pair"],
)
def test_a_fit_that_was_killed_goes_on_with_the_same_losses(pair, tmp_path, settings):
    """Once; one that is killed again and again: test_killed."""
    of_every_run = {name: value for name, value in settings.items() if name != "save_freq"}
    expected = never_killed(pair, json.dumps(of_every_run))
    calls = sum(batch != "end" for _, batch in expected)
    folder = tmp_path / "backup"
    with pytest.raises(Killed):
        run(pair, folder, kill_after=calls // 2 + 3, **settings)
    assert folder.exists()
    after = run(pair, folder, **settings)
    assert after == {place: expected[place] for place in after}
    assert len(after) < len(expected) * 0.7  # it did not begin anew
    assert not folder.exists()


def test_a_finished_fit_that_is_kept_is_not_repeated(tmp_path):
    pair = ("CPU:1", "CPU:2")

    def fit(epochs):
        strategy = DataModelSplitStrategy(*pair)
        with strategy.scope():
            model = keras.Sequential([keras.Input([6]), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        backup = MidEpochBackup(tmp_path / "backup", delete_checkpoint=False)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
        return len(model.fit(data, epochs=epochs, verbose=0, callbacks=[backup]).history)

    assert fit(2) == 1
    assert fit(2) == 0


def test_mistakes_are_told(tmp_path):
    def fit(strategy, layers, folder="backup"):
        with strategy.scope():
            model = keras.Sequential(layers)
            model.compile("sgd", "mse")
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
        backup = MidEpochBackup(tmp_path / folder, save_freq=2)
        model.fit(data, epochs=1, verbose=0, callbacks=[backup, _Stop()])

    class _Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                raise Killed

    ours = DataModelSplitStrategy("CPU:1", "CPU:2")
    one = [keras.Input([6]), keras.layers.Dense(1)]
    other = tf.distribute.OneDeviceStrategy("CPU:2")
    with pytest.raises(ValueError, match=r"cannot save the iterator.*DistributedIterator"):
        fit(other, one, folder="none")
    with pytest.raises(Killed):
        fit(ours, [keras.Input([6]), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="backup of another model or another compile"):
        fit(ours, [keras.Input([6]), keras.layers.Dense(3), keras.layers.Dense(1)])
