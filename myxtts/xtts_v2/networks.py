"""The networks of a published directory, for use and for training.

networks = Published.load(PublishedDirectory.open("XTTS-v2"))
codes = networks.dvae.codes_of(mels.log_mel(waveform, networks.mel_stats, mels.DVAE_FFT))
networks.directory().write("copy")      # all tensors as they are now
"""

import dataclasses
from collections.abc import Iterable

import keras
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
    """The GPT, with adapters if the model has them."""
    made = Gpt(
        model.args,
        names,
        start_text=model.start_text,
        stop_text=model.stop_text,
        objective=model.objective,
    )
    return _adapted(made, model, names)


def make_conditioning(model: PublishedModel, names: Names) -> Conditioning:
    """The conditioning, with adapters if the model has them."""
    return _adapted(Conditioning(model.args, model.conditioning, names), model, names)


def make_dvae(model: PublishedModel, names: Names) -> Dvae:
    """The DVAE, whose tensors are in a file of their own."""
    return _named(Dvae(model.dvae, names, revived=model.from_random), names)


def make_speaker(model: PublishedModel, names: Names) -> SpeakerEncoder:
    """The speaker encoder, which is trained only where all weights begin as random ones."""
    return _named(SpeakerEncoder(model.speaker, names), names)


def make_hifigan(model: PublishedModel, names: Names) -> HifiGan:
    """The HiFi-GAN; its weights are kept as length and direction, as published."""
    return _named(HifiGan(model.hifigan, names), names)


def read_published(network, source: PublishedDirectory) -> None:
    """Gives a network of one of these makers its tensors; UserError names what does not fit."""
    names = network.published_names
    if isinstance(network, Dvae):
        names.read(source.need_dvae(), f"{source.path}/dvae.pth")
    else:
        found = {name: source.model[name] for name in names.shapes() if name in source.model}
        names.read(found, source.path)


def check_published(source: PublishedDirectory) -> None:
    """UserError names a tensor that is missing, unknown or misshapen in any of the files. Takes a
    second at full size: values are not read, and the networks get no memory."""
    with keras.StatelessScope(initialize_variables=False):
        made = Published(source, drawn=False)
    made.names.check(source.model, source.path)
    if made.dvae is not None:
        made.dvae_names.check(source.dvae, f"{source.path}/dvae.pth")


def with_trained(source: PublishedDirectory, networks: Iterable) -> PublishedDirectory:
    """`source` with its tensors replaced by those of these networks."""
    model, dvae = dict(source.model), dict(source.dvae or {})
    for network in networks:
        names = network.published_names
        made = {name: value for name, value in names.tensors().items() if name in names.shapes()}
        (dvae if isinstance(network, Dvae) else model).update(made)
    return dataclasses.replace(source, model=model, dvae=dvae or None)


def _named(network, names):
    network.published_names = names
    return network


def _adapted(network, model, names):
    network.published_names = names
    if model.adapter_rank:
        names.adapt(model.adapter_rank, whole=TEXT_TABLES if model.added_tokens else ())
    return network


class Published:
    """The networks of a published directory, with the table of their published names.

    `load` reads the tensors of `source`; the constructor draws random ones. Variables are placed by
    the surrounding strategy scope. `directory` returns a directory with the present tensors, and
    the settings, vocabulary, voices and licence of `source`.
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
    def around(cls, source: PublishedDirectory, **networks) -> "Published":
        """For speaking with networks that are being trained, given by name. A speaker encoder or a
        HiFi-GAN that is not given is read from `source`."""
        made = cls.__new__(cls)
        made._begin(source, drawn=False)
        for name, make in (("speaker", make_speaker), ("hifigan", make_hifigan)):
            if name not in networks:
                networks[name] = make(source.sizes(), Names(drawn=False))
                read_published(networks[name], source)
        for name, network in networks.items():
            setattr(made, name, network)
        return made

    @classmethod
    def load(
        cls, source: PublishedDirectory, objective: Objective = PUBLISHED_OBJECTIVE
    ) -> "Published":
        """The networks with the tensors of `source`; UserError names one that is missing or does
        not fit."""
        made = cls(source, objective, drawn=False)
        made.names.read(source.model, source.path)
        if made.dvae is not None:
            made.dvae_names.read(source.dvae, f"{source.path}/dvae.pth")
        return made

    def directory(self) -> PublishedDirectory:
        """`source` with the present tensors."""
        dvae = None if self.dvae is None else self.dvae_names.tensors()
        return dataclasses.replace(self.source, model=self.names.tensors(), dvae=dvae)
