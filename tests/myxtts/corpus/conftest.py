"""Small corpora, written to disk file by file."""

from pathlib import Path

import numpy as np
import pytest
import soundfile


@pytest.fixture
def write_audio():
    """write_audio(path, seconds=1.0, rate=22050, ...) writes a rising tone and returns the path."""

    def write(path, seconds=1.0, rate=22050, channels=1, subtype="PCM_16", level=0.3, samples=None):
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if samples is None:
            time = np.arange(int(seconds * rate)) / rate
            samples = level * np.sin(2 * np.pi * (200 + 100 * time) * time)
            samples = np.repeat(samples[:, None], channels, 1)
        kind = {".opus": "OGG", ".oga": "OGG"}.get(path.suffix)
        soundfile.write(path, samples, rate, subtype=subtype, format=kind)
        return path

    return write


@pytest.fixture
def ljspeech(tmp_path, write_audio):
    """ljspeech(12) lays out a corpus of that many good clips and returns its directory."""

    def lay_out(clips, root=tmp_path / "corpus", **audio):
        lines = []
        for i in range(clips):
            write_audio(root / "wavs" / f"c{i:03d}.wav", 0.5 + 0.01 * i, **audio)
            lines.append(f"c{i:03d}|Raw {i}|This is sentence number {i}.\n")
        (root / "metadata.csv").write_text("".join(lines), encoding="utf-8")
        return root

    return lay_out
