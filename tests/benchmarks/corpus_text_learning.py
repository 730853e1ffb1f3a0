"""The effect of the corpus's text on a network: its loss on sentences that are in no corpus.

    python tests/benchmarks/corpus_text_learning.py [--steps=1500] [--minutes=60]

A small GPT learns to say the phonemes of one embedded voice, twice with equal steps and the same
codes: from grammatical patterns alone (sentences/en.txt, the list `sentence`), and from the whole
text of the corpus. Then both predict the codes of recordings of new sentences of the corpus and
of other_sentences.txt, the codes before them given. The tokenizer is one for both.
"""

import itertools
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

from myxtts.config import TextConfig
from myxtts.corpus import sentences
from myxtts.espeak import espeak
from myxtts.features import make_log_mel
from myxtts.model.config import AudioConfig, GptConfig, TokenizerConfig
from myxtts.model.gpt import Gpt
from myxtts.model.tokenizer import AudioTokenizer
from myxtts.text.normalise import normalise
from myxtts.text.vocabulary import Vocabulary

STEPS = flags.DEFINE_integer("steps", 1500, "Of each GPT.")
MINUTES = flags.DEFINE_float("minutes", 60.0, "Of speech to learn from.")
BATCH, TOKENIZER_STEPS, CROP, JUDGED = 16, 400, 64, 200
AUDIO = AudioConfig()
TOKENIZER = TokenizerConfig(width=96, codes=256, code_size=32)
GPT = GptConfig(layers=3, width=128, heads=4, dropout=0.0, code_noise=0.1, tokens_per_code=0.85)
OTHER = Path(__file__).with_name("other_sentences.txt")


def spoken(texts) -> list[tuple[str, np.ndarray]]:
    """Each text with its log-mel, said by one voice."""
    log_mel, said = make_log_mel(AUDIO), []
    for text in texts:
        pcm = np.frombuffer(espeak().say(normalise(text, "en"), "en+f2"), np.int16)
        whole = np.zeros(-(-len(pcm) // AUDIO.hop_length) * AUDIO.hop_length, np.int16)
        whole[: len(pcm)] = pcm
        mel, _ = log_mel(tf.constant(whole[None]), tf.constant([len(pcm)], tf.int32))
        said.append((text, mel[0].numpy()))
    return said


def minutes_of(texts, minutes: float):
    frames, wanted = 0, minutes * 60 * AUDIO.sample_rate / AUDIO.hop_length
    for clip in (clip for text in texts for clip in spoken([text])):
        yield clip
        frames += len(clip[1])
        if frames >= wanted:
            return


def padded(rows, dtype=np.int32) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(row) for row in rows], np.int32)
    whole = np.zeros((len(rows), -(-max(lengths) // 32) * 32, *np.shape(rows[0])[1:]), dtype)
    for row, values in zip(whole, rows, strict=True):
        row[: len(values)] = values
    return whole, lengths


def training_step(loss_of, network, rate, steps):
    warm = keras.optimizers.schedules.CosineDecay(0.0, steps, warmup_target=rate, warmup_steps=50)
    optimizer = keras.optimizers.AdamW(warm, global_clipnorm=1.0, beta_2=0.98)
    optimizer.build(network.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(*inputs):
        with tf.GradientTape() as tape:
            loss = loss_of(*inputs)
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def learn_sounds(mels) -> AudioTokenizer:
    tokenizer = AudioTokenizer(TOKENIZER, AUDIO)
    chance = np.random.default_rng(0)

    def loss(crops, lengths, seed):
        return tokenizer(crops, lengths, seed=seed, training=True)["loss"]

    step = training_step(loss, tokenizer, 2e-3, TOKENIZER_STEPS)
    for number in range(TOKENIZER_STEPS):
        crops, lengths = [], np.full(BATCH, CROP, np.int32)
        while len(crops) < BATCH:
            mel = mels[chance.integers(len(mels))]
            if len(mel) > CROP:
                at = chance.integers(len(mel) - CROP)
                crops.append(mel[at : at + CROP])
        step(tf.constant(np.stack(crops)), tf.constant(lengths), tf.constant([1, number]))
    return tokenizer


def examples(clips, tokenizer, vocabulary):
    """Tokens and codes of the clips."""
    made = []
    for text, mel in clips:
        whole, length = padded([mel], np.float32)
        codes, lengths = tokenizer.encode(tf.constant(whole), tf.constant(length))
        made.append((vocabulary.encode(text, "en"), codes.numpy()[0, : lengths[0]]))
    return made


def inputs_of(chosen):
    text, codes = padded([e[0] for e in chosen]), padded([e[1] for e in chosen])
    latents = tf.zeros([len(chosen), 1, GPT.width])
    return latents, *map(tf.constant, (*text, *codes))


def learn_and_judge(training, judged, tokens: int) -> dict[str, float]:
    keras.utils.set_random_seed(1)
    gpt = Gpt(GPT, tokens, 402, TOKENIZER.codes)
    chance = np.random.default_rng(1)

    def loss(seed, *inputs):
        return gpt(*inputs, seed=seed, training=True)["loss"]

    step = training_step(loss, gpt, 2e-3, STEPS.value)
    for number in range(STEPS.value):
        rows = chance.integers(0, len(training), BATCH)
        last = step(tf.constant([2, number]), *inputs_of([training[row] for row in rows]))
    found = {"training": float(last)}
    for name, clips in judged.items():
        batches = [clips[i : i + BATCH] for i in range(0, len(clips), BATCH)]
        losses = [float(gpt(*inputs_of(batch))["audio_loss"]) for batch in batches]
        weights = [sum(len(codes) for _, codes in batch) for batch in batches]
        found[name] = float(np.average(losses, weights=weights))
    return found


def main(_) -> None:
    tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(1)
    corpora, share = {}, sentences._GRAMMATICAL
    for name, grammatical in (("patterns", 1.0), ("whole text", share)):
        sentences._GRAMMATICAL = grammatical
        corpora[name] = list(minutes_of(sentences.different_sentences("en", 0), MINUTES.value))
    new = itertools.islice(sentences.different_sentences("en", 1, for_judging=True), JUDGED)
    judged = {
        "new sentences of the corpus": spoken(new),
        "other sentences": spoken(OTHER.read_text(encoding="utf-8").splitlines()),
    }
    tokenizer = learn_sounds([mel for clips in corpora.values() for _, mel in clips])
    texts = [text for clips in corpora.values() for text, _ in clips]
    config = TextConfig("characters", phonemes=True)
    vocabulary = Vocabulary.train(texts, ["en"] * len(texts), config)
    judged = {name: examples(clips, tokenizer, vocabulary) for name, clips in judged.items()}
    for name, clips in corpora.items():
        found = learn_and_judge(examples(clips, tokenizer, vocabulary), judged, len(vocabulary))
        losses = ", ".join(f"{of} {loss:.3f}" for of, loss in found.items())
        print(f"{name}: {len(clips)} clips, {STEPS.value} steps, nats a code: {losses}", flush=True)


if __name__ == "__main__":
    app.run(main)
