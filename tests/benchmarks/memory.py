"""Memory of a training step on emulated GPUs: measured, and estimated by `training.memory`.

    python tests/benchmarks/memory.py tiny,gpt,4 tiny,gpt,16 small,vocoder,4

A case is size,stage,batch size, with float32 numbers; each runs three steps in a process of its
own. Compared are the peaks of the live bytes. Of the size "published" is a model in the published
form with 4 layers of 512 channels, a DVAE and a HiFi-GAN of half their width;
`published,gpt,4,adapters` and `,recompute` fine-tune it so.
"""

import os
import subprocess
import sys
import tempfile

CASES = [f"tiny,{stage},{size}" for stage in ("tokenizer", "gpt", "vocoder") for size in (2, 8)]
CASES += [f"small,{stage},4" for stage in ("tokenizer", "gpt", "vocoder")] + ["normal,gpt,2"]
CASES += ["published,gpt,2", "published,gpt,8", "published,gpt,8,recompute"]
CASES += ["published,gpt,8,adapters", "published,tokenizer,8", "published,vocoder,8"]


def measure(case: str, place: str) -> None:
    import tensorflow as tf

    from dual_device_strategy import DataModelSplitStrategy, emulation

    emulation.start(gpus=2, memory_mb=12_000)
    import dataclasses
    from pathlib import Path

    from myxtts.command.profiling import rehearsed
    from myxtts.config import BatchConfig, PrepareConfig
    from myxtts.corpus import embedded
    from myxtts.corpus.manifest import Corpus
    from myxtts.corpus.prepare import Source, prepare
    from myxtts.model.config import SIZES
    from myxtts.text.vocabulary import Vocabulary
    from myxtts.training.config import TrainConfig
    from myxtts.training.memory import DATA, MODEL, estimate
    from myxtts.training.stages import LongestClip

    size, stage, batch_size, *options = case.split(",")
    settings = embedded.EmbeddedConfig(minutes=4, voices=2)
    start, rate = None, PrepareConfig.sample_rate
    if size == "published":
        from myxtts.training.start import start_of
        from myxtts.xtts_v2.sizes import DvaeSizes
        from tests.published_start import make_start

        directory = Path(place, f"start-{os.getpid()}")
        dvae = DvaeSizes(width=256, code_size=256)
        sizes = {"layers": 4, "width": 512, "heads": 8, "dvae": dvae, "hifigan_width": 256}
        make_start(directory, **sizes, all_layers=True)
        start, rate = start_of(directory), 24000
    source = Source(embedded.make(place, settings, progress=False))
    prepared, _ = prepare(source, PrepareConfig(sample_rate=rate), progress=False)
    corpus = Corpus.load(prepared)
    if start is None:
        model = SIZES[size]
        vocabulary = Vocabulary.train(corpus.texts, ["en"] * len(corpus), model.text)
    else:
        rank = 16 if "adapters" in options else 0
        published = dataclasses.replace(start.model.xtts_v2, adapter_rank=rank)
        model = dataclasses.replace(start.model, xtts_v2=published)
        vocabulary = start.vocabulary
    batches = BatchConfig(batch_size=int(batch_size), static_shapes=True)
    config = TrainConfig(
        model=model, batches=batches, host_prefetch=1, recompute="recompute" in options
    )
    frames = int(-(-corpus.samples.max() // 256))
    tokens = max(len(vocabulary.encode(text, "en")) for text in corpus.texts)
    guess = estimate(config, stage, LongestClip(frames, tokens), len(vocabulary))
    strategy = DataModelSplitStrategy("GPU:0", "GPU:1")
    with rehearsed(config, stage, strategy, corpus=corpus, vocabulary=vocabulary, start=start) as (
        dataset,
        step,
    ):
        for number, batch in enumerate(strategy.experimental_distribute_dataset(dataset)):
            strategy.run(step, (batch,)).numpy()
            if number == 2:
                break
        found = [tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in (0, 1)]
    cells = []
    for part, peak in zip((DATA, MODEL), found, strict=True):
        told, role = guess.on(part), part.role
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
