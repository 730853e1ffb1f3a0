"""Stage three: the vocoder, on the mels that synthesis will give it."""

import dataclasses
import math

import tensorflow as tf

from dual_device_strategy import data_scope
from myxtts.model import vocoder_losses
from myxtts.model.discriminators import Discriminators
from myxtts.model.layers import salted, seed_of
from myxtts.model.vocoder_comparison import compare_vocoders
from myxtts.training import networks
from myxtts.training.checkpoints import read_weights
from myxtts.training.data import random_segment
from myxtts.training.optimizer import Learner
from myxtts.training.run_directory import load_networks
from myxtts.training.speaking import speak
from myxtts.training.stage import Stage, Surroundings

_SEGMENT = 2004  # see stage_tokenizer
_FEATURE_WEIGHT = 2.0
# Frames the tokenizer is given around a segment, so that its codes are nearly those of the whole
# clip, at a third of the cost.
_AROUND = 32


class VocoderStage(Stage):
    """On the data device the tokenizer takes the mels to codes and back, and the speaker encoder
    makes vectors of the references; segments are all of one shape."""

    name = "vocoder"
    parts = ("loss", "mel", "magnitude", "convergence", "adversarial", "features", "critics")
    # The corrections keep the mel what it is told to be, whatever the network does; what it learns
    # shows in the magnitudes.
    held_out = ("magnitude", "mel", "convergence")
    needs_waveform = True

    def __init__(self, at: Surroundings):
        super().__init__()
        self.config = at.config
        model = at.config.model
        self.networks = networks.make(self.name, model, at.text_tokens)
        self.vocoder = self.networks["vocoder"]
        self.learners = {"vocoder": Learner([self.vocoder], at.config.vocoder)}
        if model.vocoder.adversarial_from_step is not None:
            critics = Discriminators(model.vocoder)
            self.helpers = {"discriminators": critics}
            learning = dataclasses.replace(at.config.vocoder, ema=0.0)
            self.learners["discriminators"] = Learner([critics], learning)
        self.distance = vocoder_losses.ReconstructionLoss(model.audio)
        with data_scope(), at.frozen():
            frozen = networks.make("tokenizer", model, at.text_tokens)
        read_weights(at.run.weights("tokenizer"), frozen)
        self.tokenizer, self.speaker = frozen.values()
        self.run, self._gpt = at.run, None
        self._sound = tf.function(
            lambda mel, voice: self.vocoder(mel, voice),
            input_signature=[
                tf.TensorSpec([None, None, model.audio.n_mels]),
                tf.TensorSpec([None, model.speaker.size]),
            ],
        )

    @property
    def phases(self):
        start = self.config.model.vocoder.adversarial_from_step
        return (0,) if not start else (0, start)

    def front_end(self, batch):
        audio, stride = self.config.model.audio, self.tokenizer.config.stride
        size = self.config.model.vocoder.segment_frames
        around = -(-_AROUND // stride) * stride
        seed = salted(seed_of(batch["key"]), _SEGMENT)
        # Cut with the surroundings, at a place where the codes of the whole clip begin too.
        silence = math.log(audio.log_floor)
        mel = tf.pad(batch["mel"], [[0, 0], [around, around], [0, 0]], constant_values=silence)
        blocks = tf.reshape(
            _whole(mel, stride, silence), [tf.shape(mel)[0], -1, stride, audio.n_mels]
        )
        count = (size + 2 * around) // stride
        pieces, _, start = random_segment(
            blocks, (batch["mel_lengths"] + 2 * around) // stride, count, seed, silence
        )
        pieces = tf.reshape(pieces, [-1, count * stride, audio.n_mels])
        lengths = batch["mel_lengths"] + 2 * around - start * stride
        lengths = tf.clip_by_value(lengths, stride, count * stride)
        rebuilt = self.tokenizer.decode(*self.tokenizer.encode(pieces, lengths))
        waveform = tf.reshape(
            tf.cast(batch["waveform"], tf.float32) / 32768.0,
            [tf.shape(mel)[0], -1, audio.hop_length],
        )
        waveform = _taken(waveform, start * stride, size)
        return {
            "key": batch["key"],
            "mel": rebuilt[:, around : around + size],
            "waveform": tf.reshape(waveform, [-1, size * audio.hop_length]),
            "speaker": self.speaker(batch["conditioning_mel"], batch["conditioning_mel_lengths"]),
        }

    def losses(self, batch, seed, phase):
        made = self.vocoder(batch["mel"], batch["speaker"], training=True)
        figures = self.distance(batch["waveform"], made)
        if not self.helpers or phase < len(self.phases) - 1:
            return {"vocoder": figures["loss"]}, figures
        critics = self.helpers["discriminators"]
        scores, features = critics(made, training=True)
        real_scores, real_features = critics(batch["waveform"], training=True)
        figures["adversarial"] = vocoder_losses.adversarial_loss(scores)
        figures["features"] = vocoder_losses.feature_loss(real_features, features)
        figures["critics"] = vocoder_losses.discriminator_loss(real_scores, scores)
        figures["loss"] += figures["adversarial"] + _FEATURE_WEIGHT * figures["features"]
        return {"vocoder": figures["loss"], "discriminators": figures["critics"]}, figures

    def evaluate(self, batch):
        made = self.vocoder(batch["mel"], batch["speaker"])
        figures = self.distance(batch["waveform"], made)
        return {name: figures[name] for name in self.held_out}

    def show(self, exhibits):
        clips, audio = exhibits.clips, self.config.model.audio
        mels = self.tokenizer.decode(*self.tokenizer.encode(clips["mel"], clips["mel_lengths"]))
        voices = self.speaker(clips["conditioning_mel"], clips["conditioning_mel_lengths"])
        waveforms = self._sounded(exhibits, mels, voices)
        for i, frames in enumerate(clips["mel_lengths"].numpy()):
            exhibits.sound(f"clip{i}-vocoder", waveforms[i, : frames * audio.hop_length])
        self._gpt = self._gpt or load_networks(self.run.path, ("gpt",))
        if self._gpt.gpt is None:
            return
        spoken = speak(exhibits, self.tokenizer, self._gpt.conditioning, self._gpt.gpt)
        voice_of = dict(enumerate(reference for _, reference in exhibits.spoken()))
        for name, mel in spoken.items():
            voice = self.speaker(*voice_of[int(name.removeprefix("text"))])
            exhibits.mel(f"{name}/generated", mel)
            exhibits.sound(name, self._sounded(exhibits, mel[None], voice)[0])

    def judge(self, batches):
        def given():
            for batch in batches:
                lengths = batch["mel_lengths"]
                mel = self.tokenizer.decode(*self.tokenizer.encode(batch["mel"], lengths))
                reference = batch["conditioning_mel"], batch["conditioning_mel_lengths"]
                mel = mel[:, : tf.shape(batch["mel"])[1]]
                yield mel, batch["mel"], lengths, self.speaker(*reference)

        judged = compare_vocoders(self.vocoder, self.config.model.audio, given())
        return {"default_vocoder": judged.pop("default_vocoder"), "comparison": judged}

    def _sounded(self, exhibits, mels, voices):
        return exhibits.strategy.run(self._sound, (mels, voices))


def _whole(mel, stride, silence):
    """The mel with as many frames as whole codes have."""
    return tf.pad(mel, [[0, 0], [0, -tf.shape(mel)[1] % stride], [0, 0]], constant_values=silence)


def _taken(rows, start, size):
    """`size` rows from `start` on, zeros beyond the end."""
    rows = tf.pad(rows, [[0, 0], [0, size], [0, 0]])
    return tf.gather(rows, start[:, None] + tf.range(size)[None], batch_dims=1)
