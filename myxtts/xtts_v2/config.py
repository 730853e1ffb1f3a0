"""The published config.json: sizes of the networks, and settings of speech."""

import dataclasses
import json
import os
from pathlib import Path

from myxtts import UserError
from myxtts.config import BadSetting, from_json, need, write_whole

CPML = "CPML (Coqui Public Model License: non-commercial use only)"
LANGUAGES = (
    *("en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh-cn"),
    *("hu", "ko", "ja", "hi"),
)


@dataclasses.dataclass(frozen=True)
class ModelArgs:
    """The `model_args` that affect computation, under their published names."""

    gpt_layers: int = 30
    gpt_n_model_channels: int = 1024
    gpt_n_heads: int = 16
    gpt_max_audio_tokens: int = 605
    gpt_max_text_tokens: int = 402
    gpt_max_prompt_tokens: int = 70
    gpt_number_text_tokens: int = 6681
    gpt_start_text_token: int | None = None  # None: [START] of the vocabulary
    gpt_stop_text_token: int | None = None  # None: [STOP] of the vocabulary
    gpt_num_audio_tokens: int = 1026
    gpt_start_audio_token: int = 1024
    gpt_stop_audio_token: int = 1025
    gpt_code_stride_len: int = 1024
    gpt_use_masking_gt_prompt_approach: bool = True
    gpt_use_perceiver_resampler: bool = True
    input_sample_rate: int = 22050
    output_sample_rate: int = 24000
    output_hop_length: int = 256
    decoder_input_dim: int = 1024
    d_vector_dim: int = 512
    cond_d_vector_in_each_upsampling_layer: bool = True

    def __post_init__(self):
        width, heads = self.gpt_n_model_channels, self.gpt_n_heads
        need(
            self.gpt_use_perceiver_resampler,
            "gpt_use_perceiver_resampler",
            self.gpt_use_perceiver_resampler,
            "true: models without a Perceiver are XTTS v1, which is not read",
        )
        need(width % heads == 0, "gpt_n_model_channels", width, f"a multiple of {heads} heads")
        need(self.decoder_input_dim == width, "decoder_input_dim", self.decoder_input_dim, width)
        codes = self.gpt_num_audio_tokens - 2
        for name, needed in (
            ("gpt_start_audio_token", codes),
            ("gpt_stop_audio_token", codes + 1),
            ("gpt_code_stride_len", 1024),
            ("input_sample_rate", 22050),
            ("output_sample_rate", 24000),
            ("output_hop_length", 256),
            ("cond_d_vector_in_each_upsampling_layer", True),
        ):
            need(getattr(self, name) == needed, name, getattr(self, name), needed)

    @property
    def codes(self) -> int:
        """The number of audio codes, without start and stop."""
        return self.gpt_num_audio_tokens - 2


@dataclasses.dataclass(frozen=True)
class PublishedConfig:
    """The contents of config.json. `raw` is the complete file, which is written back as it was."""

    model_args: ModelArgs = ModelArgs()
    languages: tuple[str, ...] = LANGUAGES
    temperature: float = 0.75
    length_penalty: float = 1.0
    repetition_penalty: float = 5.0
    top_k: int = 50
    top_p: float = 0.85
    gpt_cond_len: int = 30
    gpt_cond_chunk_len: int = 4
    max_ref_len: int = 30
    sound_norm_refs: bool = False
    raw: dict = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "PublishedConfig":
        """Reads a config.json; UserError names the field that does not fit."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read as XTTS's settings: {error}") from None
        if not isinstance(raw, dict) or not isinstance(raw.get("model_args"), dict):
            raise UserError(f"{path} is no config.json of XTTS: it has no model_args")
        values = _known(cls, raw, {"raw"})
        values["model_args"] = _known(ModelArgs, raw["model_args"])
        try:
            return dataclasses.replace(from_json(cls, values, str(path)), raw=raw)
        except BadSetting as error:
            raise UserError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike) -> None:
        """Writes the file in the form that the published code reads."""
        values = dataclasses.asdict(self)
        raw = {"model": "xtts", **values.pop("raw"), **values}
        raw["model_args"] = {**self.raw.get("model_args", {}), **values["model_args"]}
        write_whole(path, json.dumps(raw, indent=4, ensure_ascii=False) + "\n")


def _known(cls: type, values: dict, left_out: set = frozenset()) -> dict:
    names = {field.name for field in dataclasses.fields(cls)} - left_out
    return {name: value for name, value in values.items() if name in names}
