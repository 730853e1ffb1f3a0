"""A run directory whose networks are small and untrained: measuring must work on any."""

import dataclasses

import pytest

from myxtts.config import BatchConfig, TextConfig, save_config
from myxtts.corpus import embedded
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.model.config import (
    ConditioningConfig,
    GptConfig,
    ModelConfig,
    SpeakerConfig,
    TokenizerConfig,
    VocoderConfig,
)
from myxtts.text.vocabulary import Vocabulary
from myxtts.training import checkpoints, networks
from myxtts.training.config import TrainConfig
from myxtts.training.networks import load_networks
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_names
from myxtts.voice import Voice

MODEL = ModelConfig(
    text=TextConfig(vocabulary="characters"),
    tokenizer=TokenizerConfig(width=16, codes=16, code_size=8, residual_blocks=1),
    conditioning=ConditioningConfig(latents=4, layers=1, heads=2, encoder_layers=1),
    gpt=GptConfig(layers=1, width=32, heads=2, max_audio_tokens=200),
    speaker=SpeakerConfig(width=16, blocks=1, size=8),
    vocoder=VocoderConfig(width=16, blocks=1, corrections=1),
)
CONFIG = TrainConfig(model=MODEL, batches=BatchConfig(4, buckets=2), validation_share=0.2)


@pytest.fixture(scope="session")
def english_prepared(tmp_path_factory):
    settings = embedded.EmbeddedConfig(minutes=1.5, voices=2, seed=8)
    made = embedded.make(tmp_path_factory.mktemp("english"), settings, workers=2, progress=False)
    return prepare(Source(made), workers=2, progress=False)[0]


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory, english_prepared) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("run"))
    corpus = Corpus.load(english_prepared)
    languages = [corpus.language_of(i) for i in range(len(corpus))]
    vocabulary = Vocabulary.train(corpus.texts, languages, MODEL.text)
    save_config(CONFIG, run.config_file)
    vocabulary.save(run.vocabulary_file)
    for stage in stage_names():
        made = networks.make(stage, MODEL, len(vocabulary))
        variables = {name: network.variables for name, network in made.items()}
        checkpoints.save(run.stage(stage) / "best", {"step": 0}, variables)
    (run.manifests / "training").mkdir(parents=True)
    (run.manifests / "training" / "prepared.txt").write_text(f"{english_prepared}\n")
    return run


@pytest.fixture(scope="session")
def voice(run_directory) -> Voice:
    return Voice(load_networks(run_directory.path), "network")


@pytest.fixture
def other_batches(voice):
    """The run's networks, to be fed in batches of another size."""

    def networks_with(batch_size):
        batches = dataclasses.replace(CONFIG.batches, batch_size=batch_size)
        config = dataclasses.replace(CONFIG, batches=batches)
        return dataclasses.replace(voice.networks, config=config)

    return networks_with
