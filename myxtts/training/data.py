"""The batches of a stage: which clips, in which shapes, with which features."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from dual_device_strategy import on_data_device
from myxtts import UserError
from myxtts.config import AugmentConfig, FeatureConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.reading import read_batches
from myxtts.corpus.texts import encode_texts
from myxtts.features import make_features
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.stage import Stage


class StageData:
    """The clips that fit the model, and the plan of their batches."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, config: TrainConfig, batches):
        limit = config.model.gpt.max_audio_tokens * config.model.tokenizer.stride
        fits = np.flatnonzero(-(-corpus.samples // config.model.audio.hop_length) <= limit)
        if len(fits) < len(corpus):
            logging.warning(
                "%d of %d clips are left out: they are longer than the %d mel frames that "
                "gpt.max_audio_tokens=%d leaves room for",
                len(corpus) - len(fits),
                len(corpus),
                limit,
                config.model.gpt.max_audio_tokens,
            )
            if not len(fits):
                raise UserError(
                    "every clip is longer than gpt.max_audio_tokens="
                    f"{config.model.gpt.max_audio_tokens} leaves room for ({limit} mel frames)"
                )
            corpus = corpus.subset(fits)
        self._config = config
        self.corpus, self._texts = encode_texts(corpus, vocabulary, config.model.text.max_tokens)
        self.plan = BatchPlan(
            self.corpus.samples,
            self.corpus.speaker_ids,
            self.corpus.language_ids,
            batches,
            config.model.audio,
        )

    @classmethod
    def training(cls, stage: str, corpus: Corpus, vocabulary: Vocabulary, config: TrainConfig):
        batches = dataclasses.replace(
            config.batches,
            batch_size=config.batch_size(stage),
            conditioning_seconds=_crop_seconds(stage, config),
        )
        return cls(corpus, vocabulary, config, batches)

    @classmethod
    def held_out(cls, stage: str, corpus: Corpus, vocabulary: Vocabulary, config: TrainConfig):
        """At most `evaluation_clips`, the same ones in the same batches every time."""
        if len(corpus) > config.evaluation_clips:
            every = np.linspace(0, len(corpus) - 1, config.evaluation_clips)
            corpus = corpus.subset(every.round().astype(np.int64))
        batches = dataclasses.replace(
            config.batches,
            batch_size=min(config.batch_size(stage), len(corpus)),
            conditioning_seconds=_crop_seconds(stage, config),
            shuffle=False,
            drop_remainder=False,
            temperature=1.0,
        )
        return cls(corpus, vocabulary, config, batches)

    def batches(self, stage: Stage, *, position: int = 0, augmented: bool) -> tf.data.Dataset:
        """The stage's batches from number `position` on, without end; call it in the strategy's
        scope. Features, and what the stage adds to them, are made on the data device."""
        features = make_features(
            FeatureConfig(
                self._config.model.audio,
                self._config.augment if augmented else AugmentConfig(),
                stage.needs_waveform,
            )
        )
        epoch, batch = divmod(position, self.plan.batches_per_epoch)
        dataset = read_batches(
            self.corpus,
            self._texts,
            self.plan,
            epoch=epoch,
            batch=batch,
            workers=self._config.workers,
            host_prefetch=self._config.host_prefetch,
        )

        def front_end(batch):
            return stage.front_end(features(batch))

        if self._config.deterministic:
            # A function of a dataset is optimized as TensorFlow was told when its runtime started,
            # one called in it as it is told now; under every strategy alike, then.
            front_end = tf.function(front_end, experimental_attributes={"_noinline": True})
        return dataset.apply(on_data_device(front_end))

    def clips_of(self, epoch: int, batch: int) -> np.ndarray:
        """Indices of the clips in a batch."""
        clips = self.plan.epoch(epoch).clips[batch]
        return clips[clips >= 0]

    def shapes(self) -> str:
        """The shapes of batches in words."""
        frames = self.plan.bucket_frames
        many = "one shape" if len(frames) == 1 else f"{len(frames)} shapes"
        return (
            f"{many} of {self.plan.config.batch_size} clips and {frames.min()} to {frames.max()} "
            f"mel frames, {self.plan.padding_share():.0%} padding"
        )


def _crop_seconds(stage: str, config: TrainConfig) -> tuple[float, float]:
    """The tokenizer's stage looks at a part of the reference only: what it does not look at need
    not be read, nor made a mel of (a third of its front end's time)."""
    if stage != "tokenizer":
        return config.batches.conditioning_seconds
    audio = config.model.audio
    seconds = config.speaker_frames * audio.hop_length / audio.sample_rate
    return seconds, seconds


def random_segment(
    values: tf.Tensor, lengths: tf.Tensor, size: int, seed: tf.Tensor, padding: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`(segments [B, size, ...], their lengths, where they start)`, cut out of `values [B, T, ...]`
    at places drawn by the seed; a clip that is shorter is padded."""
    there = tf.shape(values)[1]
    free = tf.cast(tf.maximum(lengths - size + 1, 1), tf.float32)
    drawn = tf.random.stateless_uniform(tf.shape(lengths), seed)
    start = tf.cast(tf.floor(drawn * free), tf.int32)
    lack = tf.maximum(size - there, 0)
    values = tf.pad(
        values, [[0, 0], [0, lack], *[[0, 0]] * (values.shape.rank - 2)], constant_values=padding
    )
    segment = tf.gather(values, start[:, None] + tf.range(size)[None], batch_dims=1)
    return segment, tf.minimum(lengths, size), start
