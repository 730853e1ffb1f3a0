"""Checks one clip: is it fit for training, and does it need a copy in the training format?

Runs in worker processes, so nothing here starts TensorFlow.
"""

import dataclasses
import functools
import hashlib
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np

from myxtts.config import PrepareConfig, from_json
from myxtts.corpus import wav
from myxtts.corpus.bad_clip import BadClip
from myxtts.corpus.formats import AUDIO_EXTENSIONS
from myxtts.corpus.workers import serve

# Goes up when the checks or the conversion change, so that clips are prepared again.
_VERSION = 1
# The highest 16-bit sample is 32767/32768; anything at it or above was cut off there.
_FULL_SCALE = 32767 / 32768


@dataclasses.dataclass(frozen=True)
class Clip:
    """The outcome for one clip. `copy` is the name of its copy, empty if the original is used.

    `detail` says more about the reason. For a clip that is used, it is the rate it was recorded at,
    if that is lower than the rate of the prepared corpus.
    """

    digest: str
    samples: int = 0
    data_offset: int = 0
    copy: str = ""
    trimmed: int = 0
    reason: str = ""
    detail: str = ""


def settings_key(settings: PrepareConfig) -> str:
    """A key that changes with every setting that affects the prepared clip."""
    text = f"{_VERSION} {sorted(dataclasses.asdict(settings).items())}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_path(root: Path, name: str) -> None:
    """Raises BadClip unless `name` is an audio file name that stays inside the corpus."""
    if not name:
        raise BadClip("path missing")
    parts = name.replace("\\", "/").split("/")
    if os.path.isabs(name) or ":" in parts[0]:
        raise BadClip("path escapes the corpus", "an absolute path")
    if ".." in parts:
        raise BadClip("path escapes the corpus", "it goes up with ../")
    if not name.isprintable():
        raise BadClip("unreadable", "the path holds control characters")
    extension = os.path.splitext(name)[1].lower()
    if extension not in AUDIO_EXTENSIONS:
        raise BadClip(
            "wrong extension", f"{extension or 'none'}, not one of {', '.join(AUDIO_EXTENSIONS)}"
        )
    path = os.path.join(root, name)
    folder = _real_folder(os.path.dirname(path))
    resolved = os.path.realpath(path) if os.path.islink(path) else os.path.join(folder, "")
    if not resolved.startswith(os.path.join(_real_folder(str(root)), "")):
        raise BadClip("path escapes the corpus", "a symbolic link leads out of it")


@functools.lru_cache(maxsize=1024)
def _real_folder(folder: str) -> str:
    """The folder with links resolved. Cached: resolving takes longer than anything else about a
    clip."""
    return os.path.realpath(folder)


def file_state(path: Path) -> tuple[int, int, int]:
    """(size, mtime, ctime): while these stay the same, the content is assumed to."""
    try:
        found = os.stat(path)
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else "unreadable"
        raise BadClip(reason, error.strerror or "") from None
    if not stat.S_ISREG(found.st_mode):
        raise BadClip("unreadable", "not a regular file")
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def digest_of(path: Path) -> str:
    state = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def prepare_clip(path: Path, copies: Path, settings: PrepareConfig, known: Clip | None) -> Clip:
    """Checks one clip and copies it if needed. `known` is the outcome of an earlier run."""
    digest = ""
    try:
        digest = digest_of(path)
        if known and known.digest == digest and (not known.copy or (copies / known.copy).exists()):
            return known
        return _prepare(path, copies, settings, digest)
    except BadClip as bad:
        return Clip(digest, reason=bad.reason, detail=bad.detail)
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.filename and Path(error.filename) != path:
            raise  # the disk of the copies is at fault, not the clip
        return Clip(digest, reason="unreadable", detail=_one_line(error))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _prepare(path: Path, copies: Path, settings: PrepareConfig, digest: str) -> Clip:
    if path.stat().st_size == 0:
        raise BadClip("empty", "the file holds no bytes")
    _check_content(path)
    header = wav.read_header(path) if path.suffix.lower() == ".wav" else None
    if header is not None and header.missing_bytes:
        raise BadClip("truncated", f"{header.missing_bytes} bytes of samples are missing")
    rate = settings.sample_rate
    plain = settings.trim_silence_db is None and settings.loudness_dbfs is None
    as_it_is = (
        plain
        and header is not None
        and header.pcm16
        and header.channels == 1
        and header.sample_rate == rate
        # The reader cuts 16-bit samples out of the file's bytes at this offset.
        and header.data_bytes % 2 == 0
    )
    audio, source_rate = _decode(path, settings)
    _check_samples(audio, settings)
    if as_it_is:
        _check_length(len(audio), rate, settings)
        return Clip(digest, len(audio), header.data_offset)
    audio = _convert(audio, source_rate, rate)
    trimmed = 0
    if settings.trim_silence_db is not None:
        kept = _trim(audio, settings.trim_silence_db, rate)
        trimmed, audio = len(audio) - len(kept), kept
    if settings.loudness_dbfs is not None:
        audio = _at_loudness(audio, settings.loudness_dbfs)
    _check_length(len(audio), rate, settings)
    pcm = np.clip(np.rint(audio * 32768.0), -32768, 32767).astype("<i2")
    name = f"{digest[:2]}/{digest}-{settings_key(settings)}.wav"
    wav.write_pcm16(copies / name, pcm.tobytes(), rate)
    return Clip(
        digest,
        samples=len(pcm),
        data_offset=44,
        copy=name,
        trimmed=trimmed,
        detail=f"{source_rate}" if source_rate < rate else "",
    )


def _check_content(path: Path) -> None:
    """Refuses a file whose first bytes are not of the kind that its extension says."""
    with open(path, "rb") as file:
        head = file.read(12)
    kinds = {".wav": b"RIFF", ".flac": b"fLaC", ".ogg": b"OggS", ".oga": b"OggS", ".opus": b"OggS"}
    extension = path.suffix.lower()
    others = [kind for kind in set(kinds.values()) if head.startswith(kind)]
    if others and kinds.get(extension) not in others:
        raise BadClip("wrong extension", f"{extension} holds {others[0].decode()} data")
    if extension == ".ogg" and not others:
        raise BadClip("unreadable", "no Ogg data in it")


def _decode(path: Path, settings: PrepareConfig) -> tuple[np.ndarray, int]:
    """(samples as float32 [frames, channels], sample rate). Long files are not read to the end."""
    import soundfile

    opened = False
    try:
        with soundfile.SoundFile(path) as file:
            opened = True
            rate, stated = file.samplerate, file.frames
            if stated > settings.max_seconds * rate and path.suffix.lower() != ".mp3":
                raise BadClip(*_too_long(stated / rate, settings))
            # One second more than allowed is enough to see that a clip is too long; an mp3 may not
            # state its length.
            audio = file.read(int((settings.max_seconds + 1) * rate), "float32", always_2d=True)
    except soundfile.SoundFileError as error:
        reason = "truncated" if opened else "unreadable"
        raise BadClip(reason, _one_line(error)) from None
    if len(audio) > settings.max_seconds * rate:
        raise BadClip(*_too_long(max(stated, len(audio)) / rate, settings))
    if _ogg_is_cut(path):
        raise BadClip("truncated", "the page that ends the stream is missing")
    if len(audio) == 0:
        raise BadClip("empty", "no samples")
    if len(audio) < stated:
        raise BadClip("truncated", f"{len(audio)} of {stated} samples could be decoded")
    return audio, rate


def _ogg_is_cut(path: Path) -> bool:
    """Whether the page that is marked as the last is missing or incomplete, as audio is then."""
    with open(path, "rb") as file:
        if file.read(4) != b"OggS":
            return False
        file.seek(max(0, path.stat().st_size - 65307 - 255))  # no page is longer
        tail = file.read()
    last = tail.rfind(b"OggS")
    if last < 0 or len(tail) < last + 27 or not tail[last + 5] & 4:
        return True
    sizes = tail[last + 27 : last + 27 + tail[last + 26]]
    return len(tail) < last + 27 + tail[last + 26] + sum(sizes)


def _too_long(seconds: float, settings: PrepareConfig) -> tuple[str, str]:
    return "too long", f"{seconds:.1f} s, the longest allowed is {settings.max_seconds:g} s"


def _check_length(samples: int, rate: int, settings: PrepareConfig) -> None:
    if samples < settings.min_seconds * rate:
        raise BadClip(
            "too short", f"{samples / rate:.2f} s, the shortest is {settings.min_seconds:g} s"
        )


def _check_samples(audio: np.ndarray, settings: PrepareConfig) -> None:
    if not np.isfinite(audio).all():
        raise BadClip("not a number", f"{int((~np.isfinite(audio)).sum())} samples are NaN or Inf")
    peak = float(np.abs(audio.mean(axis=1)).max())  # of the mono sum that is trained on
    peak_dbfs = 20 * np.log10(max(peak, 1e-10))
    if peak_dbfs < settings.silence_dbfs:
        raise BadClip("silent", f"peak {peak_dbfs:.1f} dBFS, below {settings.silence_dbfs:g}")
    clipped = float((np.abs(audio) >= _FULL_SCALE).mean())
    if clipped > settings.max_clipped:
        raise BadClip("clipped", f"{clipped:.1%} of samples, allowed {settings.max_clipped:.1%}")


def _convert(audio: np.ndarray, source_rate: int, rate: int) -> np.ndarray:
    mono = audio.mean(axis=1)
    if source_rate != rate:
        import soxr

        mono = soxr.resample(mono, source_rate, rate, quality="HQ")
    peak = float(np.abs(mono).max(initial=0.0))
    # Resampling and lossy codecs overshoot; turning the whole clip down avoids new clipping.
    return mono / peak if peak > 1.0 else mono


def _trim(audio: np.ndarray, below_peak_db: float, rate: int) -> np.ndarray:
    import librosa

    _, (start, end) = librosa.effects.trim(
        audio, top_db=below_peak_db, frame_length=1024, hop_length=256
    )
    margin = rate // 20  # soft beginnings and endings of words
    return audio[max(0, start - margin) : end + margin]


def _at_loudness(audio: np.ndarray, target_dbfs: float) -> np.ndarray:
    """Brings the RMS of the louder half of its 50 ms windows, which leaves out pauses, to the
    target."""
    size = min(len(audio), 1102)
    power = np.square(audio[: len(audio) // size * size].reshape(-1, size)).mean(axis=1)
    loud = float(np.sqrt(np.sort(power)[len(power) // 2 :].mean()))
    gain = 10 ** (target_dbfs / 20) / max(loud, 1e-6)
    peak = float(np.abs(audio).max())
    return audio * min(gain, 0.99 / peak)


def _serve() -> None:
    settings = json.loads(sys.argv[1])
    prepare = from_json(PrepareConfig, settings["prepare"])
    root, copies = Path(settings["root"]), Path(settings["copies"])

    def answer(request: dict) -> dict:
        known = Clip(**request["known"]) if request["known"] else None
        try:
            return dataclasses.asdict(prepare_clip(root / request["path"], copies, prepare, known))
        except OSError as error:
            return {"disk": f"{error.filename}: {error.strerror}"}

    serve(answer)


if __name__ == "__main__":
    _serve()
