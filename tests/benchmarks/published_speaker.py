"""How a published-form model sounds, and what its DVAE keeps of speech.

    speaker = Speaker(directory, reference)              # a clip of the voice at 24,000 Hz
    by_hifigan, by_griffin_lim, ended = speaker.say("cold lake.", speaker.speaking)
    what_codes_keep = speaker.coded(recording)
"""

import dataclasses
from pathlib import Path

import librosa
import numpy as np
import tensorflow as tf

from myxtts.config import Speaking
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.clips import at_mel_rate
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.names import Names
from myxtts.xtts_v2.networks import make_dvae, read_published
from myxtts.xtts_v2.sizes import CODE_SAMPLES
from myxtts.xtts_v2.voice import PublishedVoice

RATE = 24000


class Speaker:
    """Says texts in the voice of a clip: by the HiFi-GAN, and by Griffin-Lim from the codes."""

    def __init__(self, directory: Path, reference: np.ndarray):
        source = PublishedDirectory.open(directory)
        self.voice = PublishedVoice.of(source)
        self._cloned = self.voice.clone([reference])
        self._dvae = make_dvae(source.sizes(), Names(drawn=False))
        read_published(self._dvae, source)
        self._stats = np.asarray(source.mel_stats)
        self._bins = np.linalg.pinv(mels._filters(mels.RATE, mels.DVAE_FFT, 80, "slaney"))

    @property
    def speaking(self) -> Speaking:
        return dataclasses.replace(self.voice.speaking, temperature=0.5, repetition_penalty=1.0)

    def say(self, text: str, speaking: Speaking, plain: bool = True) -> tuple:
        """`(by HiFi-GAN at 24,000 Hz, by Griffin-Lim at 22,050 Hz, whether it ended)`"""
        gpt, hifigan = self.voice.networks.gpt, self.voice.networks.hifigan
        ids = self.voice.tokens.encode(text, "en")
        most = gpt.max_codes
        codes, latents, _ = next(
            self.voice.codes(ids, self._cloned, speaking, first=most, every=most)
        )
        count = latents.shape[1]
        hops = int(hifigan.hops(count))
        sound = self.voice.sound(latents, self._cloned.speaker, total=count, begin=0, end=hops)
        ended = int(codes[-1]) == gpt.stop_code
        return sound, self._plain(codes[:-1] if ended else codes) if plain else None, ended

    def coded(self, recording: np.ndarray) -> np.ndarray:
        """What the codes keep of a recording at 24,000 Hz, by Griffin-Lim."""
        whole = tf.constant(np.round(recording[None] * 32767.0).astype(np.int16))
        waveform, lengths = at_mel_rate(whole, tf.shape(whole)[1:], RATE)
        mel = mels.log_mel(waveform, self._stats, mels.DVAE_FFT)
        return self._plain(self._dvae.codes_of(mel)[0, : -(-int(lengths[0]) // CODE_SAMPLES)])

    def _plain(self, codes):
        codes = tf.minimum(codes, self._dvae.codebook.vectors.shape[0] - 1)
        if not len(codes):
            return np.zeros(mels.RATE // 10, np.float32)
        mel = self._dvae.mel_of(codes[None])[0].numpy()
        power = np.maximum(np.exp(mel * self._stats) @ self._bins, 1e-10)
        return librosa.griffinlim(
            np.sqrt(power.T), n_iter=32, hop_length=256, n_fft=1024, random_state=0
        )
