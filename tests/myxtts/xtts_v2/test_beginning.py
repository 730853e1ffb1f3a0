"""What a model that begins with random weights gets from its corpus."""

import json

import keras
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts import UserError
from myxtts.config import BadSetting
from myxtts.model.layers import seed_of
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.beginning import mel_stats_of
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.layers import BatchNorm
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.new_vocabulary import learned_vocabulary
from myxtts.xtts_v2.resampling import resampled
from myxtts.xtts_v2.sizes import ConditioningSizes, DvaeSizes, HifiGanSizes, PublishedModel
from myxtts.xtts_v2.text import Tokens

TEXTS = {
    "en": ["The thing that they think is the other thing.", "These three, then those three."] * 2,
    "fa": ["سلام دنیا، این یک متن است.", "این متن دیگر است."] * 2,
    "zh-cn": ["ni hao"] * 2,
}


def test_a_vocabulary_is_made_of_the_texts_with_a_tag_for_each_language():
    texts = {language: TEXTS[language] for language in ("en", "fa")}
    text, normaliser = learned_vocabulary(texts, 90)
    tokens = Tokens(text, normaliser)
    assert set(tokens.languages) == {"en", "fa"} and normaliser.own == ("fa",)
    file = json.loads(text)
    assert len(file["model"]["vocab"]) <= 90
    ids = [tokens.ids(line, language) for language, lines in texts.items() for line in lines]
    assert all(tokens.bpe.unknown not in line for line in ids)
    letters, _ = learned_vocabulary(texts, 90, merged=False)
    assert json.loads(letters)["model"]["merges"] == []
    apart = Tokens(letters, normaliser).ids(TEXTS["en"][0], "en")
    assert len(ids[0]) < len(apart) and ids[0][0] == apart[0] == tokens.bpe.special["[en]"]
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_str(text)
    line = "[en]" + tokens.written(TEXTS["en"][1], "en").replace(" ", "[SPACE]")
    assert theirs.encode(line).ids == tokens.bpe.encode(line)


def test_chinese_has_the_published_tag_and_a_language_without_a_code_is_refused():
    pytest.importorskip("pypinyin")
    text, _ = learned_vocabulary({"zh": TEXTS["zh-cn"]}, 60)
    assert "[zh-cn]" in json.loads(text)["model"]["vocab"]
    with pytest.raises(UserError, match="'english' is no language that a"):
        learned_vocabulary({"english": ["a"]}, 60)


def test_mel_stats_make_every_band_of_the_corpus_as_large(spoken_corpus):
    clips = spoken_corpus.subset(np.arange(6))
    stats, squares = mel_stats_of(clips), []
    for path in clips.paths:
        waveform, rate = soundfile.read(path, dtype="float32")
        waveform = resampled(tf.constant(waveform[None]), rate, mels.RATE)
        squares.append(np.square(mels.log_mel(waveform, stats, mels.DVAE_FFT)[0]))
    np.testing.assert_allclose(np.concatenate(squares).mean(0), np.ones(80), rtol=1e-4)


def test_codes_that_are_placed_where_the_encoder_is_stay_in_use():
    """Without that, all vectors have the same code after the first step."""
    sizes = DvaeSizes(width=16, code_size=8, codes=32)
    mel = tf.random.stateless_normal([4, 64, 80], [1, 2])
    there = tf.concat([tf.ones([4, 12]), tf.zeros([4, 4])], 1)
    used = {}
    for revived in (True, False):
        keras.utils.set_random_seed(0)
        dvae = Dvae(sizes, Names(), revived)
        for step in range(3):
            seed = seed_of(tf.constant([[0, 0, step, 0]]))
            made = dvae(mel, training=True, there=there, seed=seed)
        used[revived] = float(dvae.codebook.perplexity(made["codes"]))
    assert used[True] > 8 > 2 > used[False]
    vectors = dvae.codebook.vectors
    assert vectors.shape == (32, 8) and np.isfinite(vectors.numpy()).all()


def test_a_batch_norm_measures_its_batch_and_remembers_as_torch_does():
    names = Names()
    norm = BatchNorm(names, 3)
    x = np.random.default_rng(0).normal(2.0, 3.0, [4, 5, 3]).astype(np.float32)
    made = norm(tf.constant(x), training=True).numpy()
    np.testing.assert_allclose(made.mean((0, 1)), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(made.var((0, 1)), np.ones(3), rtol=1e-4)
    tensors = names.tensors()
    np.testing.assert_allclose(tensors["running_mean"], 0.1 * x.mean((0, 1)), rtol=1e-5)
    expected = 0.9 + 0.1 * x.var((0, 1), ddof=1)
    np.testing.assert_allclose(tensors["running_var"], expected, rtol=1e-5)
    norm(tf.constant(np.full_like(x, np.nan)), training=True)
    np.testing.assert_allclose(names.tensors()["running_var"], expected, rtol=1e-5)
    still = norm(tf.constant(x)).numpy()
    wanted = (x - tensors["running_mean"]) / np.sqrt(tensors["running_var"] + 1e-5)
    np.testing.assert_allclose(still, wanted, rtol=1e-4, atol=1e-5)


def test_numbers_of_layers_that_the_published_code_does_not_read_are_named():
    assert PublishedModel().unknown_layers == []
    few = PublishedModel(conditioning=ConditioningSizes(layers=1), hifigan=HifiGanSizes(pairs=1))
    assert few.unknown_layers == ["conditioning.layers=1", "hifigan.pairs=1"]


def test_sizes_that_do_not_fit_together_are_refused_by_name():
    with pytest.raises(BadSetting, match=r"dvae\.codes must be 1024, as the other sizes have it"):
        PublishedModel(dvae=DvaeSizes(codes=512), from_random=True)
    with pytest.raises(BadSetting, match=r"hifigan\.kernels must be one or more odd numbers"):
        PublishedModel(hifigan=HifiGanSizes(kernels=(3, 4)), from_random=True)
    with pytest.raises(BadSetting, match=r"conditioning\.layers must be 1 or more"):
        PublishedModel(conditioning=ConditioningSizes(layers=0), from_random=True)
