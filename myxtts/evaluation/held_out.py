"""Figures of a run on its held-out clips. They need no further network, so they are cheap enough
for every run.

figures = held_out_figures(load_networks("RUN"), held_out)
# {"tokenizer_mel_distance": 0.31, "codes_in_use": 201.0, "code_accuracy": 0.38, ...}
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from myxtts import UserError
from myxtts.corpus.manifest import Corpus
from myxtts.model.vocoder_comparison import compare_vocoders
from myxtts.training.data import StageData
from myxtts.training.networks import Networks


def held_out_figures(networks: Networks, held_out: Corpus) -> dict[str, float]:
    """The figures of the networks that are trained, on at most `evaluation_clips` of the clips.

    * `tokenizer_mel_distance`: mean absolute difference of log-mels, rebuilt from codes, in nats
    * `codes_in_use`: the number of equally frequent codes with the same entropy
    * `code_accuracy`: how often the GPT's likeliest next code is the right one, given those before
    * `audio_loss`, `text_loss`: the GPT's mean losses, in nats per token
    * `vocoder_mel_distance`, `griffin_lim_mel_distance`: between the log-mels of their waveforms
      and the recording, both made from what the tokenizer rebuilt
    """
    if networks.tokenizer is None:
        raise UserError("there is no trained tokenizer in this run yet; go on with the training")
    config = networks.config
    data = StageData.held_out("gpt", held_out, networks.vocabulary, config)
    dataset = data.batches(None, augmented=False).take(data.plan.batches_per_epoch)
    batches = list(dataset)
    figures = _tokenizer_figures(networks, batches)
    if networks.gpt is not None:
        figures |= _gpt_figures(networks, batches)
    if networks.vocoder is not None:
        judged = compare_vocoders(networks.vocoder, config.model.audio, _rebuilt(networks, batches))
        figures["vocoder_mel_distance"] = judged["network"]
        figures["griffin_lim_mel_distance"] = judged["griffin_lim"]
    return figures


def _tokenizer_figures(networks: Networks, batches: list[dict]) -> dict[str, float]:
    distance = frames = 0.0
    used = np.zeros(networks.config.model.tokenizer.codes)
    for mel, recorded, lengths, _ in _rebuilt(networks, batches, speaker=False):
        there = tf.sequence_mask(lengths, tf.shape(mel)[1], tf.float32)
        apart = tf.reduce_mean(tf.abs(mel - recorded), -1)
        distance += float(tf.reduce_sum(apart * there))
        frames += float(tf.reduce_sum(there))
    for batch in batches:
        codes, lengths = networks.tokenizer.encode(batch["mel"], batch["mel_lengths"])
        real = tf.boolean_mask(codes, tf.sequence_mask(lengths, tf.shape(codes)[1])).numpy()
        used += np.bincount(real, minlength=len(used))
    share = used[used > 0] / used.sum()
    return {
        "tokenizer_mel_distance": distance / frames,
        "codes_in_use": float(np.exp(-(share * np.log(share)).sum())),
    }


def _gpt_figures(networks: Networks, batches: list[dict]) -> dict[str, float]:
    # Grouped by what each is a mean over.
    names = {"audio_accuracy": "codes", "audio_loss": "codes", "text_loss": "text"}
    sums, counts = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)

    @tf.function(reduce_retracing=True)
    def outputs(mel, mel_lengths, reference, reference_lengths, text, text_lengths):
        codes, code_lengths = networks.tokenizer.encode(mel, mel_lengths)
        latents = networks.conditioning(reference, reference_lengths)
        made = networks.gpt(
            latents, text=text, text_lengths=text_lengths, codes=codes, code_lengths=code_lengths
        )
        # Each has its stop token behind it.
        tokens = {"codes": code_lengths + 1, "text": text_lengths + 1}
        return made, {name: tf.reduce_sum(lengths) for name, lengths in tokens.items()}

    for batch in batches:
        made, tokens = outputs(
            batch["mel"],
            mel_lengths=batch["mel_lengths"],
            reference=batch["conditioning_mel"],
            reference_lengths=batch["conditioning_mel_lengths"],
            text=batch["text"],
            text_lengths=batch["text_lengths"],
        )
        for name, kind in names.items():
            sums[name] += float(made[name]) * float(tokens[kind])
            counts[name] += float(tokens[kind])
    means = {name: sums[name] / counts[name] for name in names}
    return {"code_accuracy": means.pop("audio_accuracy"), **means}


def _rebuilt(networks: Networks, batches: list[dict], speaker: bool = True) -> Iterator[tuple]:
    """(mel rebuilt from codes, recorded mel, lengths, speaker vectors)"""
    for batch in batches:
        recorded, lengths = batch["mel"], batch["mel_lengths"]
        mel = networks.tokenizer.decode(*networks.tokenizer.encode(recorded, lengths))
        reference = batch["conditioning_mel"], batch["conditioning_mel_lengths"]
        vectors = networks.speaker(*reference) if speaker else None
        yield mel[:, : tf.shape(recorded)[1]], recorded, lengths, vectors
