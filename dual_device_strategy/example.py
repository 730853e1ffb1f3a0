"""python -m dual_device_strategy.example [FLAGS]

A short training, with the strategy and without.

Signals are made on the host, turned into spectra by the front end and classified by a small
convolutional network.  First the front end runs inside the training step, under
OneDeviceStrategy on the model device; then it runs on the data device, under
DataModelSplitStrategy.  Losses are the same; the time per step need not be.
"""

import time

import keras
import tensorflow as tf
from absl import flags

from dual_device_strategy import DataModelSplitStrategy, command, emulation, on_data_device

flags.adopt_module_key_flags(command)
_STEPS = flags.DEFINE_integer("steps", 100, "Training steps under each strategy.", lower_bound=1)
_BATCH = flags.DEFINE_integer("signals", 32, "Signals in a batch.", lower_bound=1)

SAMPLES, FRAME, CLASSES = 4096, 256, 8
WORK_MS = 20  # on emulated GPUs, front end and step each take this long besides their real work


def signals(batch_size: int) -> tf.data.Dataset:
    """Endless noisy tones and their class, the same ones in every run."""

    def signal(i):
        label = tf.cast(i % CLASSES, tf.int32)
        time_axis = tf.range(SAMPLES, dtype=tf.float32) / SAMPLES
        tone = tf.sin(6.2832 * (100.0 + 50.0 * tf.cast(label, tf.float32)) * time_axis)
        return tone + tf.random.stateless_normal([SAMPLES], [i, 1]), label

    return tf.data.Dataset.counter().map(signal, num_parallel_calls=2).batch(batch_size)


def spectra(signal: tf.Tensor, label: tf.Tensor):
    """The front end: log spectra of the signals."""
    if emulation.active():
        signal = emulation.timed(signal, ms=WORK_MS)
    frames = tf.signal.stft(signal, FRAME, FRAME // 2)
    return tf.math.log1p(tf.abs(frames)), label


class SpectraLayer(keras.layers.Layer):
    """The same front end as the first layer of the model."""

    def call(self, signal):
        return spectra(signal, 0)[0]


class BusyLayer(keras.layers.Layer):
    """Keeps an emulated GPU busy, as a larger network would."""

    def call(self, x):
        return emulation.timed(x, ms=WORK_MS) if emulation.active() else x


def train(strategy: tf.distribute.Strategy, front_end_in_step: bool) -> tuple[float, float]:
    """Trains a new model; returns the last loss and the milliseconds per step."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential(
            [
                *([SpectraLayer()] if front_end_in_step else []),
                BusyLayer(),
                keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(CLASSES),
            ]
        )
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = signals(_BATCH.value)
    if not front_end_in_step:
        dataset = dataset.apply(on_data_device(spectra))
    model.fit(dataset, steps_per_epoch=2, verbose=0, shuffle=False)  # traces everything
    start = time.perf_counter()
    history = model.fit(dataset, steps_per_epoch=_STEPS.value, verbose=0, shuffle=False)
    return history.history["loss"][-1], 1e3 * (time.perf_counter() - start) / _STEPS.value


def main(arguments: list[str]) -> None:
    del arguments
    devices = command.start_devices()
    one = tf.distribute.OneDeviceStrategy(devices.model_device)
    split = DataModelSplitStrategy(devices.data_device, devices.model_device)
    loss, alone = train(one, front_end_in_step=True)
    print(f"front end in the step, {devices.model_device}: loss {loss:.4f}, {alone:.1f} ms a step")
    loss, staged = train(split, front_end_in_step=False)
    print(
        f"front end on {devices.data_device}, step on {devices.model_device}: "
        f"loss {loss:.4f}, {staged:.1f} ms a step, {alone / staged:.2f} times as fast"
    )
    if emulation.active():
        print(
            "The GPUs were emulated: front end and step each held theirs for "
            f"{WORK_MS} ms a batch; their real work was done by this machine's cores."
        )
    elif devices.model.kind == "CPU":
        print(
            "Logical CPUs share the same cores, so nothing can be gained here; with "
            "--emulate_gpus=2 two GPUs are emulated."
        )


if __name__ == "__main__":
    command.run(main)
