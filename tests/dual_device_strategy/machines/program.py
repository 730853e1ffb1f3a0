"""One worker of the tests: trains in several ways and prints its figures as JSON.

python program.py KIND     ours | theirs: the strategy

MACHINES_SLOTS is its slots, MACHINES_DATA and MACHINES_MODEL are its devices ("GPU:2,GPU:3"),
MACHINES_LOOPS the loops that train ("eager,in_a_function").
"""

import contextlib
import json
import os
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

from dual_device_strategy import (
    MidEpochBackup,
    MultiWorkerDataModelSplitStrategy,
    copies,
    data_scope,
    on_data_device,
)

OURS = sys.argv[1] == "ours"
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
signal.signal(signal.SIGTERM, lambda *_: None)
handler = signal.getsignal(signal.SIGTERM)

if OURS:
    slots = int(os.environ.get("MACHINES_SLOTS", "4"))
    if slots >= 6:
        copies.WORTH_TWO_COPIES = 0  # so small batches are copied ahead, as large ones are
    resolver = None
    if "SLURM_PROCID" in os.environ:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=int(os.environ["PORT_BASE"]), gpus_per_node=2, auto_set_gpu=False
        )
    data = os.environ.get("MACHINES_DATA", "CPU:1").split(",")
    model = os.environ.get("MACHINES_MODEL", "CPU:2").split(",")
    try:
        strategy = MultiWorkerDataModelSplitStrategy(data, model, resolver, slots=slots)
        strategy.refuse_differences({"the corpus": os.environ.get("MACHINES_CORPUS")})
    except ValueError as error:
        sys.exit(f"{error}")
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

X = tf.random.stateless_normal([50, 512], [1, 2])
Y = tf.range(50, dtype=tf.int64) % 4


def front_end(signal, label):
    return tf.math.log1p(tf.abs(tf.signal.stft(signal, 64, 32))), label


def dataset(epochs=1):
    host = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=3).batch(16)
    made = host.apply(on_data_device(front_end)) if OURS else host.map(front_end)
    return made.repeat(epochs)


class Net(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.random.stateless_normal([33, 16], [3, 4]) * 0.2)
        self.v = tf.Variable(tf.random.stateless_normal([16, 4], [5, 6]) * 0.2)

    def __call__(self, x):
        return tf.reduce_mean(tf.nn.relu(x @ self.w), 1) @ self.v


def trained(loop):
    with strategy.scope():
        net = Net()

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x))
            loss = tf.reduce_sum(losses) / 16
        gradients = tape.gradient(loss, [net.w, net.v])
        gradients = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
        net.w.assign_sub(0.1 * gradients[0])
        net.v.assign_sub(0.1 * gradients[1])
        return loss

    def step(batch):
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    losses = loop(tf.function(step))
    return [*map(float, losses), *(float(tf.reduce_sum(v)) for v in (net.w, net.v))]


def eager(step):
    distributed = strategy.experimental_distribute_dataset(dataset())
    return [step(batch) for _ in range(2) for batch in distributed]


def of_unknown_length(step):
    some = dataset().filter(lambda *_: True) if not OURS else None
    if OURS:
        host = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=3).batch(16)
        some = host.filter(lambda *_: True).apply(on_data_device(front_end))
    return [step(batch) for batch in strategy.experimental_distribute_dataset(some)]


def in_a_function(step):
    @tf.function
    def epoch(distributed):
        losses = tf.TensorArray(tf.float32, 0, True)
        for batch in distributed:
            losses = losses.write(losses.size(), step(batch))
        return losses.stack()

    return epoch(strategy.experimental_distribute_dataset(dataset())).numpy()


def from_a_function(step):
    def make(context):
        made = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat(2)
        made = made.shard(context.num_input_pipelines, context.input_pipeline_id)
        return made.apply(on_data_device(front_end)) if OURS else made.map(front_end)

    distributed = iter(strategy.distribute_datasets_from_function(make))
    return [step(next(distributed)) for _ in range(3)]


class Fits:
    """Fits of one model, traced once; only ours: under TensorFlow's strategy Keras 3 fails."""

    def __init__(self, epochs):
        keras.utils.set_random_seed(1)
        self.epochs = epochs
        with strategy.scope():
            layers = [keras.Input([15, 33]), keras.layers.Flatten(), keras.layers.Dense(4)]
            self.model = keras.Sequential(layers)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            self.model.compile(keras.optimizers.SGD(0.01), loss, metrics=["accuracy"])
        self.weights = self.model.get_weights()

    def fit(self, *callbacks, factor=1.0):
        """From `factor` times the first weights; the last figures."""
        self.model.set_weights([factor * weights for weights in self.weights])
        self.model.optimizer.iterations.assign(0)
        validation = {"validation_data": dataset(), "validation_freq": self.epochs}
        settings = {"epochs": self.epochs, "verbose": 0, "callbacks": callbacks, **validation}
        history = self.model.fit(dataset(), **settings).history
        return {key: values[-1] for key, values in sorted(history.items())}

    def again(self):
        """Stopped after three batches; what goes on has other weights until it restores those."""
        with contextlib.suppress(InterruptedError):
            self.fit(MidEpochBackup("backup", save_freq=1), Counted(3))
        counted = Counted()
        figures = self.fit(MidEpochBackup("backup", save_freq=1), counted, factor=2.0)
        return {**figures, "batches": counted.count}


class Counted(keras.callbacks.Callback):
    """Counts batches, and stops the program after so many."""

    def __init__(self, most=100):
        super().__init__()
        self.count, self.most = 0, most

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.most:
            raise InterruptedError


def of_the_data_device():
    with strategy.scope(), data_scope():
        scale = tf.Variable(np.random.rand())  # another number on each worker
        count = tf.Variable(3, dtype=tf.int32)
    copies = strategy.experimental_local_results(scale)
    assert int(strategy.experimental_local_results(count)[0]) == 3
    return [[copy.device.rsplit("device:")[-1], float(copy)] for copy in copies]


loops = {loop.__name__: loop for loop in (eager, of_unknown_length, in_a_function, from_a_function)}
asked = os.environ.get("MACHINES_LOOPS", ",".join(loops)).split(",")
figures = {name: trained(loops[name]) for name in asked}
if OURS:
    alone = len(data) == 1  # else the iterator cannot be saved
    fits = Fits(epochs=2 if alone else 1)
    figures["fit"] = fits.fit()
    if alone:
        figures["fit again"] = fits.again()
    figures["of_the_data_device"] = of_the_data_device()
    figures["handler kept"] = signal.getsignal(signal.SIGTERM) is handler
    signal.raise_signal(signal.SIGTERM)
print(json.dumps(figures))
