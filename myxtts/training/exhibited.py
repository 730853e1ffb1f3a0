"""Chooses the clips and texts by which a run is looked at and listened to."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.config import BatchConfig, FeatureConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.reading import read_batches
from myxtts.corpus.texts import encode_texts
from myxtts.features import make_features
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.reports import Board, Exhibits

_CLIPS = 3


def exhibits_of(
    strategy: tf.distribute.Strategy,
    config: TrainConfig,
    corpus: Corpus,
    vocabulary: Vocabulary,
    texts: Sequence[tuple[str, str]],
    board: Board,
    directory: Path,
) -> Exhibits:
    """Of a held-out corpus; the same ones in every run and after every interruption."""
    model = config.model
    corpus, _ = encode_texts(corpus, vocabulary, model.text.max_tokens)
    chosen = corpus.subset(np.linspace(0, len(corpus) - 1, min(_CLIPS, len(corpus))).astype(int))
    chosen, encoded = encode_texts(chosen, vocabulary, model.text.max_tokens)
    batches = dataclasses.replace(
        BatchConfig(), batch_size=len(chosen), shuffle=False, buckets=1, drop_remainder=False
    )
    plan = BatchPlan(chosen.samples, chosen.speaker_ids, chosen.language_ids, batches, model.audio)
    dataset = read_batches(chosen, encoded, plan, epochs=1, workers=1, host_prefetch=1)
    features = make_features(FeatureConfig(model.audio))
    clips = features(next(iter(dataset)))
    spoken = []
    for number, (text, language) in enumerate(texts or _own_texts(chosen)):
        same = [i for i in range(len(chosen)) if chosen.language_of(i) == language]
        clip = same[number % len(same)] if same else number % len(chosen)
        spoken.append((vocabulary.encode(text, language), clip))
    return Exhibits(strategy, clips, spoken, board, directory, model.audio.sample_rate)


def _own_texts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(corpus.texts[i], corpus.language_of(i)) for i in range(min(2, len(corpus)))]
