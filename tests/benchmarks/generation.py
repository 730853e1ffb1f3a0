"""Codes per second with the key/value cache and without it.

    python tests/benchmarks/generation.py [size] [clips]

Greedy generation of 200 codes for a text of 60 tokens, by untrained networks that are kept from
stopping.  Without the cache, every code costs a forward pass over everything before it; that
pass is a traced function as well, over the true length (no padding).  The cost of a code early
and late in a long speech is printed too: with the cache it does not grow.
"""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import tensorflow as tf

from myxtts.model.config import SIZES
from myxtts.model.gpt import Gpt
from myxtts.model.sampling import generate, stream

TOKENS, TEXT, ROUNDS = 200, 60, 5


def main(size: str, clips: int) -> None:
    tf.config.set_visible_devices([], "GPU")
    config = SIZES[size]
    gpt = Gpt(config.gpt, 300, config.text.max_tokens, config.tokenizer.codes)
    chance = np.random.default_rng(0)
    shape = (clips, config.conditioning.latents, config.gpt.width)
    latents = tf.constant(chance.normal(size=shape), tf.float32)
    text = tf.constant(chance.integers(3, 300, (clips, TEXT)), tf.int32)
    said = (latents, text, tf.fill([clips], TEXT))
    greedy = {"temperature": 0, "length_penalty": 1e30}

    def cached():
        return generate(gpt, *said, max_tokens=TOKENS, **greedy)[0]

    @tf.function(reduce_retracing=True)
    def next_code(codes):
        lengths = tf.fill([clips], tf.shape(codes)[1])
        logits = gpt(*said, codes, lengths)["audio_logits"][:, -1, : gpt.stop_code]
        return tf.argmax(logits, -1, tf.int32)

    def uncached():
        codes = tf.zeros([clips, 0], tf.int32)
        for _ in range(TOKENS):
            codes = tf.concat([codes, next_code(codes)[:, None]], 1)
        return codes

    same = float(np.mean(cached().numpy() == uncached().numpy()))
    sides, seconds = {"with the cache": cached, "without": uncached}, {}
    for _ in range(ROUNDS):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    middle = {name: sorted(values)[ROUNDS // 2] for name, values in seconds.items()}
    print(f"{size}, {clips} at once, {TOKENS} codes, {same:.0%} of them the same both ways")
    for name, value in middle.items():
        print(f"  {name:14} {clips * TOKENS / value:7.0f} codes/s")
    print(f"  ratio {middle['without'] / middle['with the cache']:.1f}; goal: 5")

    limit = config.gpt.max_audio_tokens
    pieces = {}
    for _ in range(ROUNDS):
        before = time.perf_counter()
        for number, (codes, *_) in enumerate(stream(gpt, *said, every=100, **greedy)):
            now = time.perf_counter()
            pieces.setdefault(number, []).append(1000 * (now - before) / codes.shape[1])
            before = now
    costs = [sorted(values)[ROUNDS // 2] for values in pieces.values()]
    print(f"  ms a code, of {limit} in pieces of 100: " + ", ".join(f"{c:.2f}" for c in costs[:-1]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tiny", int((sys.argv[2:] or [1])[0]))
