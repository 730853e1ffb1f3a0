"""Memory of a training step on emulated GPUs: measured, and estimated by `training.memory`.

    python tests/benchmarks/memory.py tiny,gpt,4 tiny,gpt,16 small,vocoder,4

A case is size,stage,batch size, with float32 numbers; each runs three steps in a process of its
own. Compared are the peaks of the live bytes.
"""

import subprocess
import sys
import tempfile

CASES = [f"tiny,{stage},{size}" for stage in ("tokenizer", "gpt", "vocoder") for size in (2, 8)]
CASES += [f"small,{stage},4" for stage in ("tokenizer", "gpt", "vocoder")] + ["normal,gpt,2"]


def measure(case: str, place: str) -> None:
    import tensorflow as tf

    from dual_device_strategy import DataModelSplitStrategy, emulation

    emulation.start(gpus=2, memory_mb=12_000)
    from myxtts.command.profiling import rehearsed
    from myxtts.config import BatchConfig
    from myxtts.corpus import embedded
    from myxtts.corpus.manifest import Corpus
    from myxtts.corpus.prepare import Source, prepare
    from myxtts.model.config import SIZES
    from myxtts.text.vocabulary import Vocabulary
    from myxtts.training.config import TrainConfig
    from myxtts.training.memory import estimate
    from myxtts.training.stages import LongestClip

    size, stage, batch_size = case.split(",")
    settings = embedded.EmbeddedConfig(minutes=4, voices=2)
    prepared, _ = prepare(Source(embedded.make(place, settings, progress=False)), progress=False)
    corpus = Corpus.load(prepared)
    languages = ["en"] * len(corpus)
    vocabulary = Vocabulary.train(corpus.texts, languages, SIZES[size].text)
    batches = BatchConfig(batch_size=int(batch_size), static_shapes=True)
    config = TrainConfig(model=SIZES[size], batches=batches, host_prefetch=1)
    frames = int(-(-corpus.samples.max() // 256))
    tokens = max(len(vocabulary.encode(text, "en")) for text in corpus.texts)
    guess = estimate(config, stage, LongestClip(frames, tokens), len(vocabulary))
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with rehearsed(config, stage, strategy, corpus, vocabulary) as (dataset, step):
        for number, batch in enumerate(strategy.experimental_distribute_dataset(dataset)):
            strategy.run(step, (batch,)).numpy()
            if number == 2:
                break
        found = [tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in (0, 1)]
    cells = []
    for role, peak in zip(("data", "model"), found, strict=True):
        told = guess.on(role)
        cells.append(f"{role} {peak / 2**20:8.1f} MB, estimated {told / 2**20:8.1f} ")
        cells.append(f"({told / peak:.2f}, {guess.fixed[role] / 2**20:.0f} fixed)  ")
    print(f"{case:<20} {frames} frames, {tokens} tokens: {''.join(cells)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        measure(*sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as corpus_place:
            for one in sys.argv[1:] or CASES:
                subprocess.run([sys.executable, __file__, "--alone", one, corpus_place], check=True)
