"""Records what the published code computes with the weights and sounds of formula.py.

    python3 -m venv V && V/bin/pip install coqui-tts==0.27.2 "torch==2.8.*" "torchaudio==2.8.*"
    V/bin/python tests/myxtts/xtts_v2/make_reference.py

Writes reference.npz beside this file: outputs by name, in float32; how far each is from the same
in float64 (`noise/NAME`), which says what "equal" can mean; gains and the codebook. Whoever runs
the tests needs none of this.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import formula
import numpy as np
import torch
import torch.nn.functional as F
import torchaudio
from reference_model import GAINS, Whole, codebook, fill, hifigan_gains, mel_of
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from TTS.tts.layers.tortoise import arch_utils
from TTS.tts.layers.xtts.dvae import DiscreteVAE
from TTS.tts.layers.xtts.trainer.gpt_trainer import GPTTrainer


def computed(whole, dvae, dtype) -> dict:
    torch.set_default_dtype(dtype)
    whole.to(dtype).eval(), dvae.to(dtype).eval()
    made = {}

    def tensor(array):
        return torch.from_numpy(np.asarray(array)).to(dtype)

    def put(name, value):
        value = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value)
        made[name] = value.numpy().copy()

    def channels_last(name, value):
        put(name, value.transpose(1, 2))

    stats, gpt, decoder = whole.mel_stats, whole.gpt, whole.hifigan_decoder
    batch, samples = formula.clips()
    reference = tensor(formula.reference())[None]
    mel = mel_of(tensor(batch), stats, 1024)
    channels_last("mel/dvae", mel)
    condition_mel = mel_of(reference, stats, 2048)
    channels_last("mel/conditioning", condition_mel)
    at_16k = torchaudio.functional.resample(reference, 22050, 16000)
    put("resampled/16000", at_16k[:, -2000:])
    put("resampled/24000", torchaudio.functional.resample(reference, 22050, 24000)[:, -2000:])
    put("resampled/22050", torchaudio.functional.resample(at_16k, 24000, 22050)[:, -2000:])

    dvae_parts(dvae, mel, put, channels_last)

    encoder = decoder.speaker_encoder
    with torch.no_grad():
        speaker_mel = encoder.torch_spec(at_16k.clone())
        channels_last("speaker/mel", speaker_mel)
        x = encoder.instancenorm((speaker_mel + 1e-6).log()).unsqueeze(1)
        x = encoder.bn1(encoder.relu(encoder.conv1(x)))
        for stage in (encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4):
            x = stage(x)
        x = x.reshape(1, -1, x.shape[-1])
        channels_last("speaker/scores", encoder.attention[:4](x))
        put("speaker/vector", encoder(at_16k.clone(), l2_norm=False))
        put("speaker/unit_vector", encoder(at_16k.clone(), l2_norm=True))

    text, text_lengths = (torch.from_numpy(value) for value in formula.texts())
    codes = torch.from_numpy(made["dvae/codes"])
    mels = torch.cat([condition_mel, condition_mel.flip(2)])

    def losses(left_out=None):
        return gpt(
            text.clone(), text_lengths, codes.clone(), torch.from_numpy(samples),
            cond_mels=mels[:, None], cond_idxs=left_out,
        )  # fmt: skip

    latents = gpt.get_style_emb(mels).transpose(1, 2)
    put("conditioning/latents", latents)
    text_loss, audio_loss, logits = losses()
    put("gpt/losses", [text_loss.item(), audio_loss.item()])
    channels_last("gpt/audio_logits", logits)
    left_out = torch.tensor([[0, 512], [512, 1300]])
    put("gpt/losses_left_out", [value.item() for value in losses(left_out)[:2]])
    (0.01 * text_loss + audio_loss).backward()
    put("gpt/gradient_norms", norms_of(gpt, "gpt."))
    gpt.zero_grad(set_to_none=True)
    put("adamw/changes", optimizer_changes(gpt))
    with torch.no_grad():
        generated(gpt, latents[:1].clone(), text[:1], put)
        for count in (1, 2, 3, 7):
            x = tensor(formula.latents(count))
            z = F.interpolate(x.transpose(1, 2), scale_factor=[4.0], mode="linear")
            z = F.interpolate(z, scale_factor=[24000 / 22050], mode="linear")
            channels_last(f"hifigan/hops_{count}", z)
            speaker = tensor(formula.speaker_vector())[..., None]
            put(f"hifigan/waveform_{count}", decoder(x, g=speaker)[0])
        for speed in (0.8, 1.3):
            z = F.interpolate(x.transpose(1, 2), scale_factor=1.0 / speed, mode="linear")
            channels_last(f"hifigan/speed_{speed}", z)
    torch.set_default_dtype(torch.float32)
    return made


def optimizer_changes(gpt) -> list:
    """What three steps of the published trainer's optimizer do to each weight, in the order of the
    names: the length of its change, and the change along a direction."""
    settings = dict(betas=formula.BETAS, eps=1e-8, weight_decay=formula.WEIGHT_DECAY)
    config = SimpleNamespace(
        optimizer_wd_only_on_weights=True, optimizer="AdamW", optimizer_params=settings,
        lr=formula.RATE_OF_STEPS,
    )  # fmt: skip
    trainer = SimpleNamespace(xtts=SimpleNamespace(gpt=gpt), config=config)
    optimizer = GPTTrainer.get_optimizer(trainer)
    named = {f"gpt.{name}": weight for name, weight in gpt.named_parameters()}
    before = {name: weight.detach().clone() for name, weight in named.items()}
    for step in range(formula.STEPS):
        for name, weight in named.items():
            weight.grad = torch.from_numpy(formula.gradient(name, weight.shape, step)).to(weight)
        optimizer.step()
    changes = []
    with torch.no_grad():
        for name in sorted(named):
            change = (named[name] - before[name]).double()
            along = torch.from_numpy(formula.uniform(f"along {name}", tuple(change.shape)))
            changes.append([float(change.norm()), float((change * along).sum())])
            named[name].copy_(before[name])
    gpt.zero_grad(set_to_none=True)
    return changes


def norms_of(network, prefix="") -> list:
    """Of all gradients, in the order of the names."""
    named = {prefix + name: w.grad for name, w in network.named_parameters()}
    return [float(named[name].norm()) for name in sorted(named) if named[name] is not None]


def dvae_parts(dvae, mel, put, channels_last):
    with torch.no_grad():
        put("dvae/vectors", dvae.encoder(mel).permute(0, 2, 1))
        codes = dvae.get_codebook_indices(mel)
        put("dvae/codes", codes)
        channels_last("dvae/mel", dvae.decode(codes)[0])
    whole = mel[:, :, : mel.shape[2] // 4 * 4]
    before = {name: value.clone() for name, value in dvae.state_dict().items()}
    dvae.train()
    reconstruction, commitment, _ = dvae(whole)
    (reconstruction.mean() + commitment).backward()
    put("dvae/losses", [reconstruction.mean().item(), commitment.item()])
    put("dvae/gradient_norms", norms_of(dvae))
    put("dvae/trained_vectors", dvae.codebook.embed.T)
    put("dvae/trained_sums", dvae.codebook.embed_avg.T)
    put("dvae/trained_counts", dvae.codebook.cluster_size)
    dvae.zero_grad(), dvae.load_state_dict(before), dvae.eval()


def generated(gpt, latents, text, put):
    """Greedy codes with their logits and latents, and what the sampler does to logits."""
    gpt.init_gpt_for_inference(kv_cache=True)
    gpt.eval()
    penalty = RepetitionPenaltyLogitsProcessor(10.0)
    prefix = ids = gpt.compute_embeddings(latents, text)
    past, fed, codes, all_logits, hidden = None, ids, [], [], []
    for _ in range(12):
        out = gpt.gpt_inference(
            input_ids=fed, past_key_values=past, attention_mask=torch.ones(1, ids.shape[1]).long(),
            use_cache=True, output_hidden_states=True, return_dict=True,
        )  # fmt: skip
        past, logits = out.past_key_values, out.logits[:, -1]
        all_logits.append(logits[0])
        hidden.append(gpt.final_norm(out.hidden_states[-1][:, -1])[0])
        code = penalty(ids, logits.clone()).argmax(-1)
        codes.append(int(code))
        ids = torch.cat([ids, code[:, None]], 1)
        fed = code[:, None]
    put("generated/codes", codes)
    put("generated/logits", torch.stack(all_logits))
    put("generated/step_latents", torch.stack(hidden))
    length = torch.tensor([text.shape[1]])
    fed = torch.tensor([codes])
    samples = torch.tensor([len(codes) * 1024])
    again = gpt(text, length, fed, samples, cond_latents=latents, return_latent=True)
    put("generated/latents", again)
    for name, (strength, temperature, k, p) in {
        "inference": (10.0, 0.75, 50, 0.85),
        "config": (5.0, 0.75, 20, 0.85),
        "wide": (1.5, 1.3, 0, 0.99),
    }.items():
        steps = [RepetitionPenaltyLogitsProcessor(strength), TemperatureLogitsWarper(temperature)]
        steps += [TopKLogitsWarper(k)] if k else []
        chain = LogitsProcessorList([*steps, TopPLogitsWarper(p)])
        scores = chain(torch.cat([prefix, fed[:, :8]], 1), all_logits[8][None].clone())
        put(f"generated/scores_{name}", scores)
    del gpt.gpt_inference, gpt.gpt.wte


def main() -> None:
    arch_utils.GroupNorm32.forward = torch.nn.GroupNorm.forward  # it casts to float32
    whole = Whole()
    dvae = DiscreteVAE(
        channels=80, normalization=None, positional_dims=1, num_tokens=formula.CODES,
        num_resnet_blocks=3, kernel_size=3, num_layers=2, use_transposed_convs=False,
        **formula.DVAE,
    )  # fmt: skip
    fill(whole, GAINS)
    fill(dvae, {})
    gains = {**GAINS, **hifigan_gains(whole.hifigan_decoder.waveform_decoder)}
    fill(whole, gains)
    batch = torch.from_numpy(formula.clips()[0])
    book = codebook(dvae, mel_of(batch, whole.mel_stats, 1024))
    dvae.codebook.embed.copy_(torch.from_numpy(book))
    dvae.codebook.embed_avg.copy_(torch.from_numpy(book * np.float32(1.5)))
    dvae.codebook.cluster_size.fill_(1.5)
    shapes = {name: list(value.shape) for name, value in whole.state_dict().items()}
    dvae_shapes = {name: list(value.shape) for name, value in dvae.state_dict().items()}
    spectrum = {
        name: value.numpy() for name, value in whole.state_dict().items() if "torch_spec" in name
    }
    made, exact = computed(whole, dvae, torch.float32), computed(whole, dvae, torch.float64)
    noise = {}
    for name, value in made.items():
        if value.dtype.kind != "f":
            assert (value == exact[name]).all(), f"{name} differs in float64"
            continue
        there = np.isfinite(exact[name])
        value = np.where(there, value, 0)
        assert (there == np.isfinite(made[name])).all(), name
        gap = np.abs(value - np.where(there, exact[name], 0))
        # Norms of gradients differ by orders of magnitude: their noise is a share.
        gap = gap / np.abs(exact[name]) if name.endswith("norms") else gap
        noise[f"noise/{name}"] = gap.max()
    made = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in made.items()}
    facts = dict(gains=gains, shapes=shapes, dvae_shapes=dvae_shapes)
    facts["versions"] = dict(torch=torch.__version__, torchaudio=torchaudio.__version__)
    constants = {f"constant/{name}": value for name, value in spectrum.items()}
    path = Path(__file__).parent / "reference.npz"
    np.savez_compressed(path, **made, **noise, **constants, codebook=book, facts=json.dumps(facts))
    for name, value in made.items():
        rms = np.sqrt(np.mean(np.square(value[np.isfinite(value)].astype(float))))
        print(
            f"{name:28s} {list(value.shape)!s:16s} rms {rms:9.3g} noise", noise.get(f"noise/{name}")
        )
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
