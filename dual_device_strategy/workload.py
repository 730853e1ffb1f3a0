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
    batch of 16; `fixed_ms` is added for each launch of front end and step.  `step_mb` is the memory
    that the emulated step takes for each element of a batch.  `width` and `layers` are the sizes of
    the real step's transformer.  The losses of replicas are to be added up: each is its rows' part
    of the whole batch's loss.
    """

    batch_size: int = 16
    text_len: int = 200
    mel_frames: int = 400
    part_ms: tuple[float, float, float] | None = None
    fixed_ms: tuple[float, float] = (0.0, 0.0)
    step_mb: float = 0.0
    width: int = 512
    layers: int = 8

    def scaled_ms(self) -> tuple[float, ...]:
        """The times of the parts for a whole batch."""
        fixed = (0.0, *self.fixed_ms)
        return tuple(
            of_launch + ms * self.batch_size / REFERENCE_BATCH
            for of_launch, ms in zip(fixed, self.part_ms, strict=True)
        )

    def _ms_of(self, part: int, rows: int | None, tensor: tf.Tensor):
        """The time of front end (1) or step (2) for the rows of a tensor."""
        rows = tf.cast(tf.shape(tensor)[0], tf.float32) if rows is None else rows
        return self.fixed_ms[part - 1] + self.part_ms[part] / REFERENCE_BATCH * rows

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
            return emulation.timed((text, audio), ms=self._ms_of(1, audio.shape[0], audio))
        wave = tf.reshape(audio, [-1, self.mel_frames * HOP])
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
        return _transformer_step(
            self.text_len, self.mel_frames, self.width, self.layers, rows=self.batch_size
        )

    def dataset_and_step(self) -> tuple[tf.data.Dataset, Callable]:
        """As `--target` functions return them."""
        return self.host().apply(on_data_device(self.front_end)), tf.function(self.train_step())

    def _timed_step(self, batch):
        _, features = batch
        held, rows = [features], features.shape[0]
        if self.step_mb:
            known = tf.shape(features)[0] if rows is None else rows
            held += _memory([known, int(self.step_mb * 1024), 256])
        return emulation.timed(held, ms=self._ms_of(2, rows, features))[0][0, 0, 0]


def _memory(shape):
    """An uninitialised tensor.

    It is made by a call that claims to have no effects.  Otherwise TensorFlow would let two
    replicas in one function take their memory one after the other, and a signal from device to
    device would wait for the first: data-parallel steps then took 40 ms instead of 23.
    """
    empty = tf.function(lambda rows: tf.raw_ops.Empty(shape=[rows, *shape[1:]], dtype=tf.float32))
    taken = empty.get_concrete_function(tf.TensorSpec([], tf.int32))
    return tf.raw_ops.PartitionedCall(args=[shape[0]], Tout=[tf.float32], f=taken)


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


def fixed_times(texts: list[str]) -> tuple[float, ...]:
    """The two figures of --fixed_ms."""
    with contextlib.suppress(ValueError):
        times = tuple(float(text) for text in texts)
        if len(times) == 2 and all(0 <= time < 1e5 for time in times):
            return times
    raise ValueError(
        f"--fixed_ms={','.join(texts)} must be two times in ms, of front end and step, such as "
        "--fixed_ms=5,5"
    )


def _transformer_step(text_len, mel_frames, width, layers, *, rows):
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
            of_a_row = (mel_frames - 1) * MEL_BINS
            loss = tf.reduce_sum(tf.square(error)) / (rows * of_a_row)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step
