"""The log: plain lines in a terminal, and all of it in the run directory.

Lines in a terminal are plain; log.txt in the run directory has them with absl's prefixes (level,
date, thread, file). Where the output goes into a file or a pipe, it has the prefixes as well.
"""

import logging as std_logging
import logging.handlers
import sys
from typing import TYPE_CHECKING

from absl import logging as absl_logging
from tqdm import tqdm

from myxtts import start_up

if TYPE_CHECKING:
    from myxtts.training.run_directory import RunDirectory

_kept = logging.handlers.MemoryHandler(100_000, flushLevel=std_logging.CRITICAL + 1)


def set_up() -> None:
    """Makes lines of the log plain in a terminal, puts them above bars, and keeps them until
    `write_to` says where they belong."""
    # It tells of every tensor that several machines add up.
    std_logging.getLogger("tensorflow").setLevel(std_logging.WARNING)
    handler = absl_logging.get_absl_handler().python_handler
    for one in (handler, _kept):
        one.addFilter(_is_ours)
    handler.setStream(_AboveBars())
    if start_up.is_terminal():
        absl_logging.get_absl_handler().setFormatter(Plain())
    absl_logging.get_absl_logger().addHandler(_kept)


def write_to(run: "RunDirectory") -> None:
    """Appends all lines to log.txt in the run directory, those from before this call too."""
    if _kept.target is not None:
        return
    file = std_logging.FileHandler(run.log_file, encoding="utf-8")
    file.setFormatter(absl_logging.PythonFormatter())
    _kept.setTarget(file)
    _kept.flush()
    _kept.flushLevel = std_logging.NOTSET  # from now on at once


class Plain(std_logging.Formatter):
    """Formats a line as its message alone, with "warning: " or "error: " where it is one."""

    def format(self, record: std_logging.LogRecord) -> str:
        text = super().format(record)
        more = record.levelno > std_logging.INFO
        return f"{record.levelname.lower()}: {text}" if more else text


class _AboveBars:
    """Log lines go above a progress bar, not into it."""

    def write(self, text: str) -> None:
        tqdm.write(text, file=sys.stderr, end="")

    def flush(self) -> None:
        sys.stderr.flush()

    def close(self) -> None:  # absl closes what it writes to
        self.flush()


def _is_ours(record: std_logging.LogRecord) -> bool:
    """TensorFlow reports such things as how long a checkpoint's callback took, in microseconds."""
    return record.levelno > std_logging.INFO or "/tensorflow/python/" not in record.pathname
