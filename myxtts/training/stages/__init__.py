"""The stages of the training, in their order. See README.md in this folder for adding one."""

from myxtts.training.stages.base import (
    PUBLISHED_STAGES,
    STAGES,
    ClipMemory,
    LongestClip,
    Stage,
    Surroundings,
    in_order,
    register,
    stage_named,
    stage_names,
    stages_of,
)
from myxtts.training.stages.gpt import GptStage
from myxtts.training.stages.new_xtts_v2 import NewGptStage, NewTokenizerStage, NewVocoderStage
from myxtts.training.stages.published_gpt import PublishedGptStage
from myxtts.training.stages.published_tokenizer import PublishedTokenizerStage
from myxtts.training.stages.published_vocoder import PublishedVocoderStage
from myxtts.training.stages.tokenizer import TokenizerStage
from myxtts.training.stages.vocoder import VocoderStage

_OWN = (TokenizerStage, GptStage, VocoderStage)
_PUBLISHED = (PublishedTokenizerStage, PublishedGptStage, PublishedVocoderStage)
_NEW = (NewTokenizerStage, NewGptStage, NewVocoderStage)
for _stage in (*_OWN, *_PUBLISHED, *_NEW):
    register(_stage)

__all__ = [
    "PUBLISHED_STAGES",
    "STAGES",
    "ClipMemory",
    "LongestClip",
    "Stage",
    "Surroundings",
    "in_order",
    "register",
    "stage_named",
    "stage_names",
    "stages_of",
]
