"""Trains one stage once in peace, and once killed again and again; run by test_killed.

    python killed_runs.py PREPARED WHERE KILLS

Prints what the kills hit.  The processes are forked from this one, which has imported everything
but started nothing of TensorFlow, so that ten of them take a minute instead of five.
"""

import dataclasses
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from myxtts.config import BatchConfig, TextConfig
from myxtts.corpus.manifest import Corpus
from myxtts.model.config import ModelConfig, SpeakerConfig, TokenizerConfig
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.trainer import Trainer

MODEL = ModelConfig(
    text=TextConfig(vocabulary="characters"),
    tokenizer=TokenizerConfig(width=16, codes=32, code_size=8, residual_blocks=1),
    speaker=SpeakerConfig(width=16, blocks=1, size=8),
)
CONFIG = TrainConfig(
    model=MODEL,
    batches=BatchConfig(batch_size=4, buckets=2, conditioning_seconds=(0.5, 1.0)),
    stages={"tokenizer": StageConfig(1e-3, 1.0, warm_up_steps=5)},
    tokenizer_frames=32,
    speaker_frames=32,
    max_steps=40,
    steps_per_call=4,
    log_steps=2,
    evaluate_steps=5,
    evaluation_clips=4,
    sample_steps=1000,
    checkpoint_steps=3,
    keep_checkpoints=2,
    deterministic=True,
)


def start(prepared: str, run: Path) -> int:
    """The process id of a training in `run`."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(f"{run}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        corpus = Corpus.load(prepared)
        short = corpus.samples.argsort(kind="stable")
        training, held_out = corpus.subset(short[:14]), corpus.subset(short[14:18])
        languages = [training.language_of(i) for i in range(len(training))]
        vocabulary = Vocabulary.train(training.texts, languages, MODEL.text)
        Trainer(
            CONFIG,
            run_dir=run,
            corpus=training,
            validation=held_out,
            vocabulary=vocabulary,
            progress=False,
        ).run(["tokenizer"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def lines(run: Path) -> int:
    try:
        return (run / "steps.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def over(child: int) -> bool:
    found, status = os.waitpid(child, os.WNOHANG)
    if found and status:
        raise SystemExit(f"a training that nobody killed ended with status {status}")
    return bool(found)


def kill_once(child: int, run: Path, chance: random.Random, in_a_save: bool) -> str | None:
    """Kills the process at a random moment; what it was doing, None if it ended before."""
    stage = run / "checkpoints" / "tokenizer"
    before, wanted = lines(run), chance.randint(1, 6)
    while True:
        if over(child):
            return None
        saving = [path.name for path in stage.glob("*.partial")]
        if saving if in_a_save else lines(run) >= before + wanted:
            break
        time.sleep(0.0005)
    time.sleep(chance.random() * (0.01 if in_a_save else 0.2))
    saving = [path.name for path in stage.glob("*.partial")]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"saving {saving[0]}" if saving else f"after {lines(run)} lines"


def main(prepared: str, where: Path, kills: int) -> None:
    calm, killed = where / "calm", where / "killed"
    reference = start(prepared, calm)
    while not over(reference):
        time.sleep(0.05)
    chance, hits = random.Random(5), []
    while len(hits) < kills:
        hit = kill_once(start(prepared, killed), killed, chance, in_a_save=len(hits) % 3 == 1)
        if hit is None:
            break
        hits.append(hit)
    child = start(prepared, killed)
    while not over(child):
        time.sleep(0.05)
    print(json.dumps({"hits": hits, "config": dataclasses.asdict(CONFIG)["max_steps"]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
