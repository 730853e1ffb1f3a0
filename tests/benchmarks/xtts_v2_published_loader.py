"""An export of fine-tuning in every stage, loaded and spoken by the published code.

    python tests/benchmarks/xtts_v2_published_loader.py --published_python=V/bin/python --out=NEW \
        [--from_random]

V is the environment that tests/myxtts/xtts_v2/make_reference.py describes. A model with a small GPT
and DVAE, but with the published HiFi-GAN and speaker encoder (of these the published code has one
size), is trained for some steps in all three stages and exported; it has Persian as an added
language. With --from_random it is trained as `--model_size=xtts_v2` trains, vocabulary, mel_stats
and speaker encoder included. The published code loads the export strictly and computes from the
same inputs what ours computes; printed are the worst differences, with the root of the mean square
in brackets.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

_TEXT, _RATE = "seven blue tomato.", 22050


def begun(out: Path, corpus, from_random: bool):
    """What the training starts from."""
    from myxtts.config import TextConfig
    from myxtts.model.config import ModelConfig, new_xtts_v2
    from myxtts.training.start import random_start, start_of
    from myxtts.xtts_v2.sizes import DvaeSizes, SpeakerSizes
    from tests.published_start import letters_vocabulary, make_start, small_model

    sizes = {
        "layers": 3,
        "width": 128,
        "dvae": DvaeSizes(width=64, code_size=32, codes=128),
        "hifigan_width": 512,
        "speaker": SpeakerSizes(),
        "all_layers": True,
    }
    if from_random:
        text = TextConfig(vocabulary_size=300)
        model = new_xtts_v2(ModelConfig(text=text, xtts_v2=small_model(**sizes)))
        return random_start(model, corpus, 5)
    if not (out / "start").exists():
        make_start(out / "start", letters_vocabulary("en", "de", "fa"), **sizes)
    return start_of(out / "start")


def trained(out: Path, from_random: bool) -> None:
    import dataclasses

    import tensorflow as tf

    from myxtts.config import BatchConfig
    from myxtts.export import export_published
    from myxtts.training.config import TrainConfig
    from myxtts.training.stages import stages_of
    from myxtts.training.trainer import Trainer
    from myxtts.xtts_v2.sizes import SoundObjective
    from tests.benchmarks.few_words import corpora

    corpus, _ = corpora(out, voices=2, minutes=1)
    start = begun(out, corpus, from_random)
    stages = {
        name: dataclasses.replace(stage.learning, learning_rate=1e-3, share=1.0)
        for name, stage in stages_of(start.model.form).items()
    }
    sound = SoundObjective(segment_hops=16, critic_width=4)
    published = dataclasses.replace(start.model.xtts_v2, sound=sound)
    config = TrainConfig(
        model=dataclasses.replace(start.model, xtts_v2=published),
        batches=BatchConfig(batch_size=4, buckets=1, conditioning_seconds=(0.5, 1.0)),
        stages=stages,
        max_steps=9,
        precision="float32",
    )
    Trainer(
        config,
        run_dir=out / "run",
        corpus=corpus,
        validation=None,
        vocabulary=start.vocabulary,
        start=start,
        strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
        monitor=False,
        progress=False,
    ).run(list(stages))
    export_published(out / "run", out / "export", [])


def reference() -> np.ndarray:
    """Something with harmonics and noise, 3 s at 22,050 Hz."""
    time = np.arange(3 * _RATE) / _RATE
    made = sum(np.sin(2 * np.pi * 130 * k * time + k) / k for k in range(1, 20))
    noise = np.random.default_rng(1).standard_normal(len(time))
    return (0.08 * made * (1 + np.sin(9 * time)) + 0.002 * noise).astype(np.float32)


def ours(out: Path) -> dict:
    import dataclasses

    import tensorflow as tf

    from myxtts.xtts_v2 import mels
    from myxtts.xtts_v2.directory import PublishedDirectory
    from myxtts.xtts_v2.networks import Published
    from myxtts.xtts_v2.voice import PublishedVoice

    networks = Published.load(PublishedDirectory.open(out / "export"))
    voice, waveform = PublishedVoice(networks), tf.constant(reference()[None])
    latents, vector = voice._conditioned(waveform), voice._recognised(waveform)
    mel = mels.log_mel(waveform, networks.mel_stats, mels.DVAE_FFT)
    codes = networks.dvae.codes_of(mel)[:, :60]
    ids = tf.constant([voice.tokens.encode(_TEXT, "en")])
    lengths = tf.constant([60])
    heard = networks.gpt.latents_of(latents, ids, tf.shape(ids)[1:], codes, lengths)
    greedy = dataclasses.replace(voice.speaking, temperature=0.0)
    (said, spoken, _) = next(
        voice.codes(ids[0].numpy().tolist(), voice_of(latents, vector), greedy, first=40, every=40)
    )
    return {
        "ids": ids,
        "codes": codes,
        "conditioning": latents,
        "speaker": vector,
        "latents": heard,
        "waveform": networks.hifigan(heard, vector),
        "spoken codes": said[:40],
        "spoken latents": spoken[:, :40],
        "spoken waveform": networks.hifigan(spoken[:, :40], vector),
        "dvae mel": networks.dvae.mel_of(codes),
    }


def voice_of(latents, vector):
    from myxtts.voice import ClonedVoice

    return ClonedVoice(latents, vector)


def published(out: Path) -> None:
    import torch
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.layers.tortoise.arch_utils import TorchMelSpectrogram
    from TTS.tts.layers.xtts.dvae import DiscreteVAE
    from TTS.tts.models.xtts import Xtts

    export, wanted = out / "export", np.load(out / "ours.npz")
    config = XttsConfig()
    config.load_json(str(export / "config.json"))
    model = Xtts.init_from_config(config)
    model.load_checkpoint(config, checkpoint_dir=str(export), eval=True, strict=True)
    dvae = DiscreteVAE(
        channels=80, normalization=None, positional_dims=1, num_tokens=128, codebook_dim=32,
        hidden_dim=64, num_resnet_blocks=3, kernel_size=3, num_layers=2, use_transposed_convs=False,
    )  # fmt: skip
    dvae.load_state_dict(torch.load(export / "dvae.pth", weights_only=True), strict=True)
    dvae.eval()
    found, waveform = {}, torch.from_numpy(reference())[None]
    with torch.inference_mode():
        spectrogram = TorchMelSpectrogram(mel_norm_file=None, sampling_rate=_RATE)
        spectrogram.mel_norms = model.mel_stats
        found["codes"] = dvae.get_codebook_indices(spectrogram(waveform))[:, :60]
        found["dvae mel"] = dvae.decode(found["codes"])[0].permute(0, 2, 1)
        ids = torch.IntTensor(model.tokenizer.encode(_TEXT, lang="en"))[None]
        found["ids"] = ids
        latents = model.get_gpt_cond_latents(waveform, _RATE, length=30, chunk_length=4)
        vector = model.get_speaker_embedding(waveform, _RATE)
        found["conditioning"], found["speaker"] = latents, vector[..., 0]
        count = found["codes"].shape[1]
        options = {"cond_latents": latents, "return_attentions": False, "return_latent": True}

        def second_pass(codes):
            sizes = torch.tensor([ids.shape[1]]), torch.tensor([codes.shape[1] * 1024])
            return model.gpt(ids, sizes[0], codes, sizes[1], **options)

        found["latents"] = second_pass(found["codes"])[:, :count]
        found["waveform"] = model.hifigan_decoder(found["latents"], g=vector)[:, 0]
        said = model.gpt.generate(
            cond_latents=latents, text_inputs=ids, do_sample=False, num_beams=1,
            repetition_penalty=float(config.repetition_penalty), max_new_tokens=40,
        )  # fmt: skip
        found["spoken codes"] = said[0, :40]
        found["spoken latents"] = second_pass(said[:, :40])
        found["spoken waveform"] = model.hifigan_decoder(found["spoken latents"], g=vector)[:, 0]
    if "fa" in config.languages:
        try:
            model.inference("سلام", "fa", latents, vector)
            print("fa: spoken, which was not expected")
        except Exception as error:
            print(f"fa: read, not spoken: {type(error).__name__}: {error}")
    for name, value in found.items():
        value, mine = value.numpy(), wanted[name]
        if value.shape != mine.shape:
            print(f"{name}: {value.shape} there, {mine.shape} here")
        elif mine.dtype.kind == "f":
            gap, size = np.abs(value - mine).max(), np.sqrt(np.square(mine).mean())
            print(f"{name}: {gap:.1e} ({size:.2f})")
        else:
            print(f"{name}: {(value != mine).sum()} of {mine.size} differ")


def main(_) -> None:
    from absl import flags

    given = flags.FLAGS
    out = Path(given.out).absolute()
    if not (out / "export").exists():
        trained(out, given.from_random)
    np.savez(out / "ours.npz", **{name: np.asarray(value) for name, value in ours(out).items()})
    subprocess.run([given.published_python, __file__, "published", str(out)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["published"]:
        published(Path(sys.argv[2]))
    else:
        from absl import app, flags

        flags.DEFINE_string("published_python", None, "Python with coqui-tts.", required=True)
        flags.DEFINE_string("out", None, "Directory; what is there is used.", required=True)
        flags.DEFINE_bool("from_random", False, "Start from random weights and a new vocabulary.")
        app.run(main)
