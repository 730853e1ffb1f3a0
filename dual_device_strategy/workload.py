"""The built-in work that `profile` and `compare` measure: batches of token ids and audio.

A batch is token ids [batch, text_len] and audio.  On real GPUs the audio is a waveform, the front
end computes log spectra [batch, mel_frames, 80] and the step trains a small transformer on them.
Emulated GPUs and CPUs have no meaningful speed; there each part takes a given time, in
proportion to the batch size, and the batches are real.
"""

import contextlib
import dataclasses
from collections.abc import Callable

import tensorflow as tf

from dual_device_strategy import emulation
from dual_device_strategy.front_end import on_data_device

MEL_BINS = 80
HOP = 256
REFERENCE_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Workload:
    """The sizes of a batch and, for emulated devices, the times of host, front end and step.

    `host`, `front_end` and `train_step` make its three parts.  `part_ms` is in milliseconds for a
    batch of 16.  `step_mb` is the memory that the emulated step takes for each element of a batch.
    `width` and `layers` are those of the real step's transformer.
    """

    batch_size: int = 16
    text_len: int = 200
    mel_frames: int = 400
    part_ms: tuple[float, float, float] | None = None
    step_mb: float = 0.0
    width: int = 512
    layers: int = 8

    def scaled_ms(self) -> tuple[float, ...]:
        return tuple(ms * self.batch_size / REFERENCE_BATCH for ms in self.part_ms)

    def host(self) -> tf.data.Dataset:
        """Endless batches of the host pipeline."""
        shape = [self.batch_size, self.mel_frames, MEL_BINS if self.part_ms else HOP]
        with tf.device("/CPU:0"):
            # Not int32: TensorFlow keeps such arguments of functions in host memory, and a step
            # would wait until they are back from the GPU (0.4 ms a step on emulated ones).
            text = tf.ones([self.batch_size, self.text_len], tf.int64)
            audio = tf.random.stateless_normal(shape, (1, 2))
        dataset = tf.data.Dataset.from_tensors((text, audio)).repeat()
        if not self.part_ms:
            return dataset.map(lambda text, audio: (text, audio / tf.reduce_max(tf.abs(audio))))
        host_ms = self.scaled_ms()[0]
        if not host_ms:
            return dataset
        # A host that needs host_ms for a batch, not one that makes two of them at a time.
        options = tf.data.Options()
        options.experimental_optimization.map_parallelization = False
        made = dataset.map(lambda *batch: emulation.timed(batch, ms=host_ms))
        return made.with_options(options)

    def front_end(self, text: tf.Tensor, audio: tf.Tensor):
        if self.part_ms:
            # Held together, or the batch would go on before the time is up.
            return emulation.timed((text, audio), ms=self.scaled_ms()[1])
        wave = tf.reshape(audio, [self.batch_size, self.mel_frames * HOP])
        spectra = tf.abs(tf.signal.stft(wave, 4 * HOP, HOP, pad_end=True))
        mel = tf.signal.linear_to_mel_weight_matrix(
            num_mel_bins=MEL_BINS,
            num_spectrogram_bins=2 * HOP + 1,
            sample_rate=22050,
            lower_edge_hertz=0.0,
            upper_edge_hertz=8000.0,
        )
        return text, tf.math.log(tf.maximum(spectra @ mel, 1e-5))

    def train_step(self) -> Callable[[tuple], tf.Tensor]:
        """A step over one batch, made in the strategy's scope; it returns the loss."""
        if self.part_ms:
            return self._timed_step
        return _transformer_step(self.text_len, self.mel_frames, self.width, self.layers)

    def dataset_and_step(self) -> tuple[tf.data.Dataset, Callable]:
        """As `--target` functions return them."""
        return self.host().apply(on_data_device(self.front_end)), tf.function(self.train_step())

    def _timed_step(self, batch):
        _, features = batch
        held = [features]
        if self.step_mb:
            held += _memory([self.batch_size, int(self.step_mb * 1024), 256])
        return emulation.timed(held, ms=self.scaled_ms()[2])[0][0, 0, 0]


def _memory(shape):
    """An uninitialised tensor.

    It is made by a call that claims to have no effects.  Otherwise TensorFlow would let two
    replicas in one function take their memory one after the other, and a signal from device to
    device would wait for the first: data-parallel steps then took 40 ms instead of 23.
    """
    empty = tf.function(lambda: tf.raw_ops.Empty(shape=shape, dtype=tf.float32))
    taken = empty.get_concrete_function()
    return tf.raw_ops.PartitionedCall(args=[], Tout=[tf.float32], f=taken)


def part_times(texts: list[str]) -> tuple[float, ...]:
    """The three figures of --part_ms."""
    with contextlib.suppress(ValueError):
        times = tuple(float(text) for text in texts)
        if len(times) == 3 and all(0 <= time < 1e5 for time in times):
            return times
    raise ValueError(
        f"--part_ms={','.join(texts)} must be three times in ms, of host, front end and step, "
        "such as --part_ms=10,20,20"
    )


def _transformer_step(text_len, mel_frames, width, layers):
    import keras

    text = keras.Input([text_len], dtype="int64")
    mel = keras.Input([mel_frames, MEL_BINS])
    x = keras.layers.Concatenate(axis=1)(
        [keras.layers.Embedding(6681, width)(text), keras.layers.Dense(width)(mel)]
    )
    for _ in range(layers):
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(8, width // 8)(y, y, use_causal_mask=True)
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.Dense(width)(keras.layers.Dense(4 * width, activation="gelu")(y))
    model = keras.Model([text, mel], keras.layers.Dense(MEL_BINS)(x[:, text_len:]))
    optimizer = keras.optimizers.AdamW(1e-4)
    optimizer.build(model.trainable_variables)

    def step(batch):
        text, features = batch
        with tf.GradientTape() as tape:
            error = model([text, features], training=True)[:, :-1] - features[:, 1:]
            loss = tf.reduce_mean(tf.square(error))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step
