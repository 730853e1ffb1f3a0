"""WAV files on disk: where the samples begin, and whether all of them are there."""

import contextlib
import dataclasses
import os
import struct
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

_PCM = 1
_EXTENSIBLE = 0xFFFE
# Recorders that write to a pipe cannot go back to fill in the sizes.
_SIZE_UNKNOWN = (0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x7FFFF000)


@dataclasses.dataclass(frozen=True)
class WavHeader:
    pcm16: bool
    channels: int
    sample_rate: int
    data_offset: int
    data_bytes: int
    missing_bytes: int


def read_header(path: str | os.PathLike) -> WavHeader | None:
    """What the chunks say, or None if they make no sense. `missing_bytes` counts what was cut
    off."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        riff = file.read(12)
        if len(riff) < 12 or riff[:4] != b"RIFF" or riff[8:] != b"WAVE":
            return None
        form = None
        while len(head := file.read(8)) == 8:
            name, length = struct.unpack("<4sI", head)
            if name == b"data":
                if form is None:
                    return None
                start = file.tell()
                there = size - start
                if length in _SIZE_UNKNOWN and length > there:
                    length = there
                tag, channels, rate, _, _, bits = form
                pcm16 = tag == _PCM and bits == 16
                return WavHeader(
                    pcm16,
                    channels=channels,
                    sample_rate=rate,
                    data_offset=start,
                    data_bytes=min(length, there),
                    missing_bytes=max(0, length - there),
                )
            if name == b"fmt ":
                body = file.read(length)
                if len(body) < 16:
                    return None
                form = struct.unpack("<HHIIHH", body[:16])
                if form[0] == _EXTENSIBLE and len(body) >= 26:
                    form = (struct.unpack("<H", body[24:26])[0], *form[1:])
                file.seek(length % 2, os.SEEK_CUR)
            else:
                file.seek(length + length % 2, os.SEEK_CUR)
    return None


def write_pcm16(path: Path, samples: bytes, sample_rate: int) -> None:
    """Writes mono 16-bit samples. A file that is not complete never appears under this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with wave.open(str(partial), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples)
    os.replace(partial, path)


@contextlib.contextmanager
def chunk_writer(out: Path, sample_rate: int) -> Iterator[Callable[[bytes], None]]:
    """A function that appends samples; what has been written can be played at any time."""
    if str(out) == "-" or out.suffix == ".raw":
        with contextlib.ExitStack() as stack:
            raw = sys.stdout.buffer if str(out) == "-" else stack.enter_context(open(out, "wb"))

            def write(samples: bytes) -> None:
                raw.write(samples)
                raw.flush()

            yield write
        return
    with open(out, "wb") as file, wave.open(file, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(sample_rate)

        def write(samples: bytes) -> None:
            recording.writeframes(samples)  # updates the sizes in the header, too
            file.flush()

        yield write
