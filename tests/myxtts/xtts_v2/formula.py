"""Weights and sounds that are formulas, so that no file has to hold them.

A weight is made of raw words of the Philox generator, keyed by its published name: those are the
same in every version of NumPy. Used by make_reference.py, which has PyTorch and no TensorFlow, and
by the tests, which have it the other way round.
"""

import hashlib

import numpy as np

# The published networks in the smallest sizes that still have every kind of layer.
GPT = dict(layers=2, model_dim=64, heads=4, max_text_tokens=60, max_mel_tokens=40)
CODES, TEXT_TOKENS = 64, 320
DVAE = dict(hidden_dim=32, codebook_dim=16)
HIFIGAN_WIDTH, SPEAKER_SIZE = 64, 32
FILTERS, BLOCKS = (8, 8, 16, 16), (1, 2, 1, 1)
RATE = 22050
# Of the optimizer's steps: a rate that is large beside the rounding of weights.
STEPS, RATE_OF_STEPS, WEIGHT_DECAY, BETAS = 3, 0.02, 0.1, (0.9, 0.96)
# Ids as close to the published ones as so small a table allows.
TAGS = {"[en]": 259, "[de]": 260, "[START]": 261, "[fr]": 262, "[ru]": 267, "[es]": 284}


def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float64 between -1 and 1."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")
    words = np.random.Philox(key=key).random_raw(int(np.prod(shape)))
    return (words >> np.uint64(11)).reshape(shape) / 2.0**52 - 1.0


def weight(name: str, shape: tuple[int, ...], gain: float = 1.0) -> np.ndarray:
    """float32; none is 0 or 1 everywhere, as a weight may be that was never trained."""
    drawn = uniform(name, shape)
    last = name.rsplit(".", 1)[-1]
    if last == "mel_stats":
        made = 1.4 + 0.6 * drawn
    elif last == "running_mean":
        made = 0.3 * drawn
    elif last == "running_var":
        made = 1.0 + 0.5 * drawn
    elif last == "original0" or (len(shape) == 1 and last in ("weight", "gamma")):
        made = 1.0 + 0.4 * drawn
    elif last == "bias":
        made = 0.2 * drawn
    elif "embedding" in name or last == "latents":
        made = drawn
    else:
        inputs = shape[0] if ".c_" in name else np.prod(shape[1:])
        made = drawn * np.sqrt(3.0 / inputs)
    return (gain * made).astype(np.float32)


def gradient(name: str, shape: tuple[int, ...], step: int) -> np.ndarray:
    """float32, of sizes from 1 down to the optimizer's epsilon."""
    size = 10.0 ** (4 * uniform(f"size {step} {name}", tuple(shape)) - 4)
    return (size * uniform(f"gradient {step} {name}", tuple(shape))).astype(np.float32)


def sound(seconds: float, pitch: float, seed: str) -> np.ndarray:
    """float32: harmonics, pauses and noise, on the grid of 16 bit."""
    time = np.arange(int(seconds * RATE)) / RATE
    glide = pitch * (1 + 0.15 * np.sin(2 * np.pi * 0.7 * time))
    phase = 2 * np.pi * np.cumsum(glide) / RATE
    loudness = np.clip(np.sin(2 * np.pi * 2.3 * time) + 0.5, 0, 1)
    tones = sum(np.sin(k * phase) / k for k in range(1, 20))
    made = 0.1 * tones * loudness + 0.01 * uniform(seed, time.shape)
    return (np.round(np.clip(made, -1, 1) * 32767) / 32768).astype(np.float32)


def clips() -> tuple[np.ndarray, np.ndarray]:
    """Two clips in a batch, with zeros behind the shorter, and their samples."""
    made = [sound(0.6, 120, "clip 0"), sound(0.41, 190, "clip 1")]
    batch = np.zeros([2, len(made[0])], np.float32)
    for row, clip in zip(batch, made, strict=True):
        row[: len(clip)] = clip
    return batch, np.array([len(clip) for clip in made])


def reference() -> np.ndarray:
    """A recording of the voice to be cloned."""
    return sound(0.9, 150, "reference")


def latents(count: int) -> np.ndarray:
    """Something for the HiFi-GAN."""
    return 1.7 * uniform(f"latents {count}", (1, count, GPT["model_dim"])).astype(np.float32)


def speaker_vector() -> np.ndarray:
    made = uniform("speaker", (1, SPEAKER_SIZE))
    return (made / np.linalg.norm(made)).astype(np.float32)


def texts() -> tuple[np.ndarray, np.ndarray]:
    """Token ids of two texts, 0 behind the shorter, and how many they are."""
    lengths = np.array([7, 4])
    ids = np.floor((uniform("text", (2, 7)) + 1) / 2 * (TEXT_TOKENS - 3)).astype(np.int32) + 3
    return np.where(np.arange(7) < lengths[:, None], ids, 0).astype(np.int32), lengths
