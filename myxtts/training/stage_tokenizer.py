"""Stage one: the audio tokenizer, and beside it the speaker encoder."""

import math

import tensorflow as tf

from myxtts.model.griffin_lim import griffin_lim
from myxtts.model.layers import salted, seed_of
from myxtts.model.speaker import speaker_loss
from myxtts.training import networks
from myxtts.training.data import random_segment
from myxtts.training.optimizer import Learner
from myxtts.training.stage import Stage, Surroundings

# Uses of chance beside those of features and networks.
_MEL, _SPEAKER, _REFERENCE = 2001, 2002, 2003


class TokenizerStage(Stage):
    """Trains on short stretches of clips: codes do not depend on what is far away, and a step over
    whole clips costs several times as much."""

    name = "tokenizer"
    parts = ("loss", "reconstruction", "commitment", "perplexity", "speaker")
    held_out = ("reconstruction", "commitment", "perplexity", "speaker")

    def __init__(self, at: Surroundings):
        super().__init__()
        self.config = at.config
        self.networks = networks.make(self.name, at.config.model, at.text_tokens)
        self.tokenizer, self.speaker = self.networks.values()
        # One for each, so that neither's gradients shrink the other's when they are clipped.
        self.learners = {
            name: Learner([network], at.config.tokenizer) for name, network in self.networks.items()
        }

    def front_end(self, batch):
        seed = seed_of(batch["key"])
        silence = math.log(self.config.model.audio.log_floor)

        def cut(name, size, salt):
            lengths = batch[f"{name}_lengths"]
            return random_segment(batch[name], lengths, size, salted(seed, salt), silence)[:2]

        mel, mel_lengths = cut("mel", self.config.tokenizer_frames, _MEL)
        clip, clip_lengths = cut("mel", self.config.speaker_frames, _SPEAKER)
        reference, lengths = cut("conditioning_mel", self.config.speaker_frames, _REFERENCE)
        return {
            "key": batch["key"],
            "mel": mel,
            "mel_lengths": mel_lengths,
            "clip": clip,
            "clip_lengths": clip_lengths,
            "reference": reference,
            "reference_lengths": lengths,
            "speaker": batch["speaker"],
        }

    def losses(self, batch, seed, phase):
        made = self.tokenizer(batch["mel"], batch["mel_lengths"], seed=seed, training=True)
        speaker = self._speaker_loss(batch, True)
        figures = {**made["losses"], "perplexity": made["perplexity"], "speaker": speaker}
        figures["loss"] = made["loss"] + speaker
        return {"tokenizer": made["loss"], "speaker": speaker}, figures

    def evaluate(self, batch):
        made = self.tokenizer(batch["mel"], batch["mel_lengths"])
        speaker = self._speaker_loss(batch, False)
        return {**made["losses"], "perplexity": made["perplexity"], "speaker": speaker}

    def _speaker_loss(self, batch, training):
        clip = self.speaker(batch["clip"], batch["clip_lengths"], training=training)
        reference = self.speaker(batch["reference"], batch["reference_lengths"], training=training)
        return speaker_loss(clip, reference, batch["speaker"])

    def show(self, exhibits):
        clips = exhibits.clips
        audio = self.config.model.audio

        @tf.function
        def rebuilt(mel, mel_lengths):
            mel = self.tokenizer(mel, mel_lengths)["mel"]
            return mel, griffin_lim(mel, audio)

        mels, waveforms = exhibits.strategy.run(rebuilt, (clips["mel"], clips["mel_lengths"]))
        for i, frames in enumerate(clips["mel_lengths"].numpy()):
            exhibits.mel(f"clip{i}/target", clips["mel"][i, :frames])
            exhibits.mel(f"clip{i}/reconstructed", mels[i, :frames])
            exhibits.sound(f"clip{i}-reconstructed", waveforms[i, : frames * audio.hop_length])
