"""The batches of a stage: which clips, in which shapes, with which features."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from dual_device_strategy import on_data_device
from myxtts import UserError
from myxtts.config import AugmentConfig, BatchConfig, FeatureConfig
from myxtts.corpus.batches import read_batches, served_batches
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.texts import Texts, encode_texts
from myxtts.features import make_features
from myxtts.model.config import ModelConfig
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.stages import Stage, stage_named


@dataclasses.dataclass(frozen=True)
class UsableClips:
    """The clips that fit the model, and their texts as tokens. All stages have the same ones."""

    corpus: Corpus
    texts: Texts

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: Vocabulary, model: ModelConfig) -> "UsableClips":
        """Warnings say how many clips were left out, and why."""
        limit = model.longest_frames
        fits = np.flatnonzero(model.audio.frames(corpus.samples) <= limit)
        if len(fits) < len(corpus):
            logging.warning(
                "%d of %d clips are left out: they are longer than the %d mel frames that "
                "%d codes, the most that the GPT reads, leave room for",
                len(corpus) - len(fits),
                len(corpus),
                limit,
                model.longest_codes,
            )
            if not len(fits):
                raise UserError(
                    f"every clip is longer than the GPT reads: {model.longest_codes} codes "
                    f"leave room for {limit} mel frames"
                )
            corpus = corpus.subset(fits)
        return cls(*encode_texts(corpus, vocabulary, model.text.max_tokens))


class StageData:
    """The clips of a stage, and the plan of their batches."""

    def __init__(self, clips: UsableClips, config: TrainConfig, batches: BatchConfig):
        self._config, self.corpus, self._texts = config, clips.corpus, clips.texts
        self.plan = BatchPlan(
            self.corpus.samples,
            speaker_ids=self.corpus.speaker_ids,
            language_ids=self.corpus.language_ids,
            config=batches,
            audio=config.model.audio,
        )

    @classmethod
    def training(cls, stage: str, clips: UsableClips, config: TrainConfig):
        batches = dataclasses.replace(
            config.batches,
            batch_size=config.batch_size(stage),
            **_references(stage, config),
        )
        return cls(clips, config, batches)

    @classmethod
    def held_out(
        cls,
        stage: str,
        corpus: Corpus,
        vocabulary: Vocabulary,
        config: TrainConfig,
        *,
        replicas: int = 1,
    ):
        """At most `evaluation_clips`, the same ones in the same batches every time. Several
        replicas have equal parts of equal batches; a few clips may be left out for that."""
        clips = min(len(corpus), config.evaluation_clips)
        size = min(config.batch_size(stage), clips)
        if replicas > 1 or config.data_service:
            batches = -(-clips // size)
            size = clips // batches // replicas * replicas
            if not size:
                raise UserError(
                    f"{clips} held-out clips cannot be divided among {replicas} model devices: "
                    "hold out more (--validation_share, --evaluation_clips), or none"
                )
            clips = batches * size
        if len(corpus) > clips:
            every = np.linspace(0, len(corpus) - 1, clips)
            corpus = corpus.subset(every.round().astype(np.int64))
        batches = dataclasses.replace(
            config.batches,
            batch_size=size,
            **_references(stage, config),
            shuffle=False,
            # Of equal batches nothing is left over, and how many rows they have is known.
            drop_remainder=replicas > 1,
            temperature=1.0,
        )
        return cls(UsableClips.of(corpus, vocabulary, config.model), config, batches)

    def batches(
        self,
        stage: Stage | None,
        *,
        position: int | Callable[[], int] = 0,
        augmented: bool,
        count: int | None = None,
        parts: tuple[int, int, int] = (0, 1, 1),
    ) -> tf.data.Dataset:
        """The stage's batches from number `position` on, without end or `count` of them; call it
        in the strategy's scope. A function says the position of each iterator anew. Features, and
        what the stage adds to them, are made on the data device. Without a stage the
        batches are whole clips with their features. `parts` is for a data service, see
        `served_batches`."""
        features = make_features(
            FeatureConfig(
                self._config.model.audio,
                self._config.augment if augmented else AugmentConfig(),
                keep_waveform=stage is not None and stage.needs_waveform,
            )
        )
        if stage is not None and stage.makes_features:
            features = dict

        per_epoch = self.plan.batches_per_epoch

        def begin() -> tuple[int, int]:  # without `self`: TensorFlow never lets go of it
            return divmod(position() if callable(position) else position, per_epoch)

        if self._config.data_service and stage is not None:
            logging.log_first_n(
                logging.WARNING,
                "batches come from the data service at %s, in another order in every run: a run "
                "that is stopped goes on from its weights, but not with the same losses",
                1,
                self._config.data_service,
            )
            dataset = served_batches(
                self.corpus,
                self._texts,
                self.plan,
                begin=begin(),
                count=count,
                parts=parts,
            )
        else:
            dataset = read_batches(
                self.corpus,
                self._texts,
                self.plan,
                begin=begin,
                workers=self._config.workers,
                host_prefetch=self._config.host_prefetch,
            )
            # Where the end is known, replicas need not ask each other for it on every step.
            endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
            dataset = dataset.apply(endless)
            dataset = dataset.take(count) if count is not None else dataset

        # Several machines divide the batches; TensorFlow would divide epochs, taken for files.
        options, policies = tf.data.Options(), tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = policies.DATA
        dataset = dataset.with_options(options)

        @tf.autograph.experimental.do_not_convert  # which took half of the time of tracing it
        def front_end(batch):
            batch = features(batch)
            return batch if stage is None else stage.front_end(batch)

        if self._config.deterministic:
            # TensorFlow optimizes a dataset's function with the options set when its runtime
            # started, but a function called inside it with today's: the same for all strategies.
            front_end = tf.function(front_end, experimental_attributes={"_noinline": True})
        return dataset.apply(on_data_device(front_end))

    def clips_of(self, epoch: int, batch: int) -> np.ndarray:
        """Indices of the clips in a batch."""
        clips = self.plan.epoch(epoch).clips[batch]
        return clips[clips >= 0]

    @property
    def unknown(self) -> float:
        """The share of tokens that the vocabulary lacks; the clips they are of are left out."""
        return self._texts.unknown

    def shapes(self) -> str:
        """The shapes of batches in words."""
        frames = self.plan.bucket_frames
        many = "one shape" if len(frames) == 1 else f"{len(frames)} shapes"
        return (
            f"{many} of {self.plan.config.batch_size} clips and {frames.min()} to {frames.max()} "
            f"mel frames, {self.plan.padding_share():.0%} padding"
        )


def _references(stage: str, config: TrainConfig) -> dict:
    declared = stage_named(stage, config.model.form)
    return {
        "conditioning_seconds": declared.reference_seconds(config),
        "crop": declared.crop(config),
    }
