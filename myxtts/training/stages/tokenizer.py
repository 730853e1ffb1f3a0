"""Stage one: the audio tokenizer, and with it the speaker encoder."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from myxtts.model.griffin_lim import griffin_lim
from myxtts.model.speaker import SpeakerEncoder, speaker_loss
from myxtts.model.tokenizer import AudioTokenizer
from myxtts.training.config import StageConfig, TrainConfig
from myxtts.training.exhibits import traced_once
from myxtts.training.optimizer import Learner
from myxtts.training.segments import random_segment
from myxtts.training.stages.base import ClipMemory, Stage

# Salts of the random cuts; those of features and networks are other numbers.
_MEL, _SPEAKER, _REFERENCE = 2001, 2002, 2003
_COLLAPSED = 4.0  # perplexity of the codes; hundreds are usual
# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_CONVOLUTION = 10.0  # by frame and tokenizer.width
_LOGITS = 4.0  # by code and entry of the codebook
_ENCODER = 10.0  # by frame, block and speaker.width


class TokenizerStage(Stage):
    """Trains on short stretches of clips: codes do not depend on what is far away, and a step over
    whole clips costs several times as much."""

    name = "tokenizer"
    makes = MappingProxyType(
        {
            "tokenizer": lambda model, _: AudioTokenizer(model.tokenizer, model.audio),
            "speaker": lambda model, _: SpeakerEncoder(model.speaker, model.audio.n_mels),
        }
    )
    learning = StageConfig(learning_rate=4e-3, share=0.25)
    fixed = ("tokenizer_frames", "speaker_frames")
    parts = ("loss", "reconstruction", "commitment", "perplexity", "speaker")
    held_out = ("reconstruction", "commitment", "perplexity", "speaker")

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.tokenizer, self.speaker = self.networks.values()
        # One for each, so that neither's gradients shrink the other's when they are clipped.
        learning = at.config.stage(self.name)
        self.learners = {n: Learner([network], learning) for n, network in self.networks.items()}
        self._rebuilt = traced_once(self._rebuild)

    @classmethod
    def width(cls, model):
        return model.tokenizer.width

    @classmethod
    def reference_seconds(cls, config):
        """As much as the speaker encoder looks at: what it does not see need not be read, nor made
        a mel of (a third of the front end's time)."""
        audio = config.model.audio
        seconds = config.speaker_frames * audio.hop_length / audio.sample_rate
        return seconds, seconds

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        tokenizer, speaker = config.model.tokenizer, config.model.speaker
        frames = config.tokenizer_frames
        kept = _CONVOLUTION * frames * tokenizer.width
        kept += _LOGITS * frames / tokenizer.stride * tokenizer.codes
        kept += _ENCODER * 2 * config.speaker_frames * speaker.blocks * speaker.width
        batch = (frames + 2 * config.speaker_frames) * config.model.audio.n_mels
        return ClipMemory(kept, batch)

    @classmethod
    def complaints(cls, config, figures):
        return collapsed(cls.name, config, figures, config.model.tokenizer.codes)

    def front_end(self, batch):
        silence = math.log(self.config.model.audio.log_floor)

        def cut(name, size, salt):
            lengths = batch[f"{name}_lengths"]
            return random_segment(
                batch[name],
                lengths=lengths,
                size=size,
                key=batch["key"],
                salt=salt,
                padding=silence,
            )[:2]

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

    def _rebuild(self, mel, mel_lengths):
        mel = self.tokenizer(mel, mel_lengths)["mel"]
        return mel, griffin_lim(mel, self.config.model.audio)

    def show(self, exhibits):
        clips = exhibits.clips
        audio = self.config.model.audio
        mels, waveforms = exhibits.run(self._rebuilt, clips["mel"], clips["mel_lengths"])
        for i, frames in enumerate(clips["mel_lengths"].numpy()):
            exhibits.mel(f"clip{i}/target", clips["mel"][i, :frames])
            exhibits.mel(f"clip{i}/reconstructed", mels[i, :frames])
            exhibits.sound(f"clip{i}-reconstructed", waveforms[i, : frames * audio.hop_length])


def collapsed(stage: str, config: TrainConfig, figures: Mapping, codes: int) -> list[str]:
    """The complaint about a codebook of which hardly any code is in use."""
    perplexity = figures.get("perplexity", float("inf"))
    if perplexity >= _COLLAPSED:
        return []
    return [
        f"the codebook has collapsed: of its {codes} codes as good as {perplexity:.1f} are in use "
        "(perplexity), so the codes say nothing of the speech. What they rebuild is flat, and a "
        "GPT finds them easy to guess. Train the tokenizer anew with a lower --tokenizer_lr (it "
        f"was {config.stage(stage).learning_rate:g}) or a larger --tokenizer_batch_size"
    ]
