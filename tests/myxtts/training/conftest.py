"""Networks so small that a stage is traced and trained within seconds."""

import dataclasses
import shutil
from types import SimpleNamespace

import pytest
import tensorflow as tf

from myxtts.config import BatchConfig, PrepareConfig, TextConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source, prepare
from myxtts.export import export_published
from myxtts.model.config import (
    ConditioningConfig,
    GptConfig,
    ModelConfig,
    SpeakerConfig,
    TokenizerConfig,
    VocoderConfig,
)
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.loop import Loop
from myxtts.training.stage_run import StageRun
from myxtts.training.stages import STAGES
from myxtts.training.start import start_of
from myxtts.training.trainer import Trainer
from tests.myxtts.training.fine_tuning import ALL, deterministic_ops, trainer, variables_of
from tests.myxtts.training.toy_stage import Toy

MODEL = ModelConfig(
    text=TextConfig(vocabulary="characters"),
    tokenizer=TokenizerConfig(width=16, codes=32, code_size=8, residual_blocks=1),
    conditioning=ConditioningConfig(latents=4, layers=1, heads=2, encoder_layers=1),
    gpt=GptConfig(layers=1, width=16, heads=2, dropout=0.0, code_noise=0.0),
    speaker=SpeakerConfig(width=16, blocks=1, size=8),
    vocoder=VocoderConfig(
        width=16,
        blocks=1,
        segment_frames=16,
        discriminator_width=2,
        discriminator_periods=(3,),  # one discriminator of each family
        discriminator_frames=(512,),
        adversarial_from_step=4,
    ),
)
CONFIG = TrainConfig(
    model=MODEL,
    batches=BatchConfig(batch_size=4, buckets=2, conditioning_seconds=(0.5, 1.0)),
    stages={
        name: StageConfig(1e-3, 1.0, warm_up_steps=3) for name in ("tokenizer", "gpt", "vocoder")
    },
    tokenizer_frames=32,
    speaker_frames=32,
    max_steps=24,
    precision="float32",
    steps_per_call=3,
    log_steps=4,
    evaluate_steps=4,
    evaluation_clips=4,
    sample_steps=100,
    checkpoint_steps=3,
)


@pytest.fixture(scope="session")
def sides(spoken_corpus):
    """Twelve training clips, four held-out ones and their vocabulary."""
    short = [i for i in spoken_corpus.samples.argsort(kind="stable")[:16]]
    training, held_out = spoken_corpus.subset(short[:12]), spoken_corpus.subset(short[12:])
    languages = [training.language_of(i) for i in range(len(training))]
    vocabulary = Vocabulary.train(training.texts, languages, MODEL.text)
    return training, held_out, vocabulary


@pytest.fixture(scope="session")
def small_config():
    """The settings that `make_trainer` starts from."""
    return CONFIG


@pytest.fixture(scope="session")
def make_trainer(sides):
    """make_trainer(directory, strategy=..., corpus=..., **settings) on those."""
    training, held_out, vocabulary = sides

    def make(directory, strategy=None, corpus=training, validation=held_out, **settings):
        return Trainer(
            dataclasses.replace(CONFIG, **settings),
            run_dir=directory,
            corpus=corpus,
            validation=validation,
            vocabulary=vocabulary,
            strategy=strategy or tf.distribute.OneDeviceStrategy("CPU:0"),
            progress=False,
        )

    return make


@pytest.fixture
def toy(make_trainer, monkeypatch, tmp_path):
    """toy(spoil=..., **settings).run() in tmp_path; three batches are an epoch."""

    def make(spoil=(), path=None, **settings):
        stage = type("Toy", (Toy,), {"spoil": spoil})
        monkeypatch.setitem(STAGES, "tokenizer", stage)
        chosen = make_trainer(path or tmp_path, **{"max_steps": 12, **settings})
        return lambda: chosen.run(["tokenizer"])

    return make


@pytest.fixture(scope="session")
def prepared_at_24k(spoken_directory):
    prepared, _ = prepare(
        Source(spoken_directory), PrepareConfig(sample_rate=24000), workers=1, progress=False
    )
    return prepared


@pytest.fixture(scope="session")
def clips(prepared_at_24k):
    """Ten English clips to train on, and four."""
    corpus = Corpus.load(prepared_at_24k)
    english = [i for i in corpus.samples.argsort(kind="stable") if corpus.language_of(i) == "en"]
    return corpus.subset(english[:10]), corpus.subset(english[10:14])


@pytest.fixture(scope="session")
def all_tuned(start_directory, clips, tmp_path_factory):
    """A run of all stages from the published directory, six steps each: the `run`, the `results`
    of its stages, its `export` with a speaker "Me", the vocoder's variables after three steps
    (`at_step_3`), and the run as it was (`killed`) when the vocoder had made its last step and not
    saved it. It leaves no samples; the README's command does."""
    path = tmp_path_factory.mktemp("all_tuned")
    made = SimpleNamespace(run=path / "run", killed=path / "killed", export=path / "export")
    steps = Loop.run

    def copying(self, *arguments):
        steps(self, *arguments)
        if self.stage.name == "vocoder" and int(self.step.numpy()) == 3:
            made.at_step_3 = variables_of(self)
        if self.stage.name == "vocoder" and int(self.step.numpy()) == 6:
            shutil.copytree(made.run, made.killed)

    settings = {"deterministic": True, "max_steps": 6 * len(ALL)}
    with pytest.MonkeyPatch.context() as patch, deterministic_ops():
        patch.setattr(Loop, "run", copying)
        patch.setattr(StageRun, "show", lambda self: None)
        report = trainer(made.run, start_of(start_directory), clips, **settings).run(ALL)
    made.results = report.stages
    export_published(made.run, made.export, [f"Me:{clips[0].paths[0]}"])
    return made


@pytest.fixture(scope="session")
def six_steps(make_trainer, tmp_path_factory):
    """A toy's run of six steps, and its report; see `six_steps_done`."""
    path = tmp_path_factory.mktemp("six_steps")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STAGES, "tokenizer", Toy)
        return path, make_trainer(path, max_steps=6).run(["tokenizer"])


@pytest.fixture
def six_steps_done(six_steps, tmp_path):
    """The report of a toy's six steps, whose run is a copy in tmp_path."""
    path, report = six_steps
    shutil.copytree(path, tmp_path, dirs_exist_ok=True)
    return report
