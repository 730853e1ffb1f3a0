"""Memory that a stage needs on each device, estimated before anything is made.

What is counted: weights, the optimizer's two moments and the average; the tensors that the backward
pass needs again, or, if that is more, the gradients, which come while those go; the batches in the
slots. Each stage counts its tensors (`Stage.clip_memory`) per frame, token or sample, with factors
fitted to measurements on emulated GPUs (`tests/benchmarks/memory.py` prints both). The memory of a
GPU's libraries (`LIBRARIES`) is a guess, because no hardware GPU was available.
"""

import bisect
import dataclasses
import math
from collections.abc import Mapping

import keras

from dual_device_strategy.copies import copying_slots
from myxtts.training import networks
from myxtts.training.config import TrainConfig
from myxtts.training.stages import LongestClip, stage_named

LIBRARIES = 1 << 30  # CUDA's context, cuDNN's workspaces
_FLOAT = 4
# Fitted, as are the factors that the stages declare.
_HALF = 0.6  # of a step's tensors in 16-bit precision; some stay in 32 bits
_ALWAYS = 16 << 20  # bytes, on each device, whatever the batch
_FEATURES = 2_400  # bytes a mel frame, on the data device
_ENCODING = 8.0  # numbers by frame and tokenizer.width, on the data device
_MOST_CLIPS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Part:
    """What a device does: the shares of every batch's clips that it prepares and trains on."""

    prepares: float
    trains: float

    @property
    def role(self) -> str:
        roles = {"data": self.prepares, "model": self.trains}
        return " and ".join(role for role, share in roles.items() if share)


DATA, MODEL = Part(1.0, 0.0), Part(0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Bytes a stage needs: what is there anyway, and what every clip of a batch adds.

    Attributes:
      least: what the optimizer's step needs, when the batch's tensors are gone already.
      once: of `fixed`, what a device that does both needs only once.
      parameters: by network, as trained.
      checkpoint_bytes: of one checkpoint to continue from.
      host_batch_bytes: of a batch that waits in host memory.
    """

    stage: str
    batch_size: int
    parameters: dict[str, int]
    fixed: dict[str, int]
    per_clip: dict[str, int]
    least: dict[str, int]
    once: int
    checkpoint_bytes: int
    host_batch_bytes: int

    def on(self, part: Part, batch_size: int | None = None) -> int:
        """On a device that does this part, with the stage's own batch size or another."""
        clips = batch_size or self.batch_size
        needed = [
            max(self.least[role], self.fixed[role] + math.ceil(clips * share) * self.per_clip[role])
            for role, share in (("data", part.prepares), ("model", part.trains))
            if share
        ]
        return sum(needed) - (len(needed) - 1) * self.once

    def largest_batch(self, part: Part, room: float) -> int:
        """The largest batch that fits; 0 where none does."""
        return bisect.bisect_right(range(1, _MOST_CLIPS), room, key=lambda n: self.on(part, n))


def estimate(
    config: TrainConfig,
    stage: str,
    longest: LongestClip,
    text_tokens: int,
    *,
    precision: str = "float32",
    slots: int = 4,
    libraries: int = 0,
) -> Estimate:
    """The bytes a training step of the stage needs.

    Args:
      text_tokens: the size of the vocabulary.
      libraries: bytes to add on each device, `LIBRARIES` for real GPUs.
    """
    model, audio = config.model, config.model.audio
    declared = stage_named(stage, model.form)
    with keras.StatelessScope(initialize_variables=False):  # shapes without memory
        trained_networks = declared.make_networks(model, text_tokens)
        made = _sizes(trained_networks)
        helpers = _sizes(declared.make_helpers(model))
        frozen = sum(
            math.prod(v.shape)
            for network in declared.make_frozen(model, text_tokens).values()
            for v in network.variables
        )
    trained, helping = sum(made.values()), sum(helpers.values())
    # Beside adapters the weights themselves; codebooks.
    resting = sum(
        math.prod(v.shape)
        for network in trained_networks.values()
        for v in network.non_trainable_variables
    )
    averaged = 1 if config.stage(stage).ema else 0
    states = _FLOAT * (trained * (3 + averaged) + 3 * helping + resting)
    gradients = _FLOAT * (trained + helping) * (2 if config.grad_accum > 1 else 1)
    seconds = config.batches.conditioning_seconds[1]
    longest = LongestClip(
        frames=min(longest.frames, model.longest_frames),
        text_tokens=min(longest.text_tokens, model.text.max_tokens),
        reference_frames=audio.frames(math.ceil(seconds * audio.sample_rate)),
    )
    clip = declared.clip_memory(config, longest, text_tokens)
    kept, batch = int(_FLOAT * clip.kept), _FLOAT * clip.batch
    if precision != "float32":
        kept = int(_HALF * kept)
    frames = longest.frames + longest.reference_frames
    prepared = _FEATURES * frames
    if clip.prepared is not None:
        prepared = int(_FLOAT * clip.prepared)
    elif frozen:
        prepared += _ENCODING * _FLOAT * model.tokenizer.width * longest.frames
    once = libraries + _ALWAYS
    fixed = {
        "data": once + _FLOAT * frozen,
        "model": once + states,
    }
    size = config.batch_size(stage)
    # Large batches are copied from the host ahead of the front end, if there are slots for that.
    on_host = 2 * frames * audio.hop_length + 4 * longest.text_tokens
    return Estimate(
        stage=stage,
        batch_size=size,
        parameters={**made, **helpers},
        fixed=fixed,
        per_clip={
            "data": prepared + batch + copying_slots(slots) * on_host,
            "model": kept + (slots - 1) * batch,
        },
        least={"data": fixed["data"], "model": fixed["model"] + 2 * gradients},
        once=once,
        checkpoint_bytes=states + _FLOAT * (trained + resting),
        host_batch_bytes=size * on_host,
    )


def _sizes(made: Mapping[str, keras.Model]) -> dict[str, int]:
    return {name: networks.parameters(network) for name, network in made.items()}
