"""A small real corpus and a run directory of it, made once per test process."""

import json

import keras
import numpy as np
import pytest

from myxtts.config import TextConfig, save_config
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
from myxtts.training.run_directory import RunDirectory
from myxtts.training.stages import stage_names


@pytest.fixture(scope="session")
def spoken_directory(tmp_path_factory):
    """Three minutes of speech, three voices, English and Persian, as an unprepared corpus."""
    settings = embedded.EmbeddedConfig(minutes=3, voices=3, languages=("en", "fa"), seed=7)
    directory = tmp_path_factory.mktemp("spoken")
    return embedded.make(directory, settings, workers=2, progress=False)


@pytest.fixture(scope="session")
def prepared_directory(spoken_directory):
    """The same, prepared."""
    prepared, _ = prepare(Source(spoken_directory), workers=2, progress=False)
    return prepared


@pytest.fixture(scope="session")
def spoken_corpus(prepared_directory) -> Corpus:
    """The same, loaded."""
    return Corpus.load(prepared_directory)


@pytest.fixture(scope="session")
def finished_run(spoken_corpus, tmp_path_factory):
    """A run directory as training leaves it, of small networks that were given random weights.

    What they say is noise, but all of it depends on all of the input, and mostly it ends.
    """
    run = RunDirectory(tmp_path_factory.mktemp("finished_run"))
    model = ModelConfig(
        text=TextConfig(vocabulary="characters", max_tokens=40),
        tokenizer=TokenizerConfig(width=16, codes=32, code_size=8, residual_blocks=2),
        conditioning=ConditioningConfig(latents=3, layers=1, heads=2, encoder_layers=1),
        gpt=GptConfig(layers=2, width=16, heads=2, max_audio_tokens=120),
        speaker=SpeakerConfig(width=16, blocks=1, size=8),
        vocoder=VocoderConfig(width=16, blocks=2, corrections=1),
    )
    save_config(TrainConfig(model=model), run.config_file)
    languages = [spoken_corpus.language_of(i) for i in range(len(spoken_corpus))]
    vocabulary = Vocabulary.train(spoken_corpus.texts, languages, model.text)
    vocabulary.save(run.vocabulary_file)
    chance = np.random.default_rng(0)
    for stage in stage_names():
        keras.utils.set_random_seed(0)
        made = networks.make(stage, model, len(vocabulary))
        for network in made.values():
            for variable in network.trainable_variables:
                variable.assign(variable + chance.normal(scale=0.1, size=variable.shape))
        weights = {name: network.variables for name, network in made.items()}
        checkpoints.save(run.stage(stage) / "best", {"step": 1}, weights)
        result = {"comparison": {"network": 0.25, "griffin_lim": 0.5}}
        result = {"default_vocoder": "network", **result} if stage == "vocoder" else {}
        (run.stage(stage) / "finished.json").write_text(json.dumps(result))
    return run


@pytest.fixture
def recordings(spoken_corpus):
    """Paths of recordings of more than a second, all of one voice."""
    long = np.flatnonzero(spoken_corpus.samples > 30000)
    speaker = spoken_corpus.speaker_ids[long[0]]
    return [spoken_corpus.paths[i] for i in long if spoken_corpus.speaker_ids[i] == speaker][:3]
