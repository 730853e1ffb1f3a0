"""Sentences of one to three words: how many go on after their end, with each way to train the stop.

    python tests/benchmarks/xtts_v2_stops.py --loop=DIR --out=NEW

DIR is --out of `xtts_v2_fine_tuning.py`. Its base model says short sentences in the new voice, as
it is and after fine-tuning on that voice with each option of the stop, a minute each by default. A
sentence goes on where it lasts 0.3 s longer than any recording of
it in the corpus, silence at its end left out, or where no stop was drawn at all.

`--sentences=200 --draws=1` takes ten minutes of processor time: 600 steps of fine-tuning and 1,200
sentences. A share of 2 % then has a standard error of 1 %. More draws with the same --out train
nothing again.
"""

import dataclasses
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from absl import app, flags

from myxtts.training.start import start_of
from tests.benchmarks.few_words import corpora, recordings
from tests.benchmarks.published_speaker import RATE, Speaker
from tests.benchmarks.small_published import base_of, tuned

_OPTIONS = {
    "as published": {},
    "--stop_targets=1": {"stop_targets": 1},
    "--text_stop_seen": {"text_stop_seen": True},
    "--stop_targets=1 --text_stop_seen": {"stop_targets": 1, "text_stop_seen": True},
    "--padding=mirrored": {"padding": "mirrored"},
}
_QUIET, _MORE = 0.02, 0.3


def seconds(waveform: np.ndarray) -> float:
    """Until the last sample that is heard."""
    loud = np.flatnonzero(np.abs(waveform) > _QUIET * max(1e-3, np.abs(waveform).max()))
    return (loud[-1] + 1) / RATE if len(loud) else 0.0


def going_on(directory: Path, texts: dict[str, float], reference, draws: int) -> tuple:
    """How often each sentence has sound after its end, the share of those without a stop, and how
    many seconds more they have than the longest recording, which stands beside each of `texts`."""
    speaker, longer, open_ends = Speaker(directory, reference), [], []
    for draw in range(draws):
        speaking = dataclasses.replace(speaker.speaking, seed=draw)
        for text, most in texts.items():
            sound, _, ended = speaker.say(text, speaking, plain=False)
            longer.append(seconds(sound) - most)
            open_ends.append(not ended)
    over = (np.array(longer) > _MORE) | np.array(open_ends)
    return over.reshape(draws, -1).mean(0), float(np.mean(open_ends)), float(np.median(longer))


def main(_) -> None:
    given = flags.FLAGS
    loop, place = Path(os.path.abspath(given.loop)), Path(os.path.abspath(given.out))
    old, new = corpora(loop, given.voices, minutes=given.speech_minutes)
    texts: dict[str, float] = {}
    for corpus in (old, new):
        short = np.flatnonzero([text.count(" ") < 3 for text in corpus.texts])
        few = corpus.subset(short)
        for text, clip in zip(few.texts, recordings(few, RATE), strict=True):
            texts[text] = max(texts.get(text, 0.0), seconds(clip))
    chosen = sorted(texts)[:: max(1, len(texts) // given.sentences)][: given.sentences]
    texts = {text: texts[text] for text in chosen}
    reference = recordings(new.subset(np.array([int(new.samples.argmax())])), RATE)[0]
    base = base_of(loop)
    print(
        f"{len(texts)} sentences, {given.draws} times: share that goes on (above as published, "
        "standard error over the sentences), share that never ends, median seconds more"
    )
    rows = [("before", base)]
    for number, (name, objective) in enumerate(_OPTIONS.items()):
        run, lessons = place / f"stop{number}", {"gpt": (5e-5, given.steps)}
        rows.append((name, tuned(run, start_of(base), new, lessons, **objective)))
    found = {name: going_on(path, texts, reference, given.draws) for name, path in rows}
    usual = found["as published"][0]
    for name, (over, open_ends, longer) in found.items():
        change = over - usual
        error = change.std() / len(change) ** 0.5
        print(
            f"{name:<36} {over.mean():6.2%} ({change.mean():+.2%} +- {error:.2%}) "
            f"{open_ends:6.1%} {longer:+6.2f}"
        )


if __name__ == "__main__":
    flags.DEFINE_string("loop", None, "--out of xtts_v2_fine_tuning.py.", required=True)
    flags.DEFINE_string("out", None, "New directory.", required=True)
    flags.DEFINE_integer("voices", 6, "Those of the loop.")
    flags.DEFINE_float("speech_minutes", 24.0, "Those of the loop.")
    flags.DEFINE_integer("steps", 120, "Of each fine-tuning.")
    flags.DEFINE_integer("sentences", 30, "Short sentences.")
    flags.DEFINE_integer("draws", 2, "Draws of each sentence.")
    app.run(main)
