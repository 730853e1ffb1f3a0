"""The loop that users run: fine-tune a published-form model on a voice that it never heard.

    python tests/benchmarks/xtts_v2_fine_tuning.py --out=DIR

A reduced model of random weights learns a language of twelve words from five espeak-ng voices
(DVAE, GPT, HiFi-GAN), is exported, and is fine-tuned from that export on a sixth voice: the GPT's
weights on the new clips alone, and then weights or adapters, with and without the HiFi-GAN after
them, and every stage, with as many clips of the old voices mixed in, as `--keep_data=OLD:0.5` does,
and more steps (`--kept_steps`), as only half of a batch is new. Prints before and after: held-out
audio loss of the new and of the old voices, and how sentences sound that it says in the new voice:
the share of letters that are heard otherwise, and the likeness to the voice's recordings, by its
HiFi-GAN and by Griffin-Lim from what its DVAE makes of the codes. In brackets is how an error
differs from the one before, with the standard error of this difference over the sentences.

All training is counted in steps: a loaded machine takes longer and finds the same. `--base=DIR`,
the --out of an earlier run, fine-tunes its base again; with two rounds of training it takes 50
minutes beside other work. `--rows=adapters --adapter_rates=1e-4,2e-4` compares single rates. What
--out has already is judged without being trained again.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import tensorflow as tf
from absl import app, flags

from myxtts.corpus.manifest import Corpus
from myxtts.training.data import StageData
from myxtts.training.loop import Loop
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import Surroundings, stage_named
from myxtts.training.start import start_of
from myxtts.xtts_v2 import mels
from tests.benchmarks.few_words import Judges, corpora, recordings, sentences
from tests.benchmarks.published_speaker import RATE, Speaker
from tests.benchmarks.small_published import (
    HELD_OUT,
    BaseSteps,
    base_of,
    make_base,
    settings,
    tuned,
)


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


class Listener:
    """Hears held-out clips of the new voice, and more sentences, said by a model `draws` times."""

    def __init__(self, judges: Judges, old: Corpus, new: Corpus, *, more: int, draws: int):
        training, held_out = new.split(HELD_OUT)
        self._judges, self._draws = judges, draws
        self.texts = [*held_out.texts, *sentences(more, without=new.texts)]
        self.recorded = recordings(held_out, RATE)
        # The reference is a clip to train on; the likeness is to clips that are not.
        longest = training.subset(np.array([int(training.samples.argmax())]))
        self.reference = recordings(longest, RATE)[0]
        others = old.subset(np.arange(0, len(old), max(1, len(old) // 24)))
        error, likeness = self._heard([self.recorded], RATE)
        texts = list(held_out.texts[1:]) + list(held_out.texts[:1])
        chance = judges.character_error(self.recorded, RATE, texts)
        other = judges.likeness(recordings(others, RATE), RATE, self.recorded, RATE)
        print(
            f"{len(self.recorded)} recordings of the new voice: error {error.mean():.3f} (of other "
            f"texts {chance:.3f}), likeness {likeness:.3f} (of old voices {other:.3f}); "
            f"{len(self.texts)} sentences are heard {draws} times"
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
        for seed in range(self._draws):
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
            errors.append(self._judges.mistakes(said, rate, self.texts[: len(said)]))
            likeness.append(self._judges.likeness(said, rate, self.recorded, RATE))
        return np.mean(errors, 0), float(np.mean(likeness))


def runs(given, old: Corpus) -> dict[str, dict]:
    """How `tuned` is called, by row of the table; the first word of a row is one of --rows."""
    kept, gpt = {"kept": old}, {"gpt": (5e-5, given.kept_steps)}
    vocoder = {"vocoder": (5e-4, given.tune_steps)}
    dvae = {"tokenizer": (1e-4, given.tune_steps)}
    made = {
        "new-only": {"lessons": {"gpt": (5e-5, given.tune_steps)}},
        "all": {"lessons": gpt, **kept},
        "all+vocoder": {"lessons": {**gpt, **vocoder}, **kept},
        "every": {"lessons": {**dvae, **gpt, **vocoder}, **kept},
    }
    for rate in given.adapter_rates:
        low_rank = {"rank": given.adapter_rank, **kept}
        gpt = {"gpt": (float(rate), given.kept_steps)}
        made[f"adapters {rate}"] = {"lessons": gpt, **low_rank}
        made[f"adapters+vocoder {rate}"] = {"lessons": {**gpt, **vocoder}, **low_rank}
        made[f"every+adapters {rate}"] = {"lessons": {**dvae, **gpt, **vocoder}, **low_rank}
    return {name: run for name, run in made.items() if name.split()[0] in given.rows}


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
        steps = BaseSteps(given.dvae_steps, given.base_steps, given.sound_steps, given.base_rounds)
        make_base(place, old, steps, say)
    models = {"base": base_of(base_place)}
    start = start_of(models["base"])
    for name, run in runs(given, old).items():
        models[name] = tuned(place / name.replace(" ", "-"), start, new, **run)
    say("fine-tuned")
    listener = Listener(judges, old, new, more=given.sentences, draws=given.draws)
    listener.codes(models["base"])
    before = None
    print(f"{'':<21} loss:new  old   HiFi-GAN: error likeness Griffin-Lim: error likeness  ends")
    for name, directory in models.items():
        new_loss = held_out_loss(directory, new, place / f"judged-{directory.name}-new")
        old_loss = held_out_loss(directory, old, place / f"judged-{directory.name}-old")
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
            f"{name:<21} {new_loss:.4f} {old_loss:.4f} {cells[0]} {cells[1]} {ends:6.0%}",
            flush=True,
        )
    say("done")


if __name__ == "__main__":
    flags.DEFINE_string("out", None, "Directory for everything.", required=True)
    flags.DEFINE_string("judges", None, "Where judges are kept; default: below --out.")
    flags.DEFINE_string("base", None, "--out of an earlier run, whose base is fine-tuned.")
    rows = ["new-only", "all", "adapters", "all+vocoder", "adapters+vocoder", "every"]
    rows.append("every+adapters")
    flags.DEFINE_list("rows", rows, "What is fine-tuned.")
    flags.DEFINE_integer("voices", 6, "The last one is the new voice.")
    flags.DEFINE_float("speech_minutes", 24.0, "Of all voices.")
    flags.DEFINE_integer("dvae_steps", 1500, "To train the DVAE.")
    flags.DEFINE_integer("base_rounds", 2, "Of training the base; the rate falls in each.")
    flags.DEFINE_integer("base_steps", 700, "Of the GPT in a round.")
    flags.DEFINE_integer("sound_steps", 400, "Of the HiFi-GAN in a round.")
    flags.DEFINE_integer("tune_steps", 120, "For each stage that is fine-tuned.")
    flags.DEFINE_integer("kept_steps", 300, "For a GPT that learns from old clips as well.")
    flags.DEFINE_list("adapter_rates", ["2e-4"], "Learning rates of adapters, a row each.")
    flags.DEFINE_integer("adapter_rank", 16, "Rank of the adapters.")
    flags.DEFINE_integer("sentences", 120, "New ones to hear, beside those of held-out clips.")
    flags.DEFINE_integer("draws", 2, "How often each sentence is said.")
    app.run(main)
