"""The GPT and conditioning of a published XTTS v2, fine-tuned as its publisher does."""

import dataclasses
from types import MappingProxyType

import tensorflow as tf

from dual_device_strategy import data_scope
from myxtts.model.whole_batch import for_this_replica
from myxtts.training.config import StageConfig
from myxtts.training.optimizer import Learner
from myxtts.training.stages.base import ClipMemory, Stage, float32
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate, left_out_codes, mirrored
from myxtts.xtts_v2.conditioning import LATENTS
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.networks import Published, make_conditioning, make_gpt
from myxtts.xtts_v2.sizes import CODE_RATE, CODE_SAMPLES

# Fitted: tensors that are alive at the fullest moment of a step (`tests/benchmarks/memory.py`).
_LAYER = 20.0  # by position and width, in a layer
_SCORES = 2.1  # by head and pair of positions
_LOGITS = 4.0  # by position and token
_ENCODER = 6.0  # by mel frame and width, in a layer of the conditioning encoder
_ENCODER_LAYERS = 6


class PublishedGptStage(Stage):
    """On the data device the clips become mels and the frozen DVAE makes their codes, a batch
    ahead. The networks start from what is in the run's `init/`."""

    name = "gpt"
    form = "xtts_v2"
    makes = MappingProxyType(
        {
            "conditioning": lambda model, _: make_conditioning(model.xtts_v2, Names(drawn=False)),
            "gpt": lambda model, _: make_gpt(model.xtts_v2, Names(drawn=False)),
        }
    )
    # The published trainer's, whose rate is for 1,024 channels and 252 clips a step.
    learning = StageConfig(
        learning_rate=5e-6,
        share=1.0,
        schedule="constant",
        warm_up_steps=0,
        weight_decay=0.01,
        beta_2=0.96,
        clip_norm=0.0,
        ema=0.0,
    )
    parts = ("loss", "audio_loss", "text_loss", "audio_accuracy")
    held_out = ("audio_loss", "text_loss", "audio_accuracy")
    makes_features = True

    @classmethod
    def restored(cls, at):
        source = PublishedDirectory.open(at.run.init)
        names = Names(drawn=False)
        with data_scope(), float32():
            dvae = Dvae(at.config.model.xtts_v2.dvae, names)
        names.read(source.need_dvae(), f"{source.path}/dvae.pth")
        made = cls(at, {"dvae": {"dvae": dvae}})
        made.source, made.mel_stats = source, tf.constant(source.mel_stats).numpy()
        made.read(source)
        made.restart_averages()
        return made

    def __init__(self, at, needed):
        super().__init__(at, needed)
        self.conditioning, self.gpt = self.networks.values()
        self.gpt.recompute = at.config.recompute
        self.dvae = needed["dvae"]["dvae"]
        learner = Learner(
            [self.conditioning, self.gpt],
            at.config.stage(self.name),
            not_decaying=[
                variable
                for network in self.networks.values()
                for variable in network.published_names.not_decaying
            ],
            as_torch=True,
        )
        self.learners = {"gpt": learner}
        self._voice = None  # made when something is to be heard

    def read(self, source: PublishedDirectory) -> None:
        """Gives the networks the weights in a published directory."""
        for network in self.networks.values():
            names = network.published_names
            there = {name: source.model[name] for name in names.shapes() if name in source.model}
            names.read(there, source.path)

    @property
    def states(self):
        return []

    @classmethod
    def width(cls, model):
        return 1024 if model.xtts_v2 is None else model.xtts_v2.args.gpt_n_model_channels

    @classmethod
    def usual_rate(cls, model):
        """Larger in proportion where the networks are narrower than the published ones."""
        return cls.learning.learning_rate * 1024 / cls.width(model)

    @classmethod
    def crop(cls, config):
        return config.model.xtts_v2.objective.crop

    @classmethod
    def make_frozen(cls, model, text_tokens):
        return {"dvae": Dvae(model.xtts_v2.dvae, Names(drawn=False))}

    @classmethod
    def clip_memory(cls, config, longest, text_tokens):
        args, audio = config.model.xtts_v2.args, config.model.audio
        width, heads = args.gpt_n_model_channels, args.gpt_n_heads
        at_mels = CODE_RATE / audio.sample_rate
        codes = longest.frames * audio.hop_length * at_mels / CODE_SAMPLES
        frames = longest.reference_frames * at_mels
        positions = LATENTS + longest.text_tokens + 2 + codes + 5
        layer = _LAYER * positions * width + _SCORES * heads * positions**2
        if config.recompute:
            kept = layer + args.gpt_layers * positions * width
        else:
            kept = args.gpt_layers * layer
        kept += _ENCODER_LAYERS * (_ENCODER * frames * width + _SCORES * heads * frames**2)
        kept += _LOGITS * (codes * args.gpt_num_audio_tokens + longest.text_tokens * text_tokens)
        return ClipMemory(kept, int(frames * 80 + longest.text_tokens + codes))

    def front_end(self, batch):
        objective = self.config.model.xtts_v2.objective
        rate = self.config.model.audio.sample_rate
        continued = mirrored if objective.padding == "mirrored" else lambda waveform, _: waveform
        waveform, lengths = at_mel_rate(batch["waveform"], batch["waveform_lengths"], rate)
        crop, crop_lengths = at_mel_rate(batch["conditioning"], batch["conditioning_lengths"], rate)
        crop = continued(crop, crop_lengths)
        mel = mels.log_mel(continued(waveform, lengths), self.mel_stats, mels.DVAE_FFT)
        most = -(-tf.shape(waveform)[1] // CODE_SAMPLES)
        start = tf.cast(
            tf.cast(batch["conditioning_starts"], tf.int64) * mels.RATE // rate, tf.int32
        )
        return {
            "key": batch["key"],
            "text": batch["text"],
            "text_lengths": batch["text_lengths"],
            "codes": self.dvae.codes_of(mel)[:, :most],
            "code_lengths": -(-lengths // CODE_SAMPLES),
            "conditioning_mel": mels.log_mel(crop, self.mel_stats, mels.CONDITIONING_FFT),
            "left_out": left_out_codes(objective, start, crop_lengths),
        }

    def _outputs(self, batch, seed=None, training=False):
        return self.gpt(
            self.conditioning(batch["conditioning_mel"]),
            text=batch["text"],
            text_lengths=batch["text_lengths"],
            codes=batch["codes"],
            code_lengths=batch["code_lengths"],
            seed=seed,
            training=training,
            left_out=batch["left_out"] if training else None,
        )

    def losses(self, batch, seed, phase):
        made = self._outputs(batch, for_this_replica(seed), True)
        return {"gpt": made["loss"]}, {name: made[name] for name in self.parts}

    def show(self, exhibits):
        from myxtts.xtts_v2.voice import PublishedVoice  # which needs all stages

        if self._voice is None:
            with data_scope(), float32():
                networks = Published.around(self.source, self.conditioning, self.gpt)
            self._voice = PublishedVoice(networks)
        clips = exhibits.clips
        for number, (ids, clip) in enumerate(exhibits.texts):
            length = int(clips["waveform_lengths"][clip])
            waveform = clips["waveform"][clip, :length].numpy().astype("float32") / 32768.0
            cloned = self._voice.clone([waveform])
            speaking = dataclasses.replace(self._voice.speaking, seed=number + 1)
            chunks = self._voice.sentence(ids, cloned, speaking)
            exhibits.sound(f"text{number}", tf.concat(list(chunks), 0))

    def evaluate(self, batch):
        made = self._outputs(batch)
        return {name: made[name] for name in self.held_out}
