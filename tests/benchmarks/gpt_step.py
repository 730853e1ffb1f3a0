"""One training step of the GPT against the same GPT in PyTorch.

    python tests/benchmarks/gpt_step.py [size ...]        needs torch (pip install torch)

Both sides have the same layers, widths, activations, dropout, masks, losses and batch: fused QKV
projection, pre-norm, squared ReLU, cross entropy over text and audio, clipping at 1 and AdamW.
PyTorch gets its fused attention and fused AdamW; ours runs as it is trained, a traced function
with or without XLA.  Each number of threads is a process of its own, in which the sides take
turns, on the same number of threads; the other side's threads sleep meanwhile.  The median round
counts; the processor time is printed beside it, for machines that are not quiet.
"""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
BATCH, LATENTS, TEXT, CODES, TEXT_TOKENS, MAX_TEXT = 16, 32, 60, 80, 300, 402


def inputs(config, codes: int) -> tuple:
    """A batch as one of 16 embedded clips of 3 to 4 seconds."""
    import numpy as np

    chance = np.random.default_rng(0)
    latents = chance.normal(size=(BATCH, LATENTS, config.width)).astype(np.float32)
    text = chance.integers(3, TEXT_TOKENS, (BATCH, TEXT)).astype(np.int32)
    text_lengths = chance.integers(40, TEXT + 1, BATCH).astype(np.int32)
    audio = chance.integers(0, codes, (BATCH, CODES)).astype(np.int32)
    return latents, text, text_lengths, audio, chance.integers(60, CODES + 1, BATCH).astype("i")


def ours(config, codes: int, jit: bool):
    import keras
    import tensorflow as tf

    from myxtts.model.gpt import Gpt

    gpt = Gpt(config, TEXT_TOKENS, MAX_TEXT, codes)
    optimizer = keras.optimizers.AdamW(1e-4, global_clipnorm=1.0)
    optimizer.build(gpt.trainable_variables)
    batch = [tf.constant(x) for x in inputs(config, codes)]

    @tf.function(jit_compile=jit)
    def step(seed):
        with tf.GradientTape() as tape:
            loss = gpt(*batch, seed=seed, training=True)["loss"]
        gradients = tape.gradient(loss, gpt.trainable_variables)
        optimizer.apply_gradients(zip(gradients, gpt.trainable_variables, strict=True))
        return loss

    numbers = iter(range(10**6))
    return lambda: float(step(tf.constant([1, next(numbers)])))


def theirs(config, codes: int):
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads = config.width, config.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_forward = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.wide = nn.Linear(width, 4 * width, bias=False)
            self.narrow = nn.Linear(4 * width, width, bias=False)
            self.drop = nn.Dropout(config.dropout)

        def forward(self, x, mask):
            clips, steps, _ = x.shape
            qkv = self.qkv(self.before_attention(x)).view(clips, steps, 3, heads, width // heads)
            query, keys, values = qkv.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(clips, steps, width)))
            inner = functional.relu(self.wide(self.before_forward(x))).square()
            return x + self.drop(self.narrow(inner))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.text, self.audio = nn.Embedding(TEXT_TOKENS, width), nn.Embedding(codes + 2, width)
            self.text_places = nn.Parameter(torch.randn(MAX_TEXT + 2, width) * 0.02)
            places = torch.randn(config.max_audio_tokens + 1, width)
            self.audio_places = nn.Parameter(places * 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(config.dropout)
            self.text_head = nn.Linear(width, TEXT_TOKENS)
            self.audio_head = nn.Linear(width, codes + 1)

        def forward(self, latents, text, text_lengths, audio, audio_lengths):
            text_place, audio_place = torch.arange(TEXT + 2)[None], torch.arange(CODES + 1)[None]
            ids = functional.pad(text, (1, 1))
            ids = torch.where(text_place == 0, 1, ids)
            ids = torch.where(text_place == text_lengths[:, None] + 1, 2, ids)
            read = functional.pad(audio, (1, 0), value=codes + 1)
            x = torch.cat(
                [
                    latents,
                    self.text(ids) + self.text_places[: TEXT + 2],
                    self.audio(read) + self.audio_places[: CODES + 1],
                ],
                1,
            )
            text_there = text_place < text_lengths[:, None] + 2
            audio_there = audio_place < audio_lengths[:, None] + 1
            there = torch.cat([torch.ones(BATCH, LATENTS, dtype=torch.bool), text_there], 1)
            there = torch.cat([there, audio_there], 1)
            steps = x.shape[1]
            mask = torch.ones(steps, steps, dtype=torch.bool).tril()[None] & there[:, None]
            x = self.drop(x)
            for block in self.blocks:
                x = block(x, mask[:, None])
            x = self.norm(x)
            ends = audio_place == audio_lengths[:, None]
            targets = torch.where(ends, codes, functional.pad(audio, (0, 1)))
            text_loss = self.loss(
                self.text_head(x[:, LATENTS : LATENTS + TEXT + 1]), ids[:, 1:], text_there[:, 1:]
            )
            audio_loss = self.loss(
                self.audio_head(x[:, LATENTS + TEXT + 2 :]), targets, audio_there
            )
            return config.text_weight * text_loss + config.audio_weight * audio_loss

        @staticmethod
        def loss(logits, targets, there):
            targets = torch.where(there, targets, -100).long()
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4, fused=True)
    batch = [torch.tensor(x) for x in inputs(config, codes)]

    def step():
        loss = network(*batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step, sum(p.numel() for p in network.parameters())


def measure(size: str, threads: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import tensorflow as tf
    import torch

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    torch.set_num_threads(threads)
    from myxtts.model.config import SIZES

    config, codes = SIZES[size].gpt, SIZES[size].tokenizer.codes
    # What the other side does not have; rotary places cost ours 5 %.
    config = dataclasses.replace(config, code_noise=0.0, tokens_per_code=0.0)
    torch_step, weights = theirs(config, codes)
    sides = {
        "TensorFlow": ours(config, codes, jit=False),
        "with XLA": ours(config, codes, jit=True),
        "PyTorch": torch_step,
    }
    for step in sides.values():
        step(), step()
    wall, used = ({name: [] for name in sides} for _ in range(2))
    for _ in range(ROUNDS):
        for name, step in sides.items():
            start, cpu = time.perf_counter(), time.process_time()
            step()
            wall[name].append(1000 * (time.perf_counter() - start))
            used[name].append(1000 * (time.process_time() - cpu))

    def middle(values):
        return sorted(values)[len(values) // 2]

    print(
        f"{size}, {weights / 1e6:.1f} M weights, {threads} thread{'s' * (threads > 1)}, ms a step:"
    )
    for name in sides:
        ratio = middle(wall["PyTorch"]) / middle(wall[name])
        by_processor = middle(used["PyTorch"]) / middle(used[name])
        print(
            f"  {name:10} median round {middle(wall[name]):6.0f} "
            f"(processor {middle(used[name]):6.0f})  PyTorch / this: {ratio:.2f} "
            f"({by_processor:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].isdigit():
        measure(sys.argv[1], int(sys.argv[2]))
        sys.exit()
    for size in sys.argv[1:] or ["tiny"]:
        for threads in (1, 2):
            subprocess.run(
                [sys.executable, __file__, size, str(threads)],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(threads),
                    "OMP_WAIT_POLICY": "PASSIVE",
                    "TF_CPP_MIN_LOG_LEVEL": "3",
                },
                stderr=subprocess.DEVNULL,
                check=True,
            )
