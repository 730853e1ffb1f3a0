"""XTTS v2 here against the published code on PyTorch: the same sizes, threads and machine.

    python tests/benchmarks/xtts_v2_speed.py --published_python=V/bin/python --layers=6 --rounds=3

V is the environment that tests/myxtts/xtts_v2/make_reference.py describes. Both sides run in turns,
each round in processes of their own, with random weights of full width; the least of all rounds
counts. Prints milliseconds for a generated code (greedy, with a key/value cache), for a step of
training forward and backward (batch of 4, 40 tokens, 60 codes), and for 40 latents of waveform.
`--layers=30 --parts=code` is a generation at full size: 2 GB on each side, one after the other.

At full width a code costs what reading the GPT's weights costs, 50 MB a layer, on either side.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

_CODES, _TOKENS, _BATCH, _LENGTH = 40, 40, 4, 60
_PARTS = ("code", "training step", "waveform")


def least(run, count: int) -> float:
    """Milliseconds of the fastest of `count` runs, after one that does not count."""
    run()
    took = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        took.append(1000 * (time.perf_counter() - start))
    return min(took)


def code_time(generate) -> float:
    """Milliseconds of a code, without those of the text before it."""
    few, many = least(lambda: generate(2), 2), least(lambda: generate(_CODES + 2), 2)
    return (many - few) / _CODES


def published(layers: int, threads: int, parts: list[str]) -> dict:
    import torch
    from TTS.tts.layers.xtts.gpt import GPT
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    torch.set_num_threads(threads)
    gpt = GPT(
        layers=layers, model_dim=1024, heads=16, max_text_tokens=402, max_mel_tokens=605,
        number_text_tokens=6681, num_audio_tokens=1026, start_audio_token=1024,
        stop_audio_token=1025, use_perceiver_resampler=True,
    )  # fmt: skip
    text = torch.arange(3, 3 + _TOKENS)[None]
    latents = torch.randn(1, 32, 1024)

    def train():
        lengths = torch.full([_BATCH], _TOKENS)
        samples = torch.full([_BATCH], _LENGTH * 1024)
        codes = torch.randint(0, 1024, [_BATCH, _LENGTH])
        mels = torch.randn(_BATCH, 1, 80, 300)
        losses = gpt(text.repeat(_BATCH, 1), lengths, codes, samples, cond_mels=mels)
        (0.01 * losses[0] + losses[1]).backward()
        gpt.zero_grad()

    made = {}
    if "training step" in parts:
        made["training step"] = least(train, 2)
    gpt.eval().init_gpt_for_inference(kv_cache=True)

    @torch.inference_mode()
    def generate(count):
        gpt.generate(
            latents, text, do_sample=False, num_beams=1, repetition_penalty=10.0,
            max_new_tokens=count, min_new_tokens=count,
        )  # fmt: skip

    if "code" in parts:
        made["code"] = code_time(generate)
    if "waveform" in parts:
        decoder = HifiDecoder().eval()
        with torch.inference_mode():
            spoken = torch.randn(1, _CODES, 1024)
            made["waveform"] = least(lambda: decoder(spoken, g=torch.randn(1, 512, 1)), 2)
    return made


def ours(layers: int, threads: int, parts: list[str]) -> dict:
    import tensorflow as tf

    from myxtts.xtts_v2 import sampling
    from myxtts.xtts_v2.conditioning import Conditioning
    from myxtts.xtts_v2.config import ModelArgs
    from myxtts.xtts_v2.gpt import Gpt
    from myxtts.xtts_v2.hifigan import HifiGan
    from myxtts.xtts_v2.names import Names
    from myxtts.xtts_v2.sizes import ConditioningSizes, HifiGanSizes

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    args = ModelArgs(gpt_layers=layers)
    gpt = Gpt(args, Names(), start_text=261, stop_text=0)
    conditioning = Conditioning(args, ConditioningSizes(), Names())
    text, latents = tf.range(3, 3 + _TOKENS)[None], tf.random.normal([1, 32, 1024])
    # No code is the last one, so that all are timed.
    gpt.audio_head.bias.assign(tf.one_hot(gpt.stop_code, 1026, on_value=-1e9))
    weights = gpt.trainable_variables + conditioning.trainable_variables
    weights = [weight.value for weight in weights]

    @tf.function
    def train():
        codes = tf.random.uniform([_BATCH, _LENGTH], 0, 1024, tf.int32)
        lengths, samples = tf.fill([_BATCH], _TOKENS), tf.fill([_BATCH], _LENGTH)
        with tf.GradientTape() as tape:
            made = conditioning(tf.random.normal([_BATCH, 300, 80]))
            many = tf.repeat(text, _BATCH, 0)
            seed = tf.constant([1, 2])
            loss = gpt(made, many, lengths, codes, samples, seed=seed, training=True)["loss"]
        gradients = tape.gradient(loss, weights)
        return [tf.reduce_sum(tf.convert_to_tensor(gradient)) for gradient in gradients]

    def generate(count):
        options = dict(temperature=0.0, repetition_penalty=10.0)
        list(sampling.stream(gpt, latents, text, first=count, every=1, max_codes=count, **options))

    made = {}
    if "code" in parts:
        made["code"] = code_time(generate)
    if "training step" in parts:
        made["training step"] = least(train, 2)
    if "waveform" in parts:
        hifigan = HifiGan(HifiGanSizes(), Names())
        decode, spoken = tf.function(hifigan), tf.random.normal([1, _CODES, 1024])
        made["waveform"] = least(lambda: decode(spoken, tf.random.normal([1, 512])), 2)
    return made


def define_flags() -> None:
    """Not at import: the published code's environment has no absl."""
    from absl import flags

    flags.DEFINE_string("published_python", None, "Python with coqui-tts.", required=True)
    flags.DEFINE_integer("layers", 6, "Layers of the GPT; 30 as published.")
    flags.DEFINE_integer("rounds", 3, "How often each side is measured.")
    flags.DEFINE_list("parts", list(_PARTS), f"Of {', '.join(_PARTS)}.")
    flags.DEFINE_integer("threads", 2, "Threads of both.")


def main(_) -> None:
    from absl import flags

    given = flags.FLAGS
    rows = {"published": [], "ours": []}
    for _ in range(given.rounds):
        for side, python in (("published", given.published_python), ("ours", sys.executable)):
            sizes = [str(given.layers), str(given.threads), ",".join(given.parts)]
            arguments = [python, __file__, side, *sizes]
            found = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            rows[side].append(json.loads(found.splitlines()[-1]))
    for name in rows["ours"][0]:
        theirs, mine = (min(row[name] for row in rows[side]) for side in ("published", "ours"))
        print(f"{name:14s} published {theirs:8.1f} ms  ours {mine:8.1f} ms  {mine / theirs:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] in (["published"], ["ours"]):
        side = {"published": published, "ours": ours}[sys.argv[1]]
        print(json.dumps(side(*map(int, sys.argv[2:4]), sys.argv[4].split(","))))
    else:
        from absl import app

        define_flags()
        app.run(main)
