"""Fine-tunes a reduced published-form model on a voice it never heard, all weights and adapters.

    python tests/benchmarks/xtts_v2_fine_tuning.py --out=DIR --base_minutes=4 --tune_minutes=1.5

A model of random weights learns from espeak-ng's voices but one (DVAE first, then the GPT), is
exported, and is fine-tuned from that export on the voice that was kept out. Prints the held-out
audio loss of the new voice and of the old ones, before and after.
"""

import dataclasses
import os
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

from myxtts.config import BatchConfig, PrepareConfig
from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.export import export_published
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.loop import Loop
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings, stage_named
from myxtts.training.start import start_of
from myxtts.training.trainer import Trainer
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import DvaeSizes
from tests.published_start import make_start

_RATE = 24000
_DVAE = DvaeSizes(width=64, code_size=32, codes=128)


def corpora(place: Path) -> tuple[Corpus, Corpus]:
    """Clips of the old voices, and of the new one."""
    settings = embedded.EmbeddedConfig(minutes=40, voices=8, languages=("en",), seed=3)
    source = Source(embedded.make(place / "speech", settings, progress=False))
    prepared, _ = prepare(source, PrepareConfig(sample_rate=_RATE), progress=False)
    corpus = Corpus.load(prepared)
    new = corpus.speaker_ids == len(corpus.speakers) - 1
    return corpus.subset(np.flatnonzero(~new)), corpus.subset(np.flatnonzero(new))


def mel_batches(corpus: Corpus, seconds: float):
    """Waveforms at 22,050 Hz, cut to a length, without end."""
    import soundfile

    chance, size = np.random.default_rng(0), round(seconds * _RATE)
    while True:
        rows = []
        for clip in chance.choice(np.flatnonzero(corpus.samples > size), 16):
            first = chance.integers(corpus.samples[clip] - size)
            rows.append(soundfile.read(corpus.paths[clip], size, first, dtype="int16")[0])
        lengths = tf.constant([size] * len(rows))
        yield at_mel_rate(tf.constant(np.stack(rows)), lengths, _RATE)[0]


def trained_dvae(corpus: Corpus, minutes: float) -> tuple[dict, np.ndarray, float]:
    """Tensors of a DVAE, the mel_stats, and the last loss."""
    batches = mel_batches(corpus, 0.95)
    ones = np.ones(80, np.float32)
    logs = np.concatenate([mels.log_mel(next(batches), ones, mels.DVAE_FFT) for _ in range(5)])
    stats = np.abs(logs).mean((0, 1)).astype(np.float32)
    names = Names()
    dvae = Dvae(_DVAE, names)
    optimizer = keras.optimizers.Adam(2e-3)
    mel = mels.log_mel(next(batches), stats, mels.DVAE_FFT)
    vectors = tf.reshape(dvae.vectors_of(mel), [-1, _DVAE.code_size]).numpy()
    picks = np.random.default_rng(1).choice(len(vectors), _DVAE.codes)
    for variable in (dvae.codebook.vectors, dvae.codebook.sums):
        variable.assign(vectors[picks])
    dvae.codebook.counts.assign(np.ones(_DVAE.codes))

    @tf.function(reduce_retracing=True)
    def step(waveform):
        mel = mels.log_mel(waveform, stats, mels.DVAE_FFT)
        mel = mel[:, : tf.shape(mel)[1] // 4 * 4]
        with tf.GradientTape() as tape:
            made = dvae(mel, training=True)
        weights = dvae.trainable_variables
        optimizer.apply(tape.gradient(made["loss"], [w.value for w in weights]), weights)
        return made["losses"]["reconstruction"]

    end, loss = time.monotonic() + 60 * minutes, None
    while time.monotonic() < end:
        loss = float(step(next(batches)))
    return names.tensors(), stats, loss


def settings(model, rate: float, minutes: float | None) -> TrainConfig:
    stage = dataclasses.replace(stage_named("gpt", "xtts_v2").learning, learning_rate=rate)
    return TrainConfig(
        model=model,
        batches=BatchConfig(batch_size=16, buckets=4),
        stages={"gpt": stage},
        max_minutes=minutes,
        steps_per_call=5,
        log_steps=20,
        evaluate_steps=100,
        evaluation_clips=32,
        sample_steps=10**6,
        checkpoint_steps=10**6,
    )


def tuned(place: Path, start, corpus: Corpus, rate: float, minutes: float, rank: int = 0) -> dict:
    """The result of a run, which is exported beside it."""
    published = dataclasses.replace(start.model.xtts_v2, adapter_rank=rank)
    model = dataclasses.replace(start.model, xtts_v2=published)
    training, held_out = corpus.split(0.15)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    made = Trainer(
        settings(model, rate, minutes),
        run_dir=place,
        corpus=training,
        validation=held_out,
        vocabulary=start.vocabulary,
        start=start,
        strategy=strategy,
        monitor=False,
        progress=False,
    )
    result = made.run().stages["gpt"]
    export_published(place, f"{place}-export", [])
    return result


def held_out_loss(directory: Path, corpus: Corpus, place: Path) -> float:
    """Of the clips that `tuned` holds out of a corpus."""
    start, run = start_of(directory), RunDirectory(place)
    start.leave(run)
    config = settings(start.model, 1e-5, 1.0)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        at = Surroundings(config, run, len(start.vocabulary))
        stage = stage_named("gpt", "xtts_v2").restored(at)
        loop = Loop(strategy, stage, config, "float32")
        data = StageData.held_out("gpt", corpus.split(0.15)[1], start.vocabulary, config)
        dataset = data.batches(stage, augmented=False)
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    return loop.evaluate(batches, data.plan.batches_per_epoch)["audio_loss"]


def main(_) -> None:
    given, place = flags.FLAGS, Path(os.path.abspath(flags.FLAGS.out))
    old, new = corpora(place)
    dvae, stats, loss = trained_dvae(old, given.dvae_minutes)
    print(f"DVAE: reconstruction {loss:.4f} of mels of mean square about 1", flush=True)
    first = make_start(place / "first", layers=4, width=128, dvae=_DVAE, mel_stats=stats)
    dataclasses.replace(first, dvae=dvae).write(place / "start")
    result = tuned(place / "base", start_of(place / "start"), old, 1e-3, given.base_minutes)
    print(f"base: {result['steps']} steps, {result['held_out']}", flush=True)
    base = place / "base-export"
    assert PublishedDirectory.open(base).need_dvae()
    rows = [("before", base)]
    for name, rank, rate in (("all", 0, 1e-4), ("adapters", 8, 1e-3)):
        result = tuned(place / name, start_of(base), new, rate, given.tune_minutes, rank)
        print(f"{name}: {result['steps']} steps, best at {result['best_step']}", flush=True)
        rows.append((name, place / f"{name}-export"))
    print("held-out audio loss: the new voice, the old voices")
    for name, directory in rows:
        losses = [
            held_out_loss(directory, corpus, place / f"judged-{name}-{i}")
            for i, corpus in enumerate((new, old))
        ]
        print(f"{name:<10} {losses[0]:.4f} {losses[1]:.4f}", flush=True)


if __name__ == "__main__":
    flags.DEFINE_string("out", None, "New directory for everything.", required=True)
    flags.DEFINE_float("dvae_minutes", 1.5, "To train the DVAE.")
    flags.DEFINE_float("base_minutes", 4.0, "To train the GPT from nothing.")
    flags.DEFINE_float("tune_minutes", 1.5, "For each fine-tuning.")
    app.run(main)
