"""Mistakes that commands find before they load anything large."""

import os
import sys
from collections.abc import Sequence

from absl import flags

from myxtts import UserError


def parse_or_exit(argv: Sequence[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_or_exit)`: flags that cannot be read end the command
    with one sentence and exit code 1, where absl would print FATAL."""
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        sys.exit(f"error: {error}")


def need_reference(path: str | os.PathLike) -> None:
    """Raises `UserError` where there is no such recording."""
    if not os.path.exists(path):
        raise UserError(f"the reference {path} does not exist; give an audio file of the voice")
