"""Settings survive the disk, and are refused by name when they are wrong."""

import dataclasses
import json

import pytest

from myxtts import UserError
from myxtts.config import (
    AudioConfig,
    AugmentConfig,
    BatchConfig,
    FeatureConfig,
    PrepareConfig,
    TextConfig,
    load_config,
    save_config,
    to_json,
)


@pytest.mark.parametrize(
    "config",
    [
        AudioConfig(f_max=11025.0),
        BatchConfig(conditioning_seconds=(1.0, 2.0), static_shapes=True),
        FeatureConfig(AudioConfig(n_mels=100), AugmentConfig(gain_db=(-3.0, 0.0))),
        PrepareConfig(trim_silence_db=30.0),
        TextConfig("characters"),
    ],
    ids=lambda config: type(config).__name__,
)
def test_settings_read_back_are_equal(tmp_path, config):
    save_config(config, tmp_path / "c.json")
    assert load_config(type(config), tmp_path / "c.json") == config
    assert hash(load_config(type(config), tmp_path / "c.json")) == hash(config)


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        AudioConfig().hop_length = 300


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"hop": 3}, r"AudioConfig has no field 'hop'; it has f_max"),
        ({"n_mels": "80"}, r"audio: n_mels must be of type int, found '80'"),
        ({"n_mels": True}, r"n_mels must be of type int, found True"),
        ({"n_mels": 0}, r"n_mels must be positive, got 0"),
        ({"f_max": 12000}, r"f_max must be above f_min=0.0 and at most half of sample_rate=22050"),
        ({"hop_length": 300}, r"n_fft must be an even multiple of hop_length=300, got 1024"),
    ],
)
def test_an_edited_file_is_refused_by_field_value_and_need(tmp_path, edit, message):
    values = to_json(FeatureConfig())
    values["audio"] |= edit
    (tmp_path / "c.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=message):
        load_config(FeatureConfig, tmp_path / "c.json")


def test_a_missing_or_damaged_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"c.json does not exist; it should hold the TextConfig"):
        load_config(TextConfig, tmp_path / "c.json")
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(UserError, match=r"c.json does not hold the TextConfig as JSON"):
        load_config(TextConfig, tmp_path / "c.json")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(UserError, match="must be a JSON object"):
        load_config(TextConfig, tmp_path / "c.json")
