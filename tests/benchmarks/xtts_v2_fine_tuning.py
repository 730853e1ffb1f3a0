"""The loop that users run: fine-tune a published-form model on a voice that it never heard.

    python tests/benchmarks/xtts_v2_fine_tuning.py --out=DIR

A reduced model of random weights learns a language of twelve words from five espeak-ng voices
(DVAE, GPT, HiFi-GAN), is exported, and is fine-tuned from that export on a sixth voice: the GPT's
weights on the new clips alone, and then weights, adapters and every stage with as many clips of the
old voices mixed in, as `--keep_data=OLD:0.5` does, and more steps (`--kept_steps`), as only half of
a batch is new. Prints before and after: held-out audio loss of the new and of
the old voices, and how sentences sound that it says in the new voice: the share of letters that are
heard otherwise, and the likeness to the voice's recordings, by its HiFi-GAN and by Griffin-Lim from
what its DVAE makes of the codes. In brackets is how an error differs from the one before, with the
standard error of this difference over the sentences. All training is counted in steps: a loaded
machine takes longer and finds the same. `--base=DIR`, the --out of an earlier run, fine-tunes its
base again; with two rounds of training it takes 50 minutes beside other work.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

from myxtts.command.kept import Kept
from myxtts.config import BatchConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source
from myxtts.export import export_published
from myxtts.training.config import TrainConfig
from myxtts.training.data import StageData
from myxtts.training.loop import Loop
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings, stage_named, stages_of
from myxtts.training.start import start_of
from myxtts.training.trainer import Trainer
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import DvaeSizes, SoundObjective
from tests.benchmarks.few_words import Judges, corpora, recordings
from tests.benchmarks.published_speaker import RATE, Speaker
from tests.published_start import make_start

_DVAE = DvaeSizes(width=64, code_size=32, codes=256)
_SOUND = SoundObjective(critic_width=1, critics_from_step=10**6)
HELD_OUT, _DRAWS = 0.2, 2


def mel_batches(corpus: Corpus, seconds: float):
    """Waveforms at 22,050 Hz, cut to a length, without end."""
    import soundfile

    chance, size = np.random.default_rng(0), round(seconds * RATE)
    while True:
        rows = []
        for clip in chance.choice(np.flatnonzero(corpus.samples > size), 16):
            first = chance.integers(corpus.samples[clip] - size)
            rows.append(soundfile.read(corpus.paths[clip], size, first, dtype="int16")[0])
        lengths = tf.constant([size] * len(rows))
        yield at_mel_rate(tf.constant(np.stack(rows)), lengths, RATE)[0]


def trained_dvae(corpus: Corpus, steps: int) -> tuple[dict, np.ndarray, float]:
    """Tensors of a DVAE, the mel_stats, and the last loss. Its codebook begins with what it makes
    of speech, which the stage for published ones need not do."""
    batches = mel_batches(corpus, 0.6)
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

    for number in range(steps):
        optimizer.learning_rate = 2e-3 * (1 - number / steps)
        loss = step(next(batches))
    return names.tensors(), stats, float(loss)


def settings(model, lessons: dict[str, tuple[float, int]], anew=False, rank=0, **objective):
    """`lessons`: rate and steps by stage. `anew`: from random weights."""
    stages = {}
    for name, stage in stages_of("xtts_v2").items():
        rate, steps = lessons.get(name, (1e-5, 1))
        stages[name] = dataclasses.replace(stage.learning, learning_rate=rate, share=steps)
        if anew:
            stages[name] = dataclasses.replace(
                stages[name], schedule="cosine", warm_up_steps=min(50, steps // 4), clip_norm=1.0
            )
    published = dataclasses.replace(
        model.xtts_v2,
        adapter_rank=rank,
        sound=_SOUND,
        objective=dataclasses.replace(model.xtts_v2.objective, **objective),
    )
    return TrainConfig(
        model=dataclasses.replace(model, xtts_v2=published),
        batches=BatchConfig(batch_size=16, buckets=3, conditioning_seconds=(1.0, 2.0)),
        stages=stages,
        max_steps=sum(steps for _, steps in lessons.values()) or 1,
        precision="float32",
        steps_per_call=5,
        log_steps=20,
        evaluate_steps=50,
        evaluation_clips=32,
        sample_steps=10**6,
        checkpoint_steps=100,
    )


def tuned(
    place: Path,
    start,
    corpus: Corpus,
    lessons: dict[str, tuple[float, int]],
    kept: Corpus | None = None,
    **options,
) -> dict:
    """The results of a run over the stages in `lessons`, which is exported beside it. With `kept`,
    half of the clips are of that corpus."""
    training, held_out = corpus.split(HELD_OUT)
    if kept is not None:
        training = Kept(Source("the old voices"), 0.5).mixed(training, kept.split(HELD_OUT)[0])
    made = Trainer(
        settings(start.model, lessons, **options),
        run_dir=place,
        corpus=training,
        validation=held_out,
        vocabulary=start.vocabulary,
        start=start,
        strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
        monitor=False,
        progress=False,
    )
    results = made.run(list(lessons)).stages
    export_published(place, f"{place}-export", [])
    for stage, result in results.items():
        print(f"{place.name}: {stage}, {result['steps']} steps, {result['held_out']}", flush=True)
    return results


def held_out_loss(directory: Path, corpus: Corpus, place: Path) -> float:
    """Of the clips that `tuned` holds out of a corpus."""
    start, run = start_of(directory), RunDirectory(place)
    start.leave(run)
    config = settings(start.model, {})
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        at = Surroundings(config, run, len(start.vocabulary))
        stage = stage_named("gpt", "xtts_v2").restored(at)
        loop = Loop(strategy, stage, config, "float32")
        held_out = corpus.split(HELD_OUT)[1]
        data = StageData.held_out("gpt", held_out, start.vocabulary, config)
        dataset = data.batches(stage, augmented=False)
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    return loop.evaluate(batches, data.plan.batches_per_epoch)["audio_loss"]


def make_base(place: Path, old: Corpus, say) -> None:
    """Trains DVAE, GPT and HiFi-GAN on the old voices, GPT and HiFi-GAN in rounds. What an earlier
    command has finished is not trained again."""
    given, source = flags.FLAGS, place / "start"
    if not source.exists():
        dvae, stats, loss = trained_dvae(old, given.dvae_steps)
        say(f"DVAE: reconstruction {loss:.4f} of mels of mean square about 1")
        sizes = dict(layers=4, width=192, dvae=_DVAE, hifigan_width=64)
        first = make_start(place / "first", **sizes, mel_stats=stats)
        dataclasses.replace(first, dvae=dvae).write(source)
    for number in range(1, given.base_rounds + 1):
        gpt, whole = place / f"round{number}-gpt", place / f"round{number}"
        for run, lesson in (
            (gpt, {"gpt": (1e-3 / number**0.7, given.base_steps)}),
            (whole, {"vocoder": (2e-3 / number**0.7, given.sound_steps)}),
        ):
            if not Path(f"{run}-export").exists():
                tuned(run, start_of(source), old, lesson, anew=True)
            source = f"{run}-export"
        say(f"base trained, round {number}")


def base_of(place: Path) -> Path:
    """The export of the last round."""
    return sorted(place.glob("round?-export"))[-1]


class Listener:
    """Hears held-out clips of the new voice said by a model, `_DRAWS` times each."""

    def __init__(self, judges: Judges, old: Corpus, new: Corpus):
        training, held_out = new.split(HELD_OUT)
        self._judges, self.texts = judges, list(held_out.texts)
        self.recorded = recordings(held_out, RATE)
        # The reference is a clip to train on; the likeness is to clips that are not.
        longest = training.subset(np.array([int(training.samples.argmax())]))
        self.reference = recordings(longest, RATE)[0]
        others = old.subset(np.arange(0, len(old), max(1, len(old) // 24)))
        error, likeness = self._heard([self.recorded], RATE)
        chance = judges.character_error(self.recorded, RATE, self.texts[1:] + self.texts[:1])
        other = judges.likeness(recordings(others, RATE), RATE, self.recorded, RATE)
        print(
            f"{len(self.texts)} recordings of the new voice: error {error.mean():.3f} (of other "
            f"texts {chance:.3f}), likeness {likeness:.3f} (of old voices {other:.3f})"
        )

    def codes(self, directory: Path) -> None:
        """Prints what the codes of its DVAE keep of the recordings."""
        coder = Speaker(directory, self.reference)
        kept = [coder.coded(waveform) for waveform in self.recorded]
        error, likeness = self._heard([kept], mels.RATE)
        print(f"by way of the base's codes: error {error.mean():.3f}, likeness {likeness:.3f}")

    def hear(self, directory: Path) -> tuple:
        """`(errors by text, likeness)` by HiFi-GAN and by Griffin-Lim, and the share that ends."""
        speaker, draws = Speaker(directory, self.reference), []
        for seed in range(_DRAWS):
            speaking = dataclasses.replace(speaker.speaking, seed=seed)
            draws.append([speaker.say(text, speaking) for text in self.texts])
        ends = np.mean([one[2] for said in draws for one in said])
        ways = [
            self._heard([[one[way] for one in said] for said in draws], rate)
            for way, rate in ((0, RATE), (1, mels.RATE))
        ]
        return *ways, ends

    def _heard(self, draws: list, rate: int) -> tuple[np.ndarray, float]:
        errors, likeness = [], []
        for said in draws:
            errors.append(self._judges.mistakes(said, rate, self.texts))
            likeness.append(self._judges.likeness(said, rate, self.recorded, RATE))
        return np.mean(errors, 0), float(np.mean(likeness))


def main(_) -> None:
    given, place = flags.FLAGS, Path(os.path.abspath(flags.FLAGS.out))
    began = time.monotonic()

    def say(text):
        print(f"[{(time.monotonic() - began) / 60:4.1f} min] {text}", flush=True)

    base_place = Path(os.path.abspath(given.base)) if given.base else place
    old, new = corpora(base_place, given.voices, minutes=given.speech_minutes)
    say(f"{old.hours * 60:.1f} minutes of old voices, {new.hours * 60:.1f} of the new one")
    judges = Judges(Path(given.judges or place / "judges"))
    if not given.base:
        make_base(place, old, say)
    base, steps, longer = base_of(base_place), given.tune_steps, given.kept_steps
    start = start_of(base)
    every = {"tokenizer": (1e-4, steps), "gpt": (5e-5, longer), "vocoder": (5e-4, steps)}
    tuned(place / "new-only", start, new, {"gpt": (5e-5, steps)})
    tuned(place / "all", start, new, {"gpt": (5e-5, longer)}, kept=old)
    tuned(place / "adapters", start, new, {"gpt": (5e-4, longer)}, kept=old, rank=8)
    tuned(place / "every", start, new, every, kept=old)
    say("fine-tuned")
    listener, before = Listener(judges, old, new), None
    listener.codes(base)
    print(f"{'':<12} loss:new  old   HiFi-GAN: error likeness Griffin-Lim: error likeness  ends")
    for name in ("base", "new-only", "all", "adapters", "every"):
        directory = base if name == "base" else Path(f"{place / name}-export")
        new_loss = held_out_loss(directory, new, place / f"judged-{name}-new")
        old_loss = held_out_loss(directory, old, place / f"judged-{name}-old")
        *ways, ends = listener.hear(directory)
        before = before or ways
        cells = []
        for (errors, likeness), (former, _) in zip(ways, before, strict=True):
            change = errors - former
            cells.append(
                f"{errors.mean():8.3f} ({change.mean():+.3f} +- "
                f"{change.std() / len(change) ** 0.5:.3f}) {likeness:6.3f}"
            )
        print(
            f"{name:<12} {new_loss:.4f} {old_loss:.4f} {cells[0]} {cells[1]} {ends:6.0%}",
            flush=True,
        )
    say("done")


if __name__ == "__main__":
    flags.DEFINE_string("out", None, "New directory for everything.", required=True)
    flags.DEFINE_string("judges", None, "Where judges are kept; default: below --out.")
    flags.DEFINE_string("base", None, "--out of an earlier run, whose base is fine-tuned.")
    flags.DEFINE_integer("voices", 6, "The last one is the new voice.")
    flags.DEFINE_float("speech_minutes", 24.0, "Of all voices.")
    flags.DEFINE_integer("dvae_steps", 1500, "To train the DVAE.")
    flags.DEFINE_integer("base_rounds", 2, "Of training the base; the rate falls in each.")
    flags.DEFINE_integer("base_steps", 700, "Of the GPT in a round.")
    flags.DEFINE_integer("sound_steps", 400, "Of the HiFi-GAN in a round.")
    flags.DEFINE_integer("tune_steps", 120, "For each stage that is fine-tuned.")
    flags.DEFINE_integer("kept_steps", 300, "For a GPT that learns from old clips as well.")
    app.run(main)
