"""The stages of the training, in their order. See README.md in this folder for adding one."""

from myxtts.training.stages.base import (
    STAGES,
    ClipMemory,
    LongestClip,
    Stage,
    Surroundings,
    in_order,
    register,
    stage_named,
    stage_names,
)
from myxtts.training.stages.gpt import GptStage
from myxtts.training.stages.tokenizer import TokenizerStage
from myxtts.training.stages.vocoder import VocoderStage

for _stage in (TokenizerStage, GptStage, VocoderStage):
    register(_stage)

__all__ = [
    "STAGES",
    "ClipMemory",
    "LongestClip",
    "Stage",
    "Surroundings",
    "in_order",
    "register",
    "stage_named",
    "stage_names",
]
