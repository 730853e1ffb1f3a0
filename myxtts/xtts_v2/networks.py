"""The networks of a published directory, for use and for training.

networks = Published.load(PublishedDirectory.open("XTTS-v2"))
codes = networks.dvae.codes_of(mels.log_mel(waveform, networks.mel_stats, mels.DVAE_FFT))
networks.directory().write("copy")      # all tensors as they are now
"""

import dataclasses
import json

import numpy as np

from myxtts.xtts_v2.conditioning import Conditioning
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.dvae import Dvae, DvaeSizes
from myxtts.xtts_v2.gpt import Gpt, Objective
from myxtts.xtts_v2.hifigan import HifiGan, HifiGanSizes
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.speaker import SpeakerEncoder, SpeakerSizes


class Published:
    """Networks by name, with the table of their published names. `source` is where they are from:
    its settings, vocabulary, voices and licence go on with them.

    Variables are made where the surrounding strategy scope puts them. Made so, they are random;
    `load` gives them the tensors of the source.
    """

    def __init__(self, source: PublishedDirectory, objective: Objective | None = None):
        self.source = source
        args, ids = source.config.model_args, json.loads(source.vocabulary)["model"]["vocab"]
        start, stop = args.gpt_start_text_token, args.gpt_stop_text_token
        self.names, self.dvae_names = Names(), Names()
        self.mel_stats = np.array(source.mel_stats, np.float32)
        self.names.carry("mel_stats", self.mel_stats)
        self.conditioning = Conditioning(args, self.names)
        self.gpt = Gpt(
            args,
            self.names,
            start_text=ids["[START]"] if start is None else start,
            stop_text=ids["[STOP]"] if stop is None else stop,
            objective=objective or Objective(),
        )
        self.speaker = SpeakerEncoder(SpeakerSizes.of(source.model), self.names)
        self.hifigan = HifiGan(HifiGanSizes.of(source.model), self.names)
        self.dvae = None
        if source.dvae is not None:
            self.dvae = Dvae(DvaeSizes.of(source.dvae), self.dvae_names)

    @classmethod
    def load(cls, source: PublishedDirectory, objective: Objective | None = None) -> "Published":
        """With the tensors of `source`; UserError names one that is missing or does not fit."""
        made = cls(source, objective)
        made.names.read(source.model, source.path)
        if made.dvae is not None:
            made.dvae_names.read(source.dvae, f"{source.path}/dvae.pth")
        return made

    def directory(self) -> PublishedDirectory:
        """What `source` was, with the tensors as they are now."""
        dvae = None if self.dvae is None else self.dvae_names.tensors()
        return dataclasses.replace(self.source, model=self.names.tensors(), dvae=dvae)
