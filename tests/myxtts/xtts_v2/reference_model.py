"""The published networks, made small, with weights by formula.py: for make_reference.py."""

import formula
import numpy as np
import torch
from TTS.encoder.models.resnet import ResNetSpeakerEncoder
from TTS.tts.layers.xtts.gpt import GPT
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder
from TTS.tts.models.xtts import wav_to_mel_cloning

# Gains that make every output depend on every weight; the HiFi-GAN's are measured below.
GAINS = {"gpt.text_head.weight": 3.0, "gpt.mel_head.weight": 3.0}
KEPT = ("num_batches_tracked", "torch_spec", "discrete_loss", "codebook")


class Whole(torch.nn.Module):
    """The published model under its published names."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mel_stats", torch.ones(80))
        self.gpt = GPT(
            **formula.GPT,
            number_text_tokens=formula.TEXT_TOKENS,
            start_text_token=formula.TAGS["[START]"],
            stop_text_token=0,
            num_audio_tokens=formula.CODES + 2,
            start_audio_token=formula.CODES,
            stop_audio_token=formula.CODES + 1,
            use_perceiver_resampler=True,
            code_stride_len=1024,
        )
        self.hifigan_decoder = HifiDecoder(
            decoder_input_dim=formula.GPT["model_dim"],
            upsample_initial_channel_decoder=formula.HIFIGAN_WIDTH,
            d_vector_dim=formula.SPEAKER_SIZE,
        )
        self.hifigan_decoder.speaker_encoder = ResNetSpeakerEncoder(
            input_dim=64,
            proj_dim=formula.SPEAKER_SIZE,
            layers=list(formula.BLOCKS),
            num_filters=list(formula.FILTERS),
            log_input=True,
            use_torch_spec=True,
            audio_config=self.hifigan_decoder.speaker_encoder_audio_config,
        )


def fill(network, gains):
    for name, value in network.state_dict().items():
        if not any(part in name for part in KEPT):
            made = formula.weight(name, tuple(value.shape), gains.get(name, 1.0))
            value.copy_(torch.from_numpy(made))


@torch.no_grad()
def hifigan_gains(generator) -> dict:
    """With which every layer's output is as large as its input, and depends on it."""
    gains, handles = {}, []

    def scaled(name, layer, target):
        def hook(module, inputs, output):
            bias = 0 if module.bias is None else module.bias[None, :, None]
            ratio = float(np.float32(target / (output - bias).std(-1).mean()))
            normed = hasattr(module, "parametrizations")
            part = "parametrizations.weight.original0" if normed else "weight"
            gains[f"hifigan_decoder.waveform_decoder.{name}.{part}"] = ratio
            return (output - bias) * ratio + bias

        handles.append(layer.register_forward_hook(hook))

    for name, layer in generator.named_modules():
        if name == "conv_pre" or (name.startswith("ups.") and name.count(".") == 1):
            scaled(name, layer, 1.0)
        elif ("convs1" in name or "convs2" in name) and name.count(".") == 3:
            scaled(name, layer, 1.0 if "convs1" in name else 0.5)
        elif name == "conv_post":
            scaled(name, layer, 0.3)
    x = torch.from_numpy(formula.latents(7)).transpose(1, 2)
    generator(x, g=torch.from_numpy(formula.speaker_vector())[..., None])
    for handle in handles:
        handle.remove()
    return gains


def mel_of(waveform, stats, n_fft):
    return wav_to_mel_cloning(
        waveform, mel_norms=stats, n_fft=n_fft, hop_length=256, win_length=1024, power=2,
        normalized=False, sample_rate=22050, f_min=0, f_max=8000, n_mels=80,
    )  # fmt: skip


def codebook(dvae, mel):
    """Codes that the encoder's vectors lie between."""
    with torch.no_grad():
        vectors = dvae.encoder(mel).permute(0, 2, 1).reshape(-1, dvae.codebook.dim).numpy()
    picks = np.arange(formula.CODES) % len(vectors)
    drawn = formula.uniform("codebook", (formula.CODES, vectors.shape[1]))
    return (vectors[picks] + 0.7 * vectors.std(0) * drawn).astype(np.float32).T
