"""Stage three: the vocoder, on the mels that synthesis will give it."""

import dataclasses
import math
from types import MappingProxyType

import tensorflow as tf

from myxtts.model import vocoder_losses
from myxtts.model.discriminators import Discriminators
from myxtts.model.vocoder import Vocoder
from myxtts.model.vocoder_comparison import compare_vocoders
from myxtts.training.config import StageConfig
from myxtts.training.exhibits import traced_once
from myxtts.training.optimizer import Learner
from myxtts.training.run_directory import default_vocoder
from myxtts.training.segments import padded_to_whole_codes, random_segment, segment_at
from myxtts.training.stages.base import ClipMemory, Stage

_SEGMENT = 2004  # salt of the random cut, see `tokenizer`
_FEATURE_WEIGHT = 2.0
# Frames the tokenizer is given around a segment, so that its codes are nearly those of the whole
# clip, at a third of the cost.
_AROUND = 32
# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_CONVNEXT = 14.0  # by frame, block and vocoder.width
_SPECTRA = 55.0  # by sample of a segment
_CRITICS = 62.0 / 8  # by sample, discriminator and discriminator_width


class VocoderStage(Stage):
    """The vocoder's stage. On the data device the tokenizer turns the mels into codes and back, and
    the speaker encoder makes vectors of the references; all segments have the same shape."""

    name = "vocoder"
    needs = ("tokenizer",)
    makes = MappingProxyType(
        {"vocoder": lambda model, _: Vocoder(model.vocoder, model.audio, model.speaker.size)}
    )
    learning = StageConfig(learning_rate=5e-4, share=0.09)
    parts = ("loss", "mel", "magnitude", "convergence", "adversarial", "features", "critics")
    # The corrections keep the mel at the requested one; what the network learns shows in the
    # magnitudes.
    held_out = ("magnitude", "mel", "convergence")
    needs_waveform = True

    def __init__(self, at, needed):
        super().__init__(at, needed)
        model, learning = at.config.model, at.config.stage(self.name)
        self.vocoder = self.networks["vocoder"]
        self.learners = {"vocoder": Learner([self.vocoder], learning)}
        for name, critics in self.helpers.items():
            self.learners[name] = Learner([critics], dataclasses.replace(learning, ema=0.0))
        self.distance = vocoder_losses.ReconstructionLoss(model.audio)
        self.tokenizer, self.speaker = needed["tokenizer"].values()
        self._speaking = None
        self._waveforms = traced_once(
            lambda mel, voice: self.vocoder(mel, voice),
            signature=[
                tf.TensorSpec([None, None, model.audio.n_mels]),
                tf.TensorSpec([None, model.speaker.size]),
            ],
        )

    @classmethod
    def make_helpers(cls, model):
        if model.vocoder.adversarial_from_step is None:
            return {}
        return {"discriminators": Discriminators(model.vocoder)}

    @classmethod
    def width(cls, model):
        return model.vocoder.width

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        vocoder, audio = config.model.vocoder, config.model.audio
        samples = vocoder.segment_frames * audio.hop_length
        kept = _CONVNEXT * (vocoder.segment_frames + 3) * vocoder.blocks * vocoder.width
        kept += _SPECTRA * samples
        if vocoder.adversarial_from_step is not None:
            critics = len(vocoder.discriminator_periods) + len(vocoder.discriminator_frames)
            kept += _CRITICS * critics * samples * vocoder.discriminator_width
        batch = vocoder.segment_frames * audio.n_mels + samples + config.model.speaker.size
        return ClipMemory(kept, batch)

    @classmethod
    def report_lines(cls, result):
        distances = result["comparison"].items()
        return [
            "Distance to the recordings, as log-mels of held-out clips: "
            + ", ".join(f"{name} {value:.4f}" for name, value in distances)
            + f". Synthesis uses {default_vocoder(result)} unless --vocoder says otherwise."
        ]

    @property
    def phases(self):
        start = self.config.model.vocoder.adversarial_from_step
        return (0,) if not start else (0, start)

    def front_end(self, batch):
        audio, stride = self.config.model.audio, self.tokenizer.config.stride
        size = self.config.model.vocoder.segment_frames
        around = -(-_AROUND // stride) * stride
        # Cut with the surroundings, at a place where the codes of the whole clip begin too.
        silence = math.log(audio.log_floor)
        mel = tf.pad(batch["mel"], [[0, 0], [around, around], [0, 0]], constant_values=silence)
        mel = padded_to_whole_codes(mel, stride, silence)
        blocks = tf.reshape(mel, [tf.shape(mel)[0], -1, stride, audio.n_mels])
        count = (size + 2 * around) // stride
        pieces, _, start = random_segment(
            blocks,
            lengths=(batch["mel_lengths"] + 2 * around) // stride,
            size=count,
            key=batch["key"],
            salt=_SEGMENT,
            padding=silence,
        )
        pieces = tf.reshape(pieces, [-1, count * stride, audio.n_mels])
        lengths = batch["mel_lengths"] + 2 * around - start * stride
        lengths = tf.clip_by_value(lengths, stride, count * stride)
        rebuilt = self.tokenizer.decode(*self.tokenizer.encode(pieces, lengths))
        waveform = tf.reshape(
            tf.cast(batch["waveform"], tf.float32) / 32768.0,
            [tf.shape(mel)[0], -1, audio.hop_length],
        )
        waveform = segment_at(waveform, start * stride, size)
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
        figures |= vocoder_losses.judged(critics, batch["waveform"], made)
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
        waveforms = exhibits.run(self._waveforms, mels, voices)
        for i, frames in enumerate(clips["mel_lengths"].numpy()):
            exhibits.sound(f"clip{i}-vocoder", waveforms[i, : frames * audio.hop_length])
        self._speaking = self._speaking or self.surroundings.trained("gpt")
        if self._speaking is None:
            return
        references = exhibits.references()
        for name, mel in exhibits.spoken(self.tokenizer, **self._speaking).items():
            voice = self.speaker(*references[name])
            exhibits.mel(f"{name}/generated", mel)
            waveform = exhibits.run(self._waveforms, mel[None], voice)[0]
            exhibits.sound(name, waveform)

    def judge(self, batches):
        def rebuilt():
            for batch in batches:
                lengths = batch["mel_lengths"]
                mel = self.tokenizer.decode(*self.tokenizer.encode(batch["mel"], lengths))
                reference = batch["conditioning_mel"], batch["conditioning_mel_lengths"]
                mel = mel[:, : tf.shape(batch["mel"])[1]]
                yield mel, batch["mel"], lengths, self.speaker(*reference)

        judged = compare_vocoders(self.vocoder, self.config.model.audio, rebuilt())
        return {"default_vocoder": judged.pop("default_vocoder"), "comparison": judged}
