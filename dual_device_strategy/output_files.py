"""Files that a command writes when it has measured, tried before it begins to."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def writable(paths: dict[str, str | None]) -> Iterator[None]:
    """Makes sure that the files named (flag -> path) can be written, and what they hold stays.

    Files that were not there before, and got nothing, are not left behind.

    Raises:
      ValueError: naming the flag whose file cannot be written.
    """
    made = []
    for flag, path in paths.items():
        if not path:
            continue
        existed = Path(path).exists()
        try:
            with open(path, "a"):
                pass
        except OSError as error:
            _remove_empty(made)
            raise ValueError(
                f"--{flag}={path} cannot be written ({error.strerror}): name a file in a folder "
                "that exists and is yours to write to"
            ) from None
        if not existed:
            made.append(Path(path))
    try:
        yield
    finally:
        _remove_empty(made)


def _remove_empty(paths):
    for path in paths:
        if path.exists() and not path.stat().st_size:
            path.unlink()
