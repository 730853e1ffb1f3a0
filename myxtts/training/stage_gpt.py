"""Stage two: the GPT with its conditioning, on the codes of the trained tokenizer."""

import tensorflow as tf

from dual_device_strategy import data_scope
from myxtts.model.griffin_lim import griffin_lim
from myxtts.training import networks
from myxtts.training.checkpoints import read_weights
from myxtts.training.optimizer import Learner
from myxtts.training.speaking import speak
from myxtts.training.stage import Stage, Surroundings

_NEEDED = ("conditioning_mel", "conditioning_mel_lengths", "text", "text_lengths", "key")


class GptStage(Stage):
    """The tokenizer lives on the data device and makes the codes there, a batch ahead."""

    name = "gpt"
    parts = ("loss", "audio_loss", "text_loss", "audio_accuracy")
    held_out = ("audio_loss", "text_loss", "audio_accuracy")

    def __init__(self, at: Surroundings):
        super().__init__()
        self.config = at.config
        self.networks = networks.make(self.name, at.config.model, at.text_tokens)
        self.conditioning, self.gpt = self.networks.values()
        self.learners = {"gpt": Learner([self.conditioning, self.gpt], at.config.gpt)}
        with data_scope(), at.frozen():
            frozen = networks.make("tokenizer", at.config.model, at.text_tokens)
        read_weights(at.run.weights("tokenizer"), frozen)
        self.tokenizer = frozen["tokenizer"]

    def front_end(self, batch):
        codes, code_lengths = self.tokenizer.encode(batch["mel"], batch["mel_lengths"])
        needed = {name: batch[name] for name in _NEEDED}
        return {**needed, "codes": codes, "code_lengths": code_lengths}

    def _outputs(self, batch, seed=None, training=False, **options):
        mel, lengths = batch["conditioning_mel"], batch["conditioning_mel_lengths"]
        latents = self.conditioning(mel, lengths, seed=seed, training=training)
        return self.gpt(
            latents,
            batch["text"],
            batch["text_lengths"],
            batch["codes"],
            batch["code_lengths"],
            seed=seed,
            training=training,
            **options,
        )

    def losses(self, batch, seed, phase):
        made = self._outputs(batch, seed, True)
        return {"gpt": made["loss"]}, {name: made[name] for name in self.parts}

    def evaluate(self, batch):
        made = self._outputs(batch)
        return {name: made[name] for name in self.held_out}

    def show(self, exhibits):
        clips = self.front_end(exhibits.clips)

        @tf.function
        def attention(batch):
            return self._outputs(batch, return_attention=True)["attention"]

        looked = exhibits.strategy.run(attention, (clips,))
        rows = zip(
            looked, clips["code_lengths"].numpy(), clips["text_lengths"].numpy(), strict=True
        )
        for i, (weights, codes, tokens) in enumerate(rows):
            exhibits.attention(f"clip{i}/attention", weights[: codes + 1, : tokens + 2])
        mels = speak(exhibits, self.tokenizer, self.conditioning, self.gpt)
        for name, mel in mels.items():
            exhibits.mel(f"{name}/generated", mel)
            exhibits.sound(name, griffin_lim(mel, self.config.model.audio))
