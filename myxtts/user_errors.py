"""The begin and end of commands, and errors that they find before they load anything large."""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from myxtts import UserError, start_up
from myxtts.command import console

_HELP = {"--help", "-help", "-h", "-?", "--helpshort", "--helpfull"}


def run_command(main: Callable[[list[str]], None], *, stopped: str = "stopped") -> None:
    """Runs a command: plain lines in a terminal, one sentence for a mistake or Ctrl-C.

    TensorFlow's start-up messages are left out until `main` calls `start_up.as_usual()`, which it
    does before it shows a bar.
    """
    start_up.quieten()

    def with_log(arguments: list[str]) -> None:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.INFO)
        console.set_up()
        try:
            main(arguments)
        except UserError as error:
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            sys.exit(stopped)

    try:
        app.run(with_log, flags_parser=parse_or_exit)
    finally:
        start_up.as_usual()


def parse_or_exit(argv: Sequence[str]) -> list[str]:
    """Parses the flags. Wrong ones end the command with one sentence and exit code 1 (absl would
    print FATAL); --help ends it with 0 (absl has 1)."""
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        sys.exit(f"error: {error}")
    except SystemExit:
        if not _HELP & set(argv[1:]):
            raise
        sys.exit(0)


def need_reference(path: str | os.PathLike) -> None:
    """Raises `UserError` if the recording does not exist."""
    if not os.path.exists(path):
        raise UserError(f"the reference {path} does not exist; give an audio file of the voice")
