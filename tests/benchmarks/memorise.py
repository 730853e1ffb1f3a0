"""Eight utterances by heart: can the networks, as sized `tiny`, learn at all?

    python tests/benchmarks/memorise.py

Trains tokenizer, then conditioning and GPT, on eight clips of the embedded corpus and nothing
else, until they know them (three minutes at most), and says the eight sentences again without
looking.  Goals: accuracy of the next code 99 % when the codes before it are given, and generated
mels no further from the clips than 1.1 times what the tokenizer alone makes of them.
"""

import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np
import tensorflow as tf

from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.corpus.texts import encode_texts
from myxtts.features import make_log_mel
from myxtts.model.conditioning import Conditioning
from myxtts.model.config import SIZES
from myxtts.model.gpt import Gpt
from myxtts.model.sampling import generate
from myxtts.model.tokenizer import AudioTokenizer
from myxtts.text.vocabulary import Vocabulary

CLIPS, SECONDS, TOKENIZER_SHARE, CROP = 8, 180.0, 0.3, 96
CONFIG = SIZES["tiny"]


def clips(directory: str):
    """Mels, texts and lengths of the eight; each one's reference is another of its voice."""
    settings = embedded.EmbeddedConfig(minutes=0.5, voices=2, seed=11)
    prepared, _ = prepare(
        Source(embedded.make(directory, settings, progress=False)), progress=False
    )
    corpus = Corpus.load(prepared).subset(np.arange(CLIPS))
    vocabulary = Vocabulary.train(corpus.texts, ["en"] * CLIPS, CONFIG.text)
    _, texts = encode_texts(corpus, vocabulary, CONFIG.text.max_tokens)
    hop = CONFIG.audio.hop_length
    waveform = np.zeros((CLIPS, -(-int(max(corpus.samples)) // hop) * hop), np.int16)
    for row, path, samples, offset in zip(
        waveform, corpus.paths, corpus.samples, corpus.data_offsets, strict=True
    ):
        row[:samples] = np.fromfile(path, "<i2", samples, offset=offset)
    mel, mel_lengths = make_log_mel(CONFIG.audio)(
        tf.constant(waveform), tf.constant(corpus.samples, tf.int32)
    )
    text = np.zeros((CLIPS, max(texts.lengths)), np.int32)
    for row, i in zip(text, range(CLIPS), strict=True):
        row[: texts.lengths[i]] = texts[i]
    others = [
        next(j for j in np.roll(np.arange(CLIPS), -i - 1) if speaker == corpus.speaker_ids[j])
        for i, speaker in enumerate(corpus.speaker_ids)
    ]
    text_lengths = tf.constant(texts.lengths, tf.int32)
    return mel, mel_lengths, tf.constant(text), text_lengths, others, len(vocabulary)


def trainer(loss_of, networks, rate):
    variables = [variable for network in networks for variable in network.trainable_variables]
    warm = keras.optimizers.schedules.PolynomialDecay(0.05 * rate, 30, rate)
    optimizer = keras.optimizers.AdamW(warm, global_clipnorm=1.0, beta_2=0.98, weight_decay=0.0)
    optimizer.build(variables)

    @tf.function
    def step(*inputs):
        with tf.GradientTape() as tape:
            loss, *figures = loss_of(*inputs)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return figures

    return step


def learn_sounds(mel, mel_lengths, seconds: float) -> AudioTokenizer:
    tokenizer = AudioTokenizer(CONFIG.tokenizer, CONFIG.audio)

    def loss(crops, lengths, seed):
        made = tokenizer(crops, lengths, seed=seed, training=True)
        return made["loss"], made["losses"]["reconstruction"]

    step, chance = trainer(loss, [tokenizer], 2e-3), np.random.default_rng(0)
    start, number = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        rows = chance.integers(0, CLIPS, 16)
        last = np.maximum(mel_lengths.numpy()[rows] - CROP, 0)
        begin = (chance.random(16) * (last + 1)).astype(int)
        crops = np.stack([mel[row, at : at + CROP] for row, at in zip(rows, begin, strict=True)])
        lengths = np.minimum(mel_lengths.numpy()[rows] - begin, CROP).astype(np.int32)
        (error,) = step(tf.constant(crops), tf.constant(lengths), tf.constant([1, number]))
        number += 1
    print(f"tokenizer: {number} steps, error {float(error):.3f} at the end", flush=True)
    return tokenizer


def learn_sentences(conditioning, gpt, reference, inputs, seconds: float) -> float:
    """Until the training batch is known, or for that long; returns the accuracy."""

    def loss(seed):
        latents = conditioning(*reference, seed=seed, training=True)
        made = gpt(latents, *inputs, seed=seed, training=True)
        return made["loss"], made["audio_accuracy"]

    @tf.function
    def known():
        return gpt(conditioning(*reference), *inputs)["audio_accuracy"]

    step, start, number = trainer(loss, [conditioning, gpt], 1e-3), time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step(tf.constant([2, number]))
        number += 1
        if number % 20 == 0 and float(known()) > 0.9999:
            break
    accuracy = float(known())
    print(f"GPT: {number} steps, accuracy of the next code {accuracy:.2%}", flush=True)
    return accuracy


def apart(mel, lengths, target, target_lengths) -> float:
    """Mean distance of log-mels; where only one of the two speaks, the other is silent."""
    total, frames = 0.0, 0
    floor = np.log(CONFIG.audio.log_floor)
    for a, n, b, m in zip(mel, lengths, target, target_lengths, strict=True):
        both = np.full((2, max(n, m), b.shape[1]), floor, np.float32)
        both[0, :n], both[1, :m] = a[:n], b[:m]
        total, frames = total + np.abs(both[0] - both[1]).mean(1).sum(), frames + max(n, m)
    return total / frames


def main() -> None:
    tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as directory:
        mel, mel_lengths, text, text_lengths, others, tokens = clips(directory)
    start, used = time.perf_counter(), time.process_time()
    tokenizer = learn_sounds(mel, mel_lengths, TOKENIZER_SHARE * SECONDS)
    codes, code_lengths = tokenizer.encode(mel, mel_lengths)
    different = len(np.unique(codes.numpy()[tf.sequence_mask(code_lengths).numpy()]))
    print(f"{int(sum(code_lengths))} codes to learn, {different} different ones", flush=True)
    reference = tf.gather(mel, others), tf.gather(mel_lengths, others)
    # Nothing is to be left out here: what dropout prevents is what is wanted.
    settings = dataclasses.replace(CONFIG.gpt, dropout=0.0, code_noise=0.0)
    conditioning = Conditioning(CONFIG.conditioning, settings.width, mel.shape[2], dropout=0.0)
    gpt = Gpt(settings, tokens, CONFIG.text.max_tokens, CONFIG.tokenizer.codes)
    inputs = text, text_lengths, codes, code_lengths
    left = SECONDS - (time.perf_counter() - start)
    accuracy = learn_sentences(conditioning, gpt, reference=reference, inputs=inputs, seconds=left)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    latents = conditioning(*reference)
    said, said_lengths, _ = generate(gpt, latents, text, text_lengths, temperature=0)
    target = mel.numpy(), mel_lengths.numpy()

    def decoded(codes, lengths):
        """Cut to the clip's last frame where it ends within the last code."""
        rebuilt = tokenizer.decode(codes, lengths).numpy()
        frames = lengths.numpy() * CONFIG.tokenizer.stride
        near = np.abs(frames - target[1]) < CONFIG.tokenizer.stride
        return rebuilt, np.where(near, np.minimum(frames, target[1]), frames)

    own = apart(*decoded(codes, code_lengths), *target)
    generated = apart(*decoded(said, said_lengths), *target)
    print(f"training took {seconds:.0f} s (processor time {cpu:.0f} s); goal: below 180 s")
    print(f"accuracy of the next code {accuracy:.2%}; goal: 99 %")
    print(
        f"log-mel distance from the clips: tokenizer {own:.3f}, generated {generated:.3f}, "
        f"ratio {generated / own:.3f}; goal: 1.100"
    )


if __name__ == "__main__":
    main()
