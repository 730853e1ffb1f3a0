"""Settings of a run as frozen dataclasses, saved as JSON next to the things they describe.

    config = BatchConfig(batch_size=16)
    save_config(config, "run/batches.json")
    assert load_config(BatchConfig, "run/batches.json") == config

Every class checks its own values when it is made. So a mistake in an edited settings file is
refused with the field, the value found and the value needed.
"""

import collections.abc
import dataclasses
import json
import os
import types
import typing
from pathlib import Path

from myxtts import UserError


class BadSetting(UserError):
    """A field of a settings class was given a value that it cannot have."""

    def __init__(self, field: str, value: object, needed: str):
        super().__init__(f"{field} must be {needed}, got {value!r}")
        self.field, self.value, self.needed = field, value, needed


def need(condition: bool, field: str, value: object, needed: str) -> None:
    if not condition:
        raise BadSetting(field, value, needed)


def mel_frames(samples, hop_length: int):
    """Mel frames of a clip, or of each clip of an array or tensor of lengths: frame t is centred
    on sample t * hop_length."""
    return -(-samples // hop_length)


@dataclasses.dataclass(frozen=True)
class AudioConfig:
    """Waveform and log-mel parameters; the same for training, cloning and synthesis."""

    sample_rate: int = 22050
    n_fft: int = 1024
    hop_length: int = 256
    n_mels: int = 80
    f_min: float = 0.0
    f_max: float = 8000.0
    power: float = 2.0
    log_floor: float = 1e-5

    def __post_init__(self):
        need(self.sample_rate >= 8000, "sample_rate", self.sample_rate, "at least 8000 Hz")
        need(
            self.hop_length > 0 and self.n_fft % (2 * self.hop_length) == 0,
            "n_fft",
            self.n_fft,
            f"an even multiple of hop_length={self.hop_length}",
        )
        need(self.n_mels > 0, "n_mels", self.n_mels, "positive")
        need(
            0 <= self.f_min < self.f_max <= self.sample_rate / 2,
            "f_max",
            self.f_max,
            f"above f_min={self.f_min} and at most half of sample_rate={self.sample_rate}",
        )
        need(self.power in (1.0, 2.0), "power", self.power, "1.0 (magnitude) or 2.0 (power)")
        need(self.log_floor > 0, "log_floor", self.log_floor, "positive")

    def frames(self, samples):
        return mel_frames(samples, self.hop_length)


@dataclasses.dataclass(frozen=True)
class AugmentConfig:
    """Random changes to the audio before the mels; a probability of 0 switches one off.

    Noise and SpecAugment touch the conditioning crop only: the model must learn to take a voice
    from a poor recording, not to speak like one. Gain changes clip and crop alike.
    """

    noise_probability: float = 0.0
    noise_snr_db: tuple[float, float] = (10.0, 40.0)
    gain_probability: float = 0.0
    gain_db: tuple[float, float] = (-6.0, 3.0)
    mask_probability: float = 0.0
    time_masks: int = 2
    time_mask_frames: int = 20
    mel_masks: int = 2
    mel_mask_bands: int = 10

    def __post_init__(self):
        for name in ("noise_probability", "gain_probability", "mask_probability"):
            value = getattr(self, name)
            need(0.0 <= value <= 1.0, name, value, "between 0 and 1")
        for name in ("noise_snr_db", "gain_db"):
            value = getattr(self, name)
            need(len(value) == 2 and value[0] <= value[1], name, value, "(low, high)")
        for name in ("time_masks", "time_mask_frames", "mel_masks", "mel_mask_bands"):
            need(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")


@dataclasses.dataclass(frozen=True)
class FeatureConfig:
    """The features that `features.make_features` makes from a batch."""

    audio: AudioConfig = AudioConfig()
    augment: AugmentConfig = AugmentConfig()
    keep_waveform: bool = True


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """How text becomes token ids."""

    vocabulary: str = "bpe"
    vocabulary_size: int = 2048
    phonemes: bool = False
    max_tokens: int = 402

    def __post_init__(self):
        need(
            self.vocabulary in ("bpe", "characters"),
            "vocabulary",
            self.vocabulary,
            '"bpe" or "characters"',
        )
        need(self.vocabulary_size >= 300, "vocabulary_size", self.vocabulary_size, "300 or more")
        need(self.max_tokens >= 8, "max_tokens", self.max_tokens, "8 or more")


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """The clips that `corpus.prepare` accepts, and how it changes the audio it copies."""

    sample_rate: int = 22050
    hop_length: int = 256
    min_seconds: float = 0.3
    max_seconds: float = 20.0
    max_clipped: float = 0.01
    silence_dbfs: float = -60.0
    trim_silence_db: float | None = None
    loudness_dbfs: float | None = None

    def __post_init__(self):
        need(
            0 < self.min_seconds < self.max_seconds,
            "max_seconds",
            self.max_seconds,
            f"above min_seconds={self.min_seconds}",
        )
        need(0 < self.max_clipped <= 1, "max_clipped", self.max_clipped, "a share above 0, up to 1")
        need(self.silence_dbfs < 0, "silence_dbfs", self.silence_dbfs, "below 0 dBFS")
        trim = self.trim_silence_db
        need(trim is None or trim > 0, "trim_silence_db", trim, "above 0 (dB below the peak)")
        loud = self.loudness_dbfs
        need(loud is None or -60 < loud < 0, "loudness_dbfs", loud, "between -60 and 0 dBFS")


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """How clips are put into batches; see `corpus.plan.BatchPlan`."""

    batch_size: int = 16
    seed: int = 0
    buckets: int = 8
    static_shapes: bool = False
    frame_multiple: int = 4
    temperature: float = 1.0
    shuffle: bool = True
    drop_remainder: bool = True
    conditioning_seconds: tuple[float, float] = (3.0, 6.0)
    # From another clip of the speaker, or else from the clip itself (half of it if it is short).
    crop: str = "other_clip"

    def __post_init__(self):
        need(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")
        need(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        need(1 <= self.buckets <= 64, "buckets", self.buckets, "between 1 and 64")
        need(self.frame_multiple >= 1, "frame_multiple", self.frame_multiple, "1 or more")
        need(self.temperature >= 1.0, "temperature", self.temperature, "1.0 (as found) or more")
        low, high = self.conditioning_seconds
        need(0 < low <= high, "conditioning_seconds", (low, high), "(shortest, longest)")
        known = ("other_clip", "same_clip")
        need(self.crop in known, "crop", self.crop, f"one of {known}")


@dataclasses.dataclass(frozen=True)
class Speaking:
    """How codes are drawn (see `sampling.generate`), and the silence between two sentences."""

    temperature: float = 0.2
    top_k: int = 50
    top_p: float = 0.9
    repetition_penalty: float = 1.0
    length_penalty: float = 1.0
    seed: int = 0
    pause: float = 0.15

    def __post_init__(self):
        need(self.temperature >= 0, "temperature", self.temperature, "0 or more")
        need(self.top_k >= 0, "top_k", self.top_k, "0 (all) or more")
        need(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        for name in ("repetition_penalty", "length_penalty"):
            need(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        need(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        need(0 <= self.pause <= 10, "pause", self.pause, "between 0 and 10 seconds")

    def sampling(self) -> dict:
        options = dataclasses.asdict(self)
        return {name: options[name] for name in options if name != "pause"}


def to_json(config: object) -> dict:
    """The settings as plain JSON types."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_json(cls: type, values: dict, where: str = "settings") -> object:
    """`cls` with the values of `to_json`; unknown fields and wrong types are refused by name."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: {cls.__name__} must be a JSON object, found {values!r}")
    hints = typing.get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise UserError(
            f"{where}: {cls.__name__} has no field {unknown[0]!r}; "
            f"it has {', '.join(sorted(names))}"
        )
    typed = {k: _typed(hints[k], value, f"{where}: {k}") for k, value in values.items()}
    return cls(**typed)


def _typed(hint: object, value: object, where: str) -> object:
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value, where)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if value is None and type(None) in typing.get_args(hint):
            return None
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        return _typed(hint, value, where)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{where} must be a list, found {value!r}")
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            args = (args[0],) * len(value)
        if len(args) != len(value):
            raise UserError(f"{where} must be a list of {len(args)} values, found {value!r}")
        return tuple(_typed(arg, item, where) for arg, item in zip(args, value, strict=True))
    if typing.get_origin(hint) is collections.abc.Mapping:
        if not isinstance(value, dict):
            raise UserError(f"{where} must be a JSON object, found {value!r}")
        of = typing.get_args(hint)[1]
        return {name: _typed(of, item, f"{where}.{name}") for name, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise UserError(f"{where} must be of type {hint.__name__}, found {value!r}")
    return value


def save_config(config: object, path: str | os.PathLike) -> None:
    """Writes the settings as JSON; the file is whole or not there at all."""
    write_whole(path, json.dumps(to_json(config), indent=2) + "\n")


def load_config(cls: type, path: str | os.PathLike) -> object:
    """Reads what `save_config` wrote."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; it should hold the {cls.__name__}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} does not hold the {cls.__name__} as JSON: {error}") from None
    return from_json(cls, values, str(path))


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Writes a text file through a temporary one beside it, so that no reader sees a part."""
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
