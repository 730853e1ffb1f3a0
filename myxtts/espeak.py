"""The espeak-ng synthesizer, from the library and voices of PyPI's espeakng-loader.

The library holds one voice and one state per process, and is not made for threads; a lock keeps
callers apart. What it says depends slightly on what it said before (a running vibrato), so speech
that must be repeatable is made by a fresh state each time: see `corpus.embedded`.
"""

import ctypes
import functools
import re
import threading

from myxtts import UserError

_SYNCHRONOUS = 2
_DO_NOT_EXIT = 0x8000  # the library would end the process when its data are missing
_UTF8 = 1
_IPA = 0x02
_RATE, _PITCH, _RANGE = 1, 3, 4
_MARKS = re.compile(r"([.,!?;:،؛؟\"()]+)")


class Espeak:
    """One per process; see `espeak()`."""

    def __init__(self):
        try:
            import espeakng_loader
        except ImportError:
            raise UserError(
                "espeak-ng is not installed; install it with `pip install espeakng-loader` "
                "(or this package with its demo extra: `pip install '.[demo]'`)"
            ) from None
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._lock = threading.Lock()
        self._said: list[bytes] = []
        data = espeakng_loader.get_data_path().encode()
        self.sample_rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, data, _DO_NOT_EXIT)
        if self.sample_rate <= 0:
            raise UserError(f"espeak-ng cannot read its voices in {data.decode()}; reinstall it")
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._hear)  # kept: the library does not hold it
        self._library.espeak_SetSynthCallback(self._callback)
        # Breath and hoarseness of some voices are noise, from a generator seeded with the time.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        ctypes.CDLL(None).srand(1)
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p

    def _hear(self, samples, count, events) -> int:
        if samples and count > 0:
            self._said.append(ctypes.string_at(samples, 2 * count))
        return 0

    def list_voices(self) -> None:
        """Reads the list of voices, which every process forked from this one would do for itself:
        a fifth of the time of a clip."""
        self._library.espeak_ListVoices(None)

    def _select(self, voice: str) -> None:
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise UserError(f"espeak-ng has no voice {voice!r}")

    def say(
        self, text: str, voice: str, *, rate: int = 175, pitch: int = 50, pitch_range: int = 50
    ) -> bytes:
        """16-bit mono samples at `sample_rate`. `voice` is a language, or language+variant."""
        with self._lock:
            self._said.clear()
            self._select(voice)
            for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
                self._library.espeak_SetParameter(parameter, value, 0)
            encoded = text.encode()
            failed = self._library.espeak_Synth(
                encoded, ctypes.c_size_t(len(encoded) + 1), 0, 0, 0, _UTF8, None, None
            )
            if failed:
                raise RuntimeError(f"espeak-ng could not say {text!r} (status {failed})")
            self._library.espeak_Synchronize()
            return b"".join(self._said)

    def phonemes(self, text: str, voice: str) -> str:
        """The text in the International Phonetic Alphabet, its punctuation marks kept."""
        with self._lock:
            self._select(voice)
            spoken = [
                part if _MARKS.fullmatch(part) else self._phonemes(part)
                for part in _MARKS.split(text)
            ]
            return re.sub(r" +", " ", "".join(spoken)).strip()

    def _phonemes(self, clause: str) -> str:
        if not clause.strip():
            return clause
        buffer = ctypes.create_string_buffer(clause.encode())
        position = ctypes.c_void_p(ctypes.addressof(buffer))
        spoken = []
        while position.value:
            found = self._library.espeak_TextToPhonemes(ctypes.byref(position), _UTF8, _IPA)
            spoken.append((found or b"").decode())
        before = " " if clause[0].isspace() else ""
        after = " " if clause[-1].isspace() else ""
        return before + " ".join(" ".join(spoken).split()) + after


@functools.lru_cache(maxsize=1)
def espeak() -> Espeak:
    """The process's synthesizer, started on first use; a UserError where it is not installed."""
    return Espeak()
