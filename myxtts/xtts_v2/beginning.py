"""A model of the published form that begins with random weights: all that its directory holds.

    beginning = Beginning.of(model, corpus, TextConfig(), seed=0)
    beginning.drawn().write("model")       # model.pth, dvae.pth, vocab.json, mel_stats.pth, ...

The vocabulary is made from the texts of the corpus, mel_stats from its clips.
"""

import collections
import dataclasses
import gc
import json

import keras
import numpy as np
import soundfile
import tensorflow as tf
from absl import logging

from myxtts import UserError
from myxtts.config import TextConfig
from myxtts.corpus.manifest import Corpus
from myxtts.text.languages import base_language
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.config import PublishedConfig
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.networks import (
    make_conditioning,
    make_dvae,
    make_gpt,
    make_hifigan,
    make_speaker,
)
from myxtts.xtts_v2.new_vocabulary import learned_vocabulary
from myxtts.xtts_v2.normaliser import Normaliser
from myxtts.xtts_v2.resampling import resampled
from myxtts.xtts_v2.sizes import PublishedModel
from myxtts.xtts_v2.text import Tokens

NO_LICENCE = (
    "none is stated: this model began with random weights, not with published ones, so only the "
    "rights in its training data count"
)
_MOST_CLIPS = 1000  # of which mel_stats are computed; more do not change them


@dataclasses.dataclass(frozen=True)
class Beginning:
    """The module's docstring shows its use. `model` has the sizes that the vocabulary needs."""

    model: PublishedModel
    vocabulary: str  # the text of vocab.json
    normaliser: Normaliser
    corpus: Corpus
    seed: int

    @classmethod
    def of(cls, model: PublishedModel, corpus: Corpus, text: TextConfig, seed: int) -> "Beginning":
        """Makes the vocabulary; weights and mel_stats are made by `drawn`."""
        texts = collections.defaultdict(list)
        for clip, line in enumerate(corpus.texts):
            texts[base_language(corpus.language_of(clip))].append(line)
        merged = text.vocabulary == "bpe"
        vocabulary, normaliser = learned_vocabulary(texts, text.vocabulary_size, merged)
        return cls(
            with_vocabulary(model, vocabulary),
            vocabulary=vocabulary,
            normaliser=normaliser,
            corpus=corpus,
            seed=seed,
        )

    def drawn(self) -> PublishedDirectory:
        """The directory, with random weights that depend only on the seed and the sizes."""
        stats = mel_stats_of(self.corpus)
        model, dvae = random_tensors(self.model, self.seed)
        languages = Tokens(self.vocabulary, self.normaliser).languages
        return PublishedDirectory(
            path="random weights",
            config=PublishedConfig(self.model.args, languages=languages),
            model={**model, "mel_stats": stats},
            dvae=dvae,
            vocabulary=self.vocabulary,
            normaliser=self.normaliser,
            licence=NO_LICENCE,
        )


def with_vocabulary(model: PublishedModel, vocabulary: str) -> PublishedModel:
    """The sizes of a model with this vocab.json."""
    ids = json.loads(vocabulary)["model"]["vocab"]
    args = dataclasses.replace(model.args, gpt_number_text_tokens=len(ids))
    return dataclasses.replace(model, args=args, start_text=ids["[START]"], stop_text=ids["[STOP]"])


def random_tensors(model: PublishedModel, seed: int) -> tuple[dict, dict]:
    """Random tensors under their published names: those of model.pth, but for mel_stats, and those
    of dvae.pth."""
    keras.utils.set_random_seed(seed)
    tensors, dvae = {}, {}
    for make in (make_conditioning, make_gpt, make_speaker, make_hifigan, make_dvae):
        names = Names()
        make(model, names)
        (dvae if make is make_dvae else tensors).update(names.tensors())
        del names
        gc.collect()  # the memory of one network at a time
    return tensors, dvae


def mel_stats_of(corpus: Corpus) -> np.ndarray:
    """float32 [80]: the root mean square of every band of the DVAE's log-mels, over the clips, or
    over a thousand of them that are evenly spread."""
    most = min(len(corpus), _MOST_CLIPS)
    squares, frames = np.zeros(80), 0
    for clip in np.linspace(0, len(corpus) - 1, most).round().astype(int):
        path = corpus.paths[clip]
        try:
            waveform, rate = soundfile.read(path, dtype="float32")
        except (OSError, soundfile.SoundFileError) as error:
            raise UserError(f"{path} cannot be read: {error}; prepare the corpus again") from None
        at_mels = resampled(tf.constant(waveform[None]), rate, mels.RATE)
        mel = mels.log_mel(at_mels, np.ones(80, np.float32), mels.DVAE_FFT)[0].numpy()
        squares += np.square(mel, dtype=np.float64).sum(0)
        frames += len(mel)
    stats = np.sqrt(squares / frames).astype(np.float32)
    logging.info(
        "mel_stats: %.2f to %.2f, from %d of %d clips",
        *(stats.min(), stats.max(), most, len(corpus)),
    )
    return np.maximum(stats, 1e-2)
