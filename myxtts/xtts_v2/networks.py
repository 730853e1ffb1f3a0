"""The networks of a published directory, for use and for training.

networks = Published.load(PublishedDirectory.open("XTTS-v2"))
codes = networks.dvae.codes_of(mels.log_mel(waveform, networks.mel_stats, mels.DVAE_FFT))
networks.directory().write("copy")      # all tensors as they are now
"""

import dataclasses

import numpy as np

from myxtts.xtts_v2.conditioning import Conditioning
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.dvae import Dvae
from myxtts.xtts_v2.gpt import Gpt
from myxtts.xtts_v2.hifigan import HifiGan
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.sizes import PUBLISHED_OBJECTIVE, Objective, PublishedModel
from myxtts.xtts_v2.speaker import SpeakerEncoder

TEXT_TABLES = ("gpt.text_embedding.weight", "gpt.text_head.bias")


def make_gpt(model: PublishedModel, names: Names) -> Gpt:
    """With adapters, where the model has them."""
    made = Gpt(
        model.args,
        names,
        start_text=model.start_text,
        stop_text=model.stop_text,
        objective=model.objective,
    )
    return _adapted(made, model, names)


def make_conditioning(model: PublishedModel, names: Names) -> Conditioning:
    """Likewise."""
    return _adapted(Conditioning(model.args, names), model, names)


def _adapted(network, model, names):
    network.published_names = names
    if model.adapter_rank:
        names.adapt(model.adapter_rank, whole=TEXT_TABLES if model.added_tokens else ())
    return network


class Published:
    """Networks by name, with the table of their published names. `source` is where they are from:
    its settings, vocabulary, voices and licence go on with them.

    Variables are made where the surrounding strategy scope puts them. Made so, they are random;
    `load` gives them the tensors of the source.
    """

    def __init__(
        self,
        source: PublishedDirectory,
        objective: Objective = PUBLISHED_OBJECTIVE,
        *,
        drawn: bool = True,
    ):
        model = source.sizes(objective)
        self._begin(source, drawn)
        self.conditioning = make_conditioning(model, self.names)
        self.gpt = make_gpt(model, self.names)
        self._add_sound(model)
        self.dvae = None
        if source.dvae is not None:
            self.dvae = Dvae(model.dvae, self.dvae_names)

    def _begin(self, source, drawn):
        self.source, self.dvae = source, None
        self.names, self.dvae_names = Names(drawn), Names(drawn)
        self.mel_stats = np.array(source.mel_stats, np.float32)
        self.names.carry("mel_stats", self.mel_stats)

    def _add_sound(self, model):
        self.speaker = SpeakerEncoder(model.speaker, self.names)
        self.hifigan = HifiGan(model.hifigan, self.names)

    @classmethod
    def around(cls, source: PublishedDirectory, conditioning, gpt) -> "Published":
        """To hear networks that are being trained: with the sound of `source`."""
        made = cls.__new__(cls)
        made._begin(source, drawn=False)
        made._add_sound(source.sizes())
        read = {name: value for name, value in source.model.items() if name.startswith("hifigan")}
        made.names.read(read, source.path)
        made.conditioning, made.gpt = conditioning, gpt
        return made

    @classmethod
    def load(
        cls, source: PublishedDirectory, objective: Objective = PUBLISHED_OBJECTIVE
    ) -> "Published":
        """With the tensors of `source`; UserError names one that is missing or does not fit."""
        made = cls(source, objective, drawn=False)
        made.names.read(source.model, source.path)
        if made.dvae is not None:
            made.dvae_names.read(source.dvae, f"{source.path}/dvae.pth")
        return made

    def directory(self) -> PublishedDirectory:
        """What `source` was, with the tensors as they are now."""
        dvae = None if self.dvae is None else self.dvae_names.tensors()
        return dataclasses.replace(self.source, model=self.names.tensors(), dvae=dvae)
