"""A small model of the published form that speaks few words, and its fine-tuning.

    make_base(place, old, BaseSteps(dvae=1500, gpt=700, vocoder=400, rounds=2), print)
    start = start_of(base_of(place))
    export = tuned(place / "run", start, new, {"gpt": (5e-5, 300)}, kept=old)
"""

import dataclasses
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from myxtts.command.kept import Kept
from myxtts.config import BatchConfig
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.prepare import Source
from myxtts.export import export_published
from myxtts.training.config import TrainConfig
from myxtts.training.stages import stages_of
from myxtts.training.start import start_of
from myxtts.training.trainer import Trainer
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import DvaeSizes, SoundObjective
from tests.benchmarks.published_speaker import RATE
from tests.published_start import make_start

_DVAE = DvaeSizes(width=64, code_size=32, codes=256)
_SOUND = SoundObjective(critic_width=1, critics_from_step=10**6)
HELD_OUT = 0.2


def mel_batches(corpus: Corpus, seconds: float):
    """Waveforms at 22,050 Hz, cut to a length, without end."""
    import soundfile

    chance, size = np.random.default_rng(0), round(seconds * RATE)
    while True:
        rows = []
        for clip in chance.choice(np.flatnonzero(corpus.samples > size), 16):
            first = chance.integers(corpus.samples[clip] - size)
            rows.append(soundfile.read(corpus.paths[clip], size, first, dtype="int16")[0])
        lengths = tf.constant([size] * len(rows))
        yield at_mel_rate(tf.constant(np.stack(rows)), lengths, RATE)[0]


def trained_dvae(corpus: Corpus, steps: int) -> tuple[dict, np.ndarray, float]:
    """Tensors of a DVAE, the mel_stats, and the last loss. Its codebook begins with what it makes
    of speech, which the stage for published ones need not do."""
    batches = mel_batches(corpus, 0.6)
    ones = np.ones(80, np.float32)
    logs = np.concatenate([mels.log_mel(next(batches), ones, mels.DVAE_FFT) for _ in range(5)])
    stats = np.abs(logs).mean((0, 1)).astype(np.float32)
    names = Names()
    dvae = Dvae(_DVAE, names)
    optimizer = keras.optimizers.Adam(2e-3)
    mel = mels.log_mel(next(batches), stats, mels.DVAE_FFT)
    vectors = tf.reshape(dvae.vectors_of(mel), [-1, _DVAE.code_size]).numpy()
    picks = np.random.default_rng(1).choice(len(vectors), _DVAE.codes)
    for variable in (dvae.codebook.vectors, dvae.codebook.sums):
        variable.assign(vectors[picks])
    dvae.codebook.counts.assign(np.ones(_DVAE.codes))

    @tf.function(reduce_retracing=True)
    def step(waveform):
        mel = mels.log_mel(waveform, stats, mels.DVAE_FFT)
        mel = mel[:, : tf.shape(mel)[1] // 4 * 4]
        with tf.GradientTape() as tape:
            made = dvae(mel, training=True)
        weights = dvae.trainable_variables
        optimizer.apply(tape.gradient(made["loss"], [w.value for w in weights]), weights)
        return made["losses"]["reconstruction"]

    for number in range(steps):
        optimizer.learning_rate = 2e-3 * (1 - number / steps)
        loss = step(next(batches))
    return names.tensors(), stats, float(loss)


def settings(model, lessons: dict[str, tuple[float, int]], anew=False, rank=0, **objective):
    """`lessons`: rate and steps by stage. `anew`: from random weights."""
    stages = {}
    for name, stage in stages_of("xtts_v2").items():
        rate, steps = lessons.get(name, (1e-5, 1))
        stages[name] = dataclasses.replace(stage.learning, learning_rate=rate, share=steps)
        if anew:
            stages[name] = dataclasses.replace(
                stages[name], schedule="cosine", warm_up_steps=min(50, steps // 4), clip_norm=1.0
            )
    published = dataclasses.replace(
        model.xtts_v2,
        adapter_rank=rank,
        sound=_SOUND,
        objective=dataclasses.replace(model.xtts_v2.objective, **objective),
    )
    return TrainConfig(
        model=dataclasses.replace(model, xtts_v2=published),
        batches=BatchConfig(batch_size=16, buckets=3, conditioning_seconds=(1.0, 2.0)),
        stages=stages,
        max_steps=sum(steps for _, steps in lessons.values()) or 1,
        precision="float32",
        steps_per_call=5,
        log_steps=20,
        evaluate_steps=50,
        evaluation_clips=32,
        sample_steps=10**6,
        checkpoint_steps=100,
    )


def tuned(
    place: Path,
    start,
    corpus: Corpus,
    lessons: dict[str, tuple[float, int]],
    kept: Corpus | None = None,
    **options,
) -> Path:
    """The export, beside `place`, of a run over the stages in `lessons`; it is trained if it is not
    there. With `kept`, half of the clips are of that corpus."""
    export = Path(f"{place}-export")
    if export.exists():
        return export
    training, held_out = corpus.split(HELD_OUT)
    if kept is not None:
        training = Kept(Source("the old voices"), 0.5).mixed(training, kept.split(HELD_OUT)[0])
    made = Trainer(
        settings(start.model, lessons, **options),
        run_dir=place,
        corpus=training,
        validation=held_out,
        vocabulary=start.vocabulary,
        start=start,
        strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
        monitor=False,
        progress=False,
    )
    results = made.run(list(lessons)).stages
    export_published(place, str(export), [])
    for stage, result in results.items():
        print(f"{place.name}: {stage}, {result['steps']} steps, {result['held_out']}", flush=True)
    return export


@dataclasses.dataclass(frozen=True)
class BaseSteps:
    """How long a base is trained; of GPT and HiFi-GAN in each of the rounds, whose rate falls."""

    dvae: int
    gpt: int
    vocoder: int
    rounds: int


def make_base(place: Path, old: Corpus, steps: BaseSteps, say) -> None:
    """Trains DVAE, GPT and HiFi-GAN on the old voices, half an hour. What an earlier command has
    finished is not trained again."""
    source = place / "start"
    if not source.exists():
        dvae, stats, loss = trained_dvae(old, steps.dvae)
        say(f"DVAE: reconstruction {loss:.4f} of mels of mean square about 1")
        sizes = dict(layers=4, width=192, dvae=_DVAE, hifigan_width=64)
        first = make_start(place / "first", **sizes, mel_stats=stats, all_layers=True)
        dataclasses.replace(first, dvae=dvae).write(source)
    for number in range(1, steps.rounds + 1):
        gpt, whole = place / f"round{number}-gpt", place / f"round{number}"
        for run, lesson in (
            (gpt, {"gpt": (1e-3 / number**0.7, steps.gpt)}),
            (whole, {"vocoder": (2e-3 / number**0.7, steps.vocoder)}),
        ):
            source = tuned(run, start_of(source), old, lesson, anew=True)
        say(f"base trained, round {number}")


def base_of(place: Path) -> Path:
    """The export of the last round."""
    return sorted(place.glob("round?-export"))[-1]
